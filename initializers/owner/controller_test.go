package owner

import (
	"context"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A replica that is stopped, or loses the Lease, in the moment in which workspaces become due, has to end like any other.
func TestRunEndsWhileRequestsBecomeDue(t *testing.T) {
	ended := make(chan struct{})
	const controllers = 20
	for range controllers {
		ctx, cancel := context.WithCancel(t.Context())
		requests := source.TypedFunc[request](func(ctx context.Context, queue queue) error {
			if _, ok := queue.(priorityqueue.PriorityQueue[request]); !ok {
				t.Error("the queue ignores priorities, by which repeated checks give way to first ones")
			}
			go func() {
				for n := 0; ctx.Err() == nil; n++ {
					queue.Add(request{Name: strconv.Itoa(n)})
				}
			}()
			return nil
		})
		go func() {
			run(ctx, "test", controller.TypedOptions[request]{
				Reconciler: reconcile.TypedFunc[request](func(context.Context, request) (reconcile.Result, error) { return reconcile.Result{}, nil }),
			}, requests)
			ended <- struct{}{}
		}()
		time.AfterFunc(5*time.Millisecond, cancel)
	}
	for range controllers {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("run() does not return after its context has ended")
		}
	}
}
