package events_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/events"
)

// An Event can be about the owner of an object that is not created. A tenant can write almost a MiB into an owner reference.
func TestLongReferencesAreNotKept(t *testing.T) {
	const size = 900 << 10
	for name, set := range map[string]func(object *corev1.ObjectReference, value string){
		"version":   func(object *corev1.ObjectReference, value string) { object.APIVersion = value },
		"kind":      func(object *corev1.ObjectReference, value string) { object.Kind = value },
		"namespace": func(object *corev1.ObjectReference, value string) { object.Namespace = value },
		"name":      func(object *corev1.ObjectReference, value string) { object.Name = value },
		"UID":       func(object *corev1.ObjectReference, value string) { object.UID = types.UID(value) },
	} {
		t.Run(name, func(t *testing.T) {
			keepsLittle(t, func(i int) events.Event {
				return workspaceEvent(func(e *events.Event) {
					e.By = "mallory"
					set(&e.Object, fmt.Sprintf("%d-", i)+strings.Repeat("x", size))
				})
			})
		})
	}
}

// On kcp a tenant can impersonate users with any names in its own workspace, and an API server accepts names of almost a MiB. The memory
// for a name and a message must not depend on their length.
func TestLongNamesAndMessagesAreNotKept(t *testing.T) {
	const size = 900 << 10
	keepsLittle(t, func(i int) events.Event {
		long := fmt.Sprintf("%d-", i) + strings.Repeat("x", size)
		return workspaceEvent(withMessage("User "+long+" tried"), func(e *events.Event) { e.By = long })
	})
}

// keepsLittle records many Events, and fails if they take much memory.
func keepsLittle(t *testing.T, event func(i int) events.Event) {
	t.Helper()
	const count, limit = 100, 32 << 20
	recorder := events.NewRecorder(&fakeWriter{t: t})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range count {
		recorder.Record(event(i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+limit {
		t.Errorf("%d Events keep %d MiB, more than %d", count, (after.HeapAlloc-before.HeapAlloc)>>20, limit>>20)
	}
	runtime.KeepAlive(recorder)
}
