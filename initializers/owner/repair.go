package owner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// atOnce bounds how many logical clusters are healed at the same time, so that a restart after a long outage starts no
// storm; as many keep a kcp on two processors busy. healTime bounds how long one may take, so that logical clusters on a shard
// that does not answer leave room for the others. turnTime bounds how long the next waits until kcp has made one Ready that was
// healed: healing faster than kcp follows makes each take longer. Beyond that the others go on, as it may lack something else.
const (
	atOnce   = 16
	healTime = 45 * time.Second
	turnTime = 5 * time.Second
)

// Repair finds workspaces whose owner is foreign, and heals them.
type Repair struct {
	// Finder finds the Workspaces, Healer heals their logical clusters.
	Finder *Finder
	Healer *Healer
	// After is how long a workspace may be in Initializing before it counts as stuck.
	After time.Duration
	// Under is a workspace's path; only it and those below it are looked at. Empty for all.
	Under string
	// DryRun says only what would be done.
	DryRun bool
	// Limiter bounds how many workspaces are looked into per second. May be nil.
	Limiter *rate.Limiter
	// Skip tells which workspaces are not looked into. May be nil.
	Skip func(*tenancyv1alpha1.Workspace) bool

	// awakening are those who have healed and wait for kcp.
	awakening sync.WaitGroup
}

// Repaired is what became of a Workspace, or why nothing could.
type Repaired struct {
	Workspace *tenancyv1alpha1.Workspace
	Result    Result
	Err       error
}

// Pass goes over all workspaces once and tells each that hangs or is not its owner's, several at once and in no fixed order.
// The error is about what could not be looked at.
func (r *Repair) Pass(ctx context.Context, each func(Repaired)) error {
	stuck := r.Finder.Workspaces(ctx, corev1alpha1.LogicalClusterPhaseInitializing, time.Now().Add(-r.After))
	err := errors.Join(r.heal(ctx, stuck, each), r.passReady(ctx, each))
	r.awakening.Wait()
	return err
}

// passReady goes over the workspaces that are Ready only.
func (r *Repair) passReady(ctx context.Context, each func(Repaired)) error {
	return r.heal(ctx, suspicious(r.Finder.Workspaces(ctx, corev1alpha1.LogicalClusterPhaseReady, time.Now())), each)
}

func (r *Repair) heal(ctx context.Context, found iter.Seq2[*tenancyv1alpha1.Workspace, error], each func(Repaired)) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	var errs []error
	for ws, err := range found {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ws.Spec.Cluster == "" || ws.DeletionTimestamp != nil || r.Skip != nil && r.Skip(ws) {
			continue
		}
		if r.Limiter != nil && r.Limiter.Wait(ctx) != nil {
			break // ctx has ended
		}
		group.Go(func() error {
			result, err := r.healOne(ctx, ws)
			if err != nil || within(result.Path, r.Under) && !result.healthy() {
				each(Repaired{Workspace: ws, Result: result, Err: err})
			}
			if result.Outcome == Healed && result.Phase == corev1alpha1.LogicalClusterPhaseInitializing {
				r.awaken(ctx, result.Cluster)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors have been told
	return errors.Join(errs...)
}

// awaken returns once a logical cluster that was healed is Ready, or its turn is over. Then Pass still waits for it.
func (r *Repair) awaken(ctx context.Context, cluster logicalcluster.Name) {
	turn, end := context.WithTimeout(ctx, turnTime)
	r.awakening.Go(func() {
		defer end()
		r.Healer.awaken(ctx, cluster)
	})
	<-turn.Done()
}

// healOne looks before it writes where only a part of the workspaces is meant: a Workspace does not tell its path.
func (r *Repair) healOne(ctx context.Context, ws *tenancyv1alpha1.Workspace) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	if r.Under != "" && !r.DryRun {
		result, err := r.Healer.Heal(ctx, logicalcluster.Name(ws.Spec.Cluster), true)
		if err != nil || !within(result.Path, r.Under) {
			return result, err
		}
	}
	return r.Healer.Heal(ctx, logicalcluster.Name(ws.Spec.Cluster), r.DryRun)
}

// suspicious yields those Ready workspaces whose owner bears the bare name of a service account, which in a workspace is
// the name of whatever service account is made in it. kcp leaves the name in the Workspace's annotation.
func suspicious(found iter.Seq2[*tenancyv1alpha1.Workspace, error]) iter.Seq2[*tenancyv1alpha1.Workspace, error] {
	return func(yield func(*tenancyv1alpha1.Workspace, error) bool) {
		for ws, err := range found {
			if err == nil {
				owner, parseErr := identity.ParseOwner(ws.Annotations[kcp.OwnerAnnotation])
				if parseErr != nil || !owner.IsServiceAccount() {
					continue
				}
			}
			if !yield(ws, err) {
				return
			}
		}
	}
}

// Sentence says what became of a workspace, for a person.
func (r Repaired) Sentence() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Result.Outcome == Gone:
		return "it is no longer there"
	case r.Result.Outcome == Waiting:
		return "it waits for initializers of others; " + r.Result.Report.Message
	case r.Result.Outcome == Fine && r.Result.Phase == corev1alpha1.LogicalClusterPhaseInitializing:
		return fmt.Sprintf("its owner is right, so it hangs for another reason: %s", r.Result.Report.Message)
	case r.Result.Report.Message == "":
		return "its repair was finished"
	default:
		return r.Result.Report.Message
	}
}
