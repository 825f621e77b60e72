package events_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

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

// On kcp a tenant can register a webhook in its workspace that changes the Events there.
func TestEventsThatAWebhookMakesLongAreNotKept(t *testing.T) {
	const size = 900 << 10
	answers := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			fmt.Fprint(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
			return
		}
		fmt.Fprintf(w, `{"kind":"Event","apiVersion":"v1","count":1,"message":"%s-%s"}`, rand.String(8), strings.Repeat("x", size))
		answers <- struct{}{}
	}))
	defer server.Close()
	writer, err := events.NewKCPWriter(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewRecorder(writer)
	ctx, cancel := context.WithCancel(logf.IntoContext(t.Context(), logr.Discard()))
	var running sync.WaitGroup
	running.Go(func() { _ = recorder.Start(ctx) }) // it returns nil
	growsLittle(t, func() {
		for i := range many {
			recorder.Record(workspaceEvent(func(e *events.Event) { e.Object.Name = fmt.Sprintf("team-%d", i) }))
		}
		for range many {
			<-answers
		}
	})
	cancel()
	running.Wait()
	runtime.KeepAlive(recorder)
}

const many = 100

// keepsLittle records many Events, and fails if they take much memory.
func keepsLittle(t *testing.T, event func(i int) events.Event) {
	t.Helper()
	recorder := events.NewRecorder(&fakeWriter{t: t})
	growsLittle(t, func() {
		for i := range many {
			recorder.Record(event(i))
		}
	})
	runtime.KeepAlive(recorder)
}

// growsLittle fails if much memory is in use after do.
func growsLittle(t *testing.T, do func()) {
	t.Helper()
	const limit = 32 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	do()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+limit {
		t.Errorf("%d Events keep %d MiB, more than %d", many, (after.HeapAlloc-before.HeapAlloc)>>20, limit>>20)
	}
}
