package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	"golang.org/x/time/rate"
	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"warrantgate.dev/internal/preflight"
	"warrantgate.dev/internal/share"
)

const (
	// firstBackoff and longestBackoff limit the time until a workspace that is still stuck is checked again.
	firstBackoff, longestBackoff = 5 * time.Second, 10 * time.Minute
	// fastRuns is how often the steps on a logical cluster are continued after the delay that they return. kcp needs fewer to adopt an owner.
	// A user who may write a LogicalCluster could otherwise make the repair continue all the time, before the logical clusters of others.
	// After that the steps are continued every slowRun.
	fastRuns, slowRun = 60, 30 * time.Second
	// slowTime is how long a run takes that counts as slow. A tenant can delay each write in its workspaces, with webhooks.
	slowTime = 2 * time.Second
	// causeBackoff limits that time if a cause was found: kcp does not try again by itself once the cause is removed.
	causeBackoff = time.Minute
	// backoffJitter is the part by which the time until a repeated check varies, so that many are not checked at once.
	backoffJitter = 0.2
	// giveWayDelay is how long a Workspace of a logical cluster that uses its share of the workers waits.
	giveWayDelay = 500 * time.Millisecond
	// checksForCauses is how many checks for causes run at the same time, and checkTime how long one may take, because a tenant can make objects for
	// them that are large, and delay them. maxTurn is how long a worker waits for one of them.
	checksForCauses, checkTime, maxTurn = 4, 15 * time.Second, 3 * time.Second
	// slowParents stands for all logical clusters with a slow check for causes in the last longestBackoff. They share what one of the others may use,
	// so that tenants with many logical clusters leave checks to others.
	slowParents logicalcluster.Name = "slow parents"
	// repeatedPriority is the priority of repeated checks, so that they give way to first ones.
	repeatedPriority = -1
)

// errOwner is why a workspace of the type warranted must not become Ready.
var errOwner = errors.New("its owner cannot be corrected")

// errNoTurn is why the causes for a workspace were not looked for.
var errNoTurn = errors.New("the causes for other workspaces are looked for")

// repairReconciler repairs Workspaces that are stuck in Initializing, and those that are Ready with an owner's name that another service
// account can get.
type repairReconciler struct {
	steps *Steps
	// pending reports whether the Workspace of a request is still Initializing.
	pending func(request) bool
	// untilStuck is the time until that Workspace counts as stuck. Before, nothing is repaired.
	untilStuck func(request) time.Duration
	// workers are shared between the logical clusters that have Workspaces. A tenant can delay each check of its Workspaces, with webhooks for
	// LogicalClusters or SubjectAccessReviews in its workspaces.
	workers *share.Limit[logicalcluster.Name]
	// checks are the checks for causes, shared between the same. slow contains the slowParents.
	checks *share.Limit[logicalcluster.Name]
	slow   *cache.Expiring
	// limiter limits how many Workspaces are checked per second. Those that are listed Ready have waited for it. backoff and repeats are when one that is still stuck is checked again.
	limiter *rate.Limiter
	backoff workqueue.TypedRateLimiter[request]
	repeats *repeats
	// continued delays the runs of steps that are not finished.
	continued workqueue.TypedRateLimiter[request]
	reporter  reporter
	// missing are the requests for which a cause other than the owner was found.
	missing sync.Map
}

// Reconcile runs the steps, and checks again later whether the workspace is still stuck.
func (r *repairReconciler) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	if !req.Ready && !r.pending(req) {
		r.missing.Delete(req)
		r.backoff.Forget(req)
		r.continued.Forget(req)
		return reconcile.Result{}, nil
	}
	if req.Cluster == "" {
		return reconcile.Result{}, nil // once it has one, there is another request
	}
	free, taken := r.workers.Try(req.Parent, 1)
	if !taken {
		return giveWay(), nil
	}
	defer free()
	if begins := r.continued.NumRequeues(req) == 0; begins && !req.Ready && r.limiter.Wait(ctx) != nil {
		return giveWay(), nil
	}
	if !req.Ready {
		if early := r.untilStuck(req); early > 0 {
			return r.checkEarly(ctx, req, early)
		}
	}
	began := time.Now()
	result, err := r.steps.Run(ctx, req.Cluster)
	if err == nil && result.mayLack() {
		result, err = r.findCauses(ctx, req, result)
	}
	if errors.Is(err, errNoTurn) {
		return reconcile.Result{RequeueAfter: wait.Jitter(firstBackoff, backoffJitter), Priority: ptr.To(repeatedPriority)}, nil
	}
	r.reporter.repair(ctx, req, result, err)
	if err == nil && result.RequeueAfter > 0 {
		next := continueAfter(max(result.RequeueAfter, r.continued.When(req)))
		if isSlow(began) {
			next.Priority = ptr.To(repeatedPriority)
		}
		return next, nil
	}
	r.continued.Forget(req)
	switch {
	case err != nil || req.Ready:
		return reconcile.Result{Priority: ptr.To(repeatedPriority)}, err // the queue repeats it after an error
	case result.Outcome == Corrected:
		r.backoff.Forget(req)
	case result.Outcome == Fine:
		if err := r.steps.notifyWorkspace(ctx, result); err != nil { // kcp compares the two by itself, but later
			logf.FromContext(ctx).Info("a Workspace whose logical cluster is Ready was not annotated", "path", result.Path, "error", err.Error())
		}
	}
	return r.checkAgain(req), nil
}

