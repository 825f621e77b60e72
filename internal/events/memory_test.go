package events_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"warrantgate.dev/internal/events"
)

// On kcp a tenant can impersonate users with any names in its own workspace, and an API server accepts names of almost a MiB. The memory
// for a name and a message must not depend on their length.
func TestLongNamesAndMessagesAreNotKept(t *testing.T) {
	const count, size, limit = 100, 900 << 10, 32 << 20
	recorder := events.NewRecorder(&fakeWriter{t: t})
	events.Permit(recorder)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range count {
		long := fmt.Sprintf("%d-", i) + strings.Repeat("x", size)
		recorder.Record(workspaceEvent(withMessage("User "+long+" tried"), func(e *events.Event) { e.By = long }))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+limit {
		t.Errorf("%d Events keep %d MiB, more than %d", count, (after.HeapAlloc-before.HeapAlloc)>>20, limit>>20)
	}
	runtime.KeepAlive(recorder)
}
