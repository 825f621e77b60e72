package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstBackoff and longestBackoff limit the time until a workspace that is still stuck is checked again. It varies by backoffJitter,
	// so that many are not checked at once.
	firstBackoff, longestBackoff = 5 * time.Second, 10 * time.Minute
	backoffJitter                = 0.2
)

// errOwner is why a workspace of the type warranted must not become Ready.
var errOwner = errors.New("its owner cannot be corrected")

// repairReconciler repairs Workspaces that are stuck in Initializing, and those that are Ready with an owner's name that somebody
// else can take.
type repairReconciler struct {
	steps *Steps
	// pending reports whether the Workspace of a request is still Initializing.
	pending func(request) bool
	// limiter limits how many Workspaces are checked per second. backoff is when one that is still stuck is checked again.
	limiter, backoff workqueue.TypedRateLimiter[request]
	reporter         reporter
	// admitted are the requests that the limiter has let through and whose steps are not finished.
	admitted sync.Map
}

// Reconcile runs the steps, and checks again later whether the workspace is still stuck.
func (r *repairReconciler) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	if !req.Ready && !r.pending(req) {
		r.admitted.Delete(req)
		r.backoff.Forget(req)
		return reconcile.Result{}, nil
	}
	if req.Cluster == "" {
		return reconcile.Result{}, nil // once it has one, there is another request
	}
	if _, admitted := r.admitted.LoadOrStore(req, nil); !admitted && !req.Ready {
		if delay := r.limiter.When(req); delay > 0 {
			return reconcile.Result{RequeueAfter: delay}, nil
		}
	}
	result, err := r.steps.Run(ctx, req.Cluster)
	r.reporter.repair(ctx, req, result, err)
	if err == nil && result.RequeueAfter > 0 {
		return continueAfter(result.RequeueAfter), nil
	}
	r.admitted.Delete(req)
	switch {
	case err != nil || req.Ready:
		return reconcile.Result{}, err
	case result.Outcome == Corrected:
		r.backoff.Forget(req)
	case result.Outcome == Fine:
		if err := r.steps.notifyWorkspace(ctx, result); err != nil { // kcp compares the two by itself, only later
			logf.FromContext(ctx).Info("a Workspace whose logical cluster is Ready was not annotated", "path", result.Path, "error", err.Error())
		}
	}
	return reconcile.Result{RequeueAfter: wait.Jitter(r.backoff.When(req), backoffJitter), Priority: ptr.To(0)}, nil
}

// continueAfter requeues a request whose steps are not finished. It is handled before those that were not begun: where many owners
// were foreign, kcp would otherwise retry with all of them rewritten and none retriggered.
func continueAfter(delay time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: delay, Priority: ptr.To(1)}
}

// newBackoff returns an exponential backoff for each request.
func newBackoff() workqueue.TypedRateLimiter[request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[request](firstBackoff, longestBackoff)
}

// initializerReconciler corrects the owner of LogicalClusters that wait for the initializer, and then removes the initializer.
type initializerReconciler struct {
	steps *Steps
	// pending reports whether the LogicalCluster of a request still waits.
	pending func(request) bool
	// client returns a client for the logical cluster of a request, through the virtual workspace of the initializer.
	client   func(request) (client.Client, error)
	reporter reporter
}

// Reconcile runs the steps, and then removes the initializer.
func (r *initializerReconciler) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	if !r.pending(req) {
		return reconcile.Result{}, nil
	}
	c, err := r.client(req)
	if err != nil {
		return reconcile.Result{}, err
	}
	var lc corev1alpha1.LogicalCluster
	if err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &lc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if lc.DeletionTimestamp != nil || !initialization.InitializerPresent(initializer, lc.Status.Initializers) {
		return reconcile.Result{}, nil
	}
	result, err := r.steps.Run(ctx, req.Cluster)
	if result.Outcome == Gone {
		return reconcile.Result{RequeueAfter: longestSync}, nil // as long as it is in the virtual workspace
	}
	if err == nil && !r.steps.DryRun && (result.Outcome == NotCorrectable || result.Outcome == Differs) {
		err = fmt.Errorf("%w: %s", errOwner, result.Report.Message)
	}
	r.reporter.initialization(&lc, result, err)
	if err != nil {
		return reconcile.Result{}, err
	}
	if result.RequeueAfter > 0 {
		return continueAfter(result.RequeueAfter), nil
	}
	if err := removeInitializer(ctx, c, &lc); err != nil {
		return reconcile.Result{}, fmt.Errorf("remove the initializer of %s: %w", result.Path, err)
	}
	return reconcile.Result{}, nil
}

// removeInitializer removes the initializer and nothing else. kcp updates the same list at the same time, so the patch tests the
// entry that it removes instead of the resource version, which would be outdated most of the time.
func removeInitializer(ctx context.Context, c client.Client, lc *corev1alpha1.LogicalCluster) error {
	hasChanged := func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }
	return retry.OnError(retry.DefaultBackoff, hasChanged, func() error {
		at := slices.Index(lc.Status.Initializers, initializer)
		if at < 0 {
			return nil
		}
		path := fmt.Sprintf("/status/initializers/%d", at)
		patch, err := json.Marshal([]jsonpatch.Operation{
			jsonpatch.NewOperation("test", path, initializer), jsonpatch.NewOperation("remove", path, nil),
		})
		if err != nil {
			return err
		}
		err = c.Status().Patch(ctx, lc.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
		if hasChanged(err) {
			if err := c.Get(ctx, client.ObjectKeyFromObject(lc), lc); err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		return client.IgnoreNotFound(err)
	})
}
