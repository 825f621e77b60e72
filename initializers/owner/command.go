package owner

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/preflight"
)

const (
	// workers is how many logical clusters are handled at the same time.
	workers = 16
	// repairTimeout limits how long the command repair waits for one workspace until system:apibindings is retriggered.
	repairTimeout = 45 * time.Second
	// readyTimeout limits how long a worker of the command then waits for the workspace to become Ready before it repairs the next one.
	// Without this wait, kcp would initialize more workspaces at the same time than it has processors for, and each would take longer.
	readyTimeout = 10 * time.Second
	// maxRequests limits the requests for the causes of one workspace, so that no tenant occupies the workers. It is sufficient for about a
	// hundred default API bindings.
	maxRequests = 300
)

// readyPoll is how often the command reads a repaired LogicalCluster: first after 250 milliseconds, later every two seconds.
var readyPoll = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.15, Jitter: 0.1, Steps: 15}

// Repair is what the controller and the command repair have in common.
type Repair struct {
	// Shards lists the Workspaces. Steps corrects the owner of their logical clusters.
	Shards *Shards
	Steps  *Steps
	// After is how long a workspace may be Initializing before it counts as stuck.
	After time.Duration
	// Under is the path of a workspace, or the name of its logical cluster. The command repairs only this workspace and those below it, or all
	// if Under is empty. The controller repairs all.
	Under string
	// Limiter limits how many workspaces are checked per second.
	Limiter *rate.Limiter

	// underCluster is the logical cluster of Under. The administrator of a workspace can write another path into its LogicalCluster.
	underCluster logicalcluster.Name
}

// checker finds other causes why a workspace is not Ready.
func (r *Repair) checker() preflight.Checker {
	checker := preflight.Checker{Client: r.Steps.Workspaces, MaxRequests: maxRequests, HideUnusableTypes: true}
	if r.Shards != nil {
		checker.Types = r.Shards.workspaceTypes
	}
	return checker
}

// Repaired is the result for a Workspace.
type Repaired struct {
	Result Result
	Err    error
}

// Run is a run of the command repair. It runs the steps on each workspace that is stuck, or Ready with an owner's name that another service
// account can get, and waits until the repaired ones are Ready. It calls each for every result to report, concurrently and in no order. The
// error is about the workspaces that could not be listed.
func (r *Repair) Run(ctx context.Context, each func(Repaired)) error {
	if r.Under != "" {
		ws, err := r.checker().Load(ctx, logicalcluster.NewPath(r.Under))
		if err != nil {
			return err
		}
		r.Under, r.underCluster = ws.Path, ws.Cluster
	}
	var group errgroup.Group
	group.SetLimit(workers)
	var errs []error
	for _, requests := range []iter.Seq2[request, error]{r.Shards.stuck(ctx, time.Now().Add(-r.After)), r.Shards.suspicious(ctx)} {
		for req, err := range requests {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if r.Limiter.Wait(ctx) != nil {
				break // ctx has ended
			}
			group.Go(func() error {
				result, err := r.repairOne(ctx, req.Cluster)
				result = r.Steps.located(ctx, result)
				if err != nil || r.selects(result) && !result.healthy() {
					each(Repaired{Result: result, Err: err})
				}
				if (result.Outcome == Corrected || result.Outcome == Retriggered) && result.Phase == corev1alpha1.LogicalClusterPhaseInitializing &&
					!r.Steps.DryRun {
					r.awaitReady(ctx, result.Cluster)
				}
				return nil
			})
		}
	}
	_ = group.Wait() // the errors have been reported
	return errors.Join(errs...)
}

// selects reports whether the command repairs a workspace.
func (r *Repair) selects(result Result) bool {
	return within(result.Path, r.Under) || result.Cluster == r.underCluster
}

// repairOne runs the steps until they are finished.
func (r *Repair) repairOne(ctx context.Context, cluster logicalcluster.Name) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	if r.Under != "" { // a Workspace does not name its path
		result, err := r.Steps.run(ctx, cluster, true)
		if err != nil || !r.selects(r.Steps.located(ctx, result)) {
			return result, err
		}
	}
	var rewritten Result
	for {
		result, err := r.Steps.Run(ctx, cluster)
		if result.Rewritten {
			rewritten = result
		}
		switch {
		case err != nil:
		case result.Outcome == Fine:
			result, err = r.retry(ctx, result)
		case result.Outcome == Foreign:
			result, err = r.Steps.tryOut(ctx, result)
		}
		if err != nil || result.RequeueAfter == 0 {
			if rewritten.Rewritten && err == nil {
				result.Report = rewritten.Report // the owner is correct now
			}
			return result, err
		}
		select {
		case <-ctx.Done():
			result.Outcome = Failed
			return result, ctx.Err()
		case <-time.After(result.RequeueAfter):
		}
	}
}

// retry retriggers system:apibindings of a workspace with a correct owner if nothing that it needs is missing.
func (r *Repair) retry(ctx context.Context, result Result) (Result, error) {
	if !result.lc.waitsForBindings() {
		return result, nil
	}
	checker := r.checker()
	ws, err := checker.Load(ctx, result.Cluster.Path())
	if err != nil || !checker.Check(ctx, ws).NothingMissing() {
		return result, nil //nolint:nilerr // what cannot be found out is no reason to retrigger, and the owner is fine
	}
	return r.Steps.retry(ctx, result)
}

// awaitReady waits until a repaired workspace is Ready, or waits for initializers of others, but not longer than readyTimeout.
func (r *Repair) awaitReady(ctx context.Context, cluster logicalcluster.Name) {
	awaiting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := readyPoll.DelayFunc().Until(awaiting, false, false, func(ctx context.Context) (bool, error) {
		st := &state{result: Result{Cluster: cluster}}
		if _, err := r.Steps.read(ctx, st); err != nil || st.result.Outcome == Gone {
			return true, err
		}
		if st.result.lc.isReady() {
			return true, r.Steps.notifyWorkspace(ctx, st.result)
		}
		return st.result.lc.waitsForOthers(), nil
	})
	if err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Info("a repaired workspace is not Ready yet", "cluster", cluster.String(), "error", err.Error())
	}
}
