package owner

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/leader"
	"warrantgate.dev/internal/preflight"
)

const (
	// leaseName is the Lease, in namespace default of root, by which one of several replicas leads.
	leaseName = "warrantgate-repair"

	// longestInterval is the longest time between two looks at what hangs. They ask kcp only where the shards are.
	longestInterval = 5 * time.Second
	// countInterval is the time between two counts of what hangs, during a look.
	countInterval = time.Second
	// readyInterval is the time between two looks at workspaces that are Ready, whose owner nothing changes any more.
	readyInterval = time.Hour
	// firstBackOff and longestBackOff bound the time until a workspace that could not be healed is looked at again.
	firstBackOff, longestBackOff = 5 * time.Second, 10 * time.Minute
	// backOffJitter is the share by which that time varies, so that many do not come back at once.
	backOffJitter = 0.2
)

// EventRecorder takes Events without blocking.
type EventRecorder interface {
	Record(event events.Event)
}

// Controller heals at intervals what hangs, and runs the initializer, in one of several replicas at a time.
type Controller struct {
	repair      *Repair
	initializer *Initializer
	checker     preflight.Checker
	recorder    EventRecorder
	election    *leader.Election
	backOff     *flowcontrol.Backoff
}

// NewController returns a controller whose replicas agree by a Lease in root of the kcp that config reaches. What the
// repair has as DryRun holds for the controller: then it only reports.
func NewController(repair *Repair, recorder EventRecorder, config *rest.Config) (*Controller, error) {
	inRoot, err := kcp.ConfigFor(config, kcp.Root)
	if err != nil {
		return nil, err
	}
	election, err := leader.NewElection(inRoot, metav1.NamespaceDefault, leaseName)
	if err != nil {
		return nil, err
	}
	repair.Healer.readyTime = servingReadyTime
	initializer, err := NewInitializer(repair.Healer, recorder, repair.DryRun, config)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		repair: repair, initializer: initializer, recorder: recorder,
		checker:  preflight.Checker{Client: repair.Healer.Workspaces},
		election: election,
		backOff:  flowcontrol.NewBackOffWithJitter(firstBackOff, longestBackOff, backOffJitter),
	}
	repair.Skip = c.skips
	return c, nil
}

// Start heals whenever this replica leads, until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	return c.election.Run(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("owner")), c.lead)
}

// lead repairs and initializes until ctx ends. A failure of the one does not stop the other, and what hangs does not wait for a
// look at all that is Ready.
func (c *Controller) lead(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { c.repairHanging(ctx) })
	all.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			c.passed(ctx, c.repair.passReady(ctx, func(r Repaired) { c.tell(ctx, r) }))
		}, readyInterval)
	})
	all.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := c.initializer.Start(ctx); err != nil {
				logf.FromContext(ctx).Error(err, "the initializer failed; starting it again")
			}
		}, leader.RetryPeriod)
	})
	all.Wait()
}

// repairHanging makes one pass after the other over what hangs, as the watcher knows it.
func (c *Controller) repairHanging(ctx context.Context) {
	defer stuck.Set(0) // this replica's count ends with its lead
	watcher := NewWatcher(c.repair.Finder)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := watcher.Follow(ctx)
		hanging := func() iter.Seq2[*tenancyv1alpha1.Workspace, error] {
			return watcher.Workspaces(time.Now().Add(-c.repair.After))
		}
		defer count(ctx, hanging)()
		c.passed(ctx, errors.Join(err, c.repair.heal(ctx, hanging(), func(r Repaired) { c.tell(ctx, r) })))
		c.backOff.GC()
	}, min(max(c.repair.After/4, time.Second), longestInterval))
}

// passed tells of a pass in which not all could be looked at.
func (c *Controller) passed(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		passesFailed.Inc()
		logf.FromContext(ctx).Error(err, "not all workspaces could be looked at; trying again")
	}
}

// count sets the metric of what hangs, and goes on until end is called: a pass over many takes long.
func count(ctx context.Context, hanging func() iter.Seq2[*tenancyv1alpha1.Workspace, error]) (end func()) {
	set := func(context.Context) {
		count := 0
		for _, err := range hanging() {
			if err == nil {
				count++
			}
		}
		stuck.Set(float64(count))
	}
	set(ctx)
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() { wait.UntilWithContext(ctx, set, countInterval) })
	return func() {
		cancel()
		counting.Wait()
	}
}

// skips tells whether a workspace that could not be healed is to be left in peace for now.
func (c *Controller) skips(ws *tenancyv1alpha1.Workspace) bool {
	return c.backOff.IsInBackOffSinceUpdate(backOffKey(ws), time.Now())
}

// backOffKey holds the logical cluster: a UID is unique in one only by chance.
func backOffKey(ws *tenancyv1alpha1.Workspace) string {
	return logicalcluster.From(ws).String() + "|" + string(ws.UID)
}

// tell leaves the traces of what was found and done.
func (c *Controller) tell(ctx context.Context, r Repaired) {
	if ctx.Err() != nil {
		return // what was cut off is not a verdict
	}
	repairs.WithLabelValues(string(r.Result.Outcome)).Inc()
	if r.Result.Outcome != Healed {
		c.backOff.Next(backOffKey(r.Workspace), time.Now())
	}
	log := logf.FromContext(ctx).WithValues("workspace", r.Result.Path, "cluster", r.Result.Cluster.String(),
		"outcome", string(r.Result.Outcome), "reason", string(r.Result.Report.Reason))
	switch {
	case r.Err != nil:
		log.Error(r.Err, "repair")
		c.record(r, corev1.EventTypeWarning, events.RepairFailed, "The owner could not be made right: "+r.Sentence())
	case r.Result.Outcome == Healed:
		log.Info("repair", "message", r.Sentence())
		c.record(r, corev1.EventTypeNormal, events.OwnerRewritten, "Repaired: "+r.Sentence())
	case r.Result.Outcome == Foreign:
		log.Info("repair", "message", r.Sentence())
		c.record(r, corev1.EventTypeWarning, events.OwnerNotRewritten,
			"The owner was left as it is, because the repair only warns: "+r.Sentence())
	case r.Result.Outcome == Differs:
		log.Info("repair", "message", r.Sentence())
		c.record(r, corev1.EventTypeWarning, events.OwnerDiffers, r.Sentence())
	case r.Result.Outcome == Unhealable:
		log.Info("repair", "message", r.Sentence())
		c.record(r, corev1.EventTypeWarning, events.OwnerNotRewritten, "The owner cannot be made right: "+r.Sentence())
	default:
		log.V(1).Info("repair", "message", r.Sentence())
		if r.Result.Outcome == Fine {
			c.tellCauses(ctx, r)
		}
	}
}

func (c *Controller) record(r Repaired, eventType, reason, message string) {
	c.recorder.Record(events.Event{
		Cluster: logicalcluster.From(r.Workspace), Type: eventType, Reason: reason, Message: message,
		Object: events.Workspace(r.Workspace.Name, r.Workspace.UID, r.Workspace.ResourceVersion),
	})
}
