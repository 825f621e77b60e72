package owner

import (
	"context"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A replica that is stopped, or loses the Lease, in the moment in which workspaces become due, has to end like any other.
func TestRunEndsWhileRequestsBecomeDue(t *testing.T) {
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		requests := source.TypedFunc[request](func(ctx context.Context, queue queue) error {
			go func() {
				for ; ctx.Err() == nil; n++ {
					queue.Add(request{Name: strconv.Itoa(n)})
				}
			}()
			return nil
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			run(ctx, "test", controller.TypedOptions[request]{
				Reconciler: reconcile.TypedFunc[request](func(context.Context, request) (reconcile.Result, error) { return reconcile.Result{}, nil }),
			}, requests)
		}()
		time.AfterFunc(5*time.Millisecond, cancel)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("run() does not return after its context has ended")
		}
	}
}
