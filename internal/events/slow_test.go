package events_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/events"
)

// The owner of a logical cluster can register a webhook there that delays each Event. The Events of other logical clusters must not wait
// for all of these.
func TestASlowLogicalClusterDelaysOthersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{}
		writer := server.writer(t)
		var mu sync.Mutex
		var written []time.Duration
		begin := time.Now()
		var delayed atomic.Bool
		delayed.Store(true)
		writer.create = func(ctx context.Context, at logicalcluster.Name, event *corev1.Event) (*corev1.Event, error) {
			if at == cluster && delayed.Load() {
				<-ctx.Done()
				return nil, fmt.Errorf("post: %w", ctx.Err())
			}
			mu.Lock()
			defer mu.Unlock()
			written = append(written, time.Since(begin))
			return server.create(ctx, at, event)
		}
		recorder, stop := start(t, writer)
		defer stop()
		named := func(at logicalcluster.Name, i int) {
			recorder.Record(workspaceEvent(func(e *events.Event) { e.Cluster, e.Object.Name = at, fmt.Sprintf("team-%d", i) }))
		}
		for i := range 20 {
			named(cluster, i)
		}
		named(otherCluster, 0)
		<-time.After(requestTimeout + time.Second)
		mu.Lock()
		if len(written) != 1 || written[0] > requestTimeout {
			t.Errorf("Events of the other logical cluster were written after %v", written)
		}
		mu.Unlock()

		// The recorder tries again later.
		delayed.Store(false)
		named(cluster, 21)
		<-time.After(2 * time.Minute)
		named(cluster, 22)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(written) != 2 {
			t.Errorf("%d Events were written, want one more", len(written))
		}
	})
}