// checkEarly reports what keeps a Workspace from becoming Ready that does not count as stuck yet. The owner is not changed: the steps only
// read. Of a foreign owner it reports the permissions that the owner lacks once it is rewritten.
func (r *repairReconciler) checkEarly(ctx context.Context, req request, untilStuck time.Duration) (reconcile.Result, error) {
	result, err := r.steps.run(ctx, req.Cluster, true)
	next := untilStuck
	switch {
	case err != nil || !result.mayLack():
	case result.Outcome == Fine && result.lc.mayYetBind(): // one read is enough to see it
		next = min(next, max(firstCheck, r.repeats.after(req.Parent)))
	default:
		result, err = r.findCauses(ctx, req, result)
	}
	if err != nil { // it is reported once the Workspace is stuck
		logf.FromContext(ctx).V(1).Info("check a workspace that is Initializing", "path", result.Path, "error", err.Error())
	}
	if result.RequeueAfter > 0 {
		next = min(next, firstBackoff)
	}
	if result.Outcome == Retriggered {
		r.reporter.repair(ctx, req, result, nil)
	}
	if _, missing := r.missing.Load(req); missing {
		next = min(next, r.checkAgain(req).RequeueAfter)
	}
	priority := repeatedPriority
	if next == untilStuck { // the first repair, which others must not delay with repeated checks
		priority = 0
	}
	return reconcile.Result{RequeueAfter: next, Priority: &priority}, nil
}

// findCauses reports causes other than the owner that keep a Workspace from becoming Ready. If there is none, it retriggers
// system:apibindings.
func (r *repairReconciler) findCauses(ctx context.Context, req request, result Result) (Result, error) {
	if result.Phase != corev1alpha1.LogicalClusterPhaseInitializing {
		return result, nil
	}
	free, taken := r.takeCheck(ctx, req.Parent)
	if !taken {
		result.RequeueAfter = firstBackoff
		return result, errNoTurn
	}
	failed := result.lc.bindingsFailed()
	result.lc = nil // a tenant can make it large
	report, reported := r.checkCauses(ctx, req, result)
	free()
	if reported {
		r.missing.Store(req, nil)
		return result, nil
	}
	stuck := r.untilStuck(req) <= 0 || failed // else kcp may be about to make the bindings
	if r.steps.DryRun || result.Outcome != Fine || !stuck || !report.NothingMissing() {
		return result, nil
	}
	result, err := r.steps.run(ctx, req.Cluster, true)
	if err == nil && (result.Outcome != Fine || !result.lc.waitsForBindings()) { // it was changed meanwhile, and the next run reads it again
		result.Outcome, result.RequeueAfter = "", conflictDelay
	}
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	result, err = r.steps.retry(ctx, result)
	if err != nil || result.Outcome != Retriggered {
		return result, err
	}
	if _, missing := r.missing.LoadAndDelete(req); missing {
		r.backoff.Forget(req)
	}
	return result, nil
}

// takeCheck takes one of the checks for causes, if there is one in time.
func (r *repairReconciler) takeCheck(ctx context.Context, parent logicalcluster.Name) (free func(), taken bool) {
	if _, slow := r.slow.Get(parent); slow {
		return r.checks.Try(slowParents, 1)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTurn)
	defer cancel()
	free, err := r.checks.Wait(ctx, parent, 1)
	return free, err == nil
}

// checkCauses checks for causes in limited time, and remembers whether that was slow.
func (r *repairReconciler) checkCauses(ctx context.Context, req request, result Result) (report preflight.Report, reported bool) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	report, reported = r.reporter.causes(ctx, req, result)
	if isSlow(began) {
		r.slow.Set(req.Parent, nil, longestBackoff)
	}
	return report, reported
}

// checkAgain requeues a Workspace that is still stuck.
func (r *repairReconciler) checkAgain(req request) reconcile.Result {
	delay := r.backoff.When(req)
	if _, missing := r.missing.Load(req); missing {
		delay = min(delay, causeBackoff)
	}
	delay = wait.Jitter(delay, backoffJitter)
	if r.backoff.NumRequeues(req) > 1 { // what was just repaired is about to become Ready
		delay = max(delay, r.repeats.after(req.Parent))
	}
	return reconcile.Result{RequeueAfter: delay, Priority: ptr.To(repeatedPriority)}
}

// giveWay requeues a request that gets no worker now. It keeps its priority.
func giveWay() reconcile.Result {
	return reconcile.Result{RequeueAfter: wait.Jitter(giveWayDelay, backoffJitter)}
}

