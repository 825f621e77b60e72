package owner

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// repairTimeout limits how long the command repair waits for one workspace until system:apibindings is retriggered.
	repairTimeout = 45 * time.Second
	// readyTimeout limits how long a worker of the command then waits for the workspace to become Ready before it repairs the next one.
	// Without this wait, kcp would initialize more workspaces at the same time than it has processors for, and each would take longer.
	readyTimeout = 10 * time.Second
)

// readyPoll is how often the command reads a repaired LogicalCluster: first after 250 milliseconds, later every two seconds.
var readyPoll = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.15, Jitter: 0.1, Steps: 15}

// Repaired is the result for a Workspace.
type Repaired struct {
	Result Result
	Err    error
}

// Run is a run of the command repair. It runs the steps on each workspace that is stuck, or Ready with an owner's name that another service
// account can get, and waits until the repaired ones are Ready. It calls each for every result to report, concurrently and in no order. The
// error is about the workspaces that could not be listed. under is the path of a workspace, or the name of its logical cluster: only this
// workspace and those below it are repaired, or all if under is empty. younger is how many workspaces, below under or not, have been
// Initializing for less than After.
func (r *Repair) Run(ctx context.Context, under string, each func(Repaired)) (younger int, err error) {
	var part subtree
	if under != "" {
		ws, err := r.checker().Load(ctx, logicalcluster.NewPath(under))
		if err != nil {
			return 0, err
		}
		part = subtree{path: ws.Path, cluster: ws.Cluster}
	}
	var errs []error
	var requests []request
	for _, found := range []iter.Seq2[request, error]{r.Shards.stuck(ctx, time.Now().Add(-r.After), &younger), r.Shards.suspicious(ctx)} {
		for req, err := range found {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			requests = append(requests, req)
		}
	}
	var group errgroup.Group
	group.SetLimit(workers)
	var done atomic.Int32
	for _, req := range requests {
		if r.Limiter.Wait(ctx) != nil {
			break // ctx has ended
		}
		group.Go(func() error {
			result, err := r.repairOne(ctx, req.Cluster, part)
			result = r.Steps.located(ctx, result)
			if err != nil || part.has(result) && !result.healthy() {
				each(Repaired{Result: result, Err: err})
			}
			if (result.Outcome == Corrected || result.Outcome == Retriggered) && result.Phase == corev1alpha1.LogicalClusterPhaseInitializing &&
				!r.Steps.DryRun {
				r.awaitReady(ctx, result.Cluster)
			}
			if finished := done.Add(1); r.Progress != nil {
				r.Progress(int(finished), len(requests))
			}
			return nil
		})
	}
	_ = group.Wait() // the errors have been reported
	return younger, errors.Join(errs...)
}

// subtree is a workspace and those below it, or all workspaces. The administrator of a workspace can write another path into its
// LogicalCluster.
type subtree struct {
	path    string
	cluster logicalcluster.Name
}

func (s subtree) has(result Result) bool {
	return s.path == "" || result.Cluster == s.cluster || result.Path == s.path || strings.HasPrefix(result.Path, s.path+":")
}

// repairOne runs the steps on a workspace of a subtree until they are finished.
func (r *Repair) repairOne(ctx context.Context, cluster logicalcluster.Name, part subtree) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	if part.path != "" { // a Workspace does not name its path
		result, err := r.Steps.run(ctx, cluster, true)
		if err != nil || !part.has(r.Steps.located(ctx, result)) {
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