// continueAfter requeues a request whose steps are not finished. It is handled before requests that were not started: with many foreign
// owners, kcp would otherwise retry while all of them are rewritten and none is retriggered.
func continueAfter(delay time.Duration) reconcile.Result {
	priority := 1
	if delay >= slowRun {
		priority = 0
	}
	return reconcile.Result{RequeueAfter: delay, Priority: &priority}
}

// isSlow reports whether a run that began then took so long that a webhook may delay it.
func isSlow(began time.Time) bool { return time.Since(began) >= slowTime }

// newContinued returns a rate limiter that delays the runs after fastRuns for each request.
func newContinued() workqueue.TypedRateLimiter[request] {
	return workqueue.NewTypedItemFastSlowRateLimiter[request](0, slowRun, fastRuns)
}

// newBackoff returns an exponential backoff for each request.
func newBackoff() workqueue.TypedRateLimiter[request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[request](firstBackoff, longestBackoff)
}

// initializerReconciler corrects the owner of LogicalClusters that wait for the initializer, and then removes the initializer.
type initializerReconciler struct {
	steps *Steps
	// client returns a client for the logical cluster of a request, through the virtual workspace of the initializer.
	client func(request) (client.Client, error)
	// continued delays the runs of steps that are not finished.
	continued workqueue.TypedRateLimiter[request]
	// slowed are the requests with a slow run. It delays the runs after a write that took writeTimeout. workers are shared between these (true) and the
	// others: a tenant that delays the writes in its workspaces would otherwise occupy the workers.
	slowed   workqueue.TypedRateLimiter[request]
	workers  *share.Limit[bool]
	reporter reporter
}

// Reconcile runs the steps, and then removes the initializer.
func (r *initializerReconciler) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	free, taken := r.workers.Try(r.slowed.NumRequeues(req) > 0, 1)
	if !taken {
		return giveWay(), nil
	}
	defer free()
	began := time.Now()
	result, err := r.initialize(ctx, req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		logf.FromContext(ctx).Info("a write of a LogicalCluster was delayed, as by a webhook in its workspace", "error", err.Error())
		return reconcile.Result{RequeueAfter: max(slowRun, r.slowed.When(req)), Priority: ptr.To(repeatedPriority)}, nil
	case isSlow(began) && (err != nil || result.RequeueAfter > 0):
		r.slowed.When(req)
		result.Priority = ptr.To(repeatedPriority)
	}
	return result, err
}

func (r *initializerReconciler) initialize(ctx context.Context, req request) (reconcile.Result, error) {
	c, err := r.client(req)
	if err != nil {
		return reconcile.Result{}, err
	}
	var lc corev1alpha1.LogicalCluster
	if err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &lc); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if lc.DeletionTimestamp != nil || !initialization.InitializerPresent(initializer, lc.Status.Initializers) {
		r.continued.Forget(req)
		r.slowed.Forget(req)
		return reconcile.Result{}, nil
	}
	result, err := r.steps.Run(ctx, req.Cluster)
	if result.Outcome == Gone {
		return reconcile.Result{RequeueAfter: syncInterval}, nil // as long as it is in the virtual workspace
	}
	if err == nil && !r.steps.DryRun && (result.Outcome == NotCorrectable || result.Outcome == Differs) {
		err = fmt.Errorf("%w: %s", errOwner, result.Report.Message)
	}
	r.reporter.initialization(ctx, &lc, result, err)
	if err != nil {
		return reconcile.Result{}, err
	}
	if result.RequeueAfter > 0 {
		return continueAfter(max(result.RequeueAfter, r.continued.When(req))), nil
	}
	err = removeInitializer(ctx, c, &lc)
	if hasChanged(err) && r.continued.NumRequeues(req) < fastRuns {
		return continueAfter(max(conflictDelay, r.continued.When(req))), nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("remove the initializer of %s: %w", result.Path, err)
	}
	r.continued.Forget(req)
	r.slowed.Forget(req)
	return reconcile.Result{}, nil
}

// removeInitializer removes the initializer and nothing else. kcp updates the same list at the same time, so the patch tests the
// entry that it removes instead of the resource version, which would be outdated most of the time. hasChanged reports
// whether the error is that another client changed the list since lc was read.
func removeInitializer(ctx context.Context, c client.Client, lc *corev1alpha1.LogicalCluster) error {
	path := fmt.Sprintf("/status/initializers/%d", slices.Index(lc.Status.Initializers, initializer))
	patch, err := json.Marshal([]jsonpatch.Operation{
		jsonpatch.NewOperation("test", path, initializer), jsonpatch.NewOperation("remove", path, nil),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return client.IgnoreNotFound(c.Status().Patch(ctx, lc, client.RawPatch(types.JSONPatchType, patch)))
}

// hasChanged reports whether a patch failed because the object is not as it was read.
func hasChanged(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }
