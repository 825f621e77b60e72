package audit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/events"
)

// jitter is the maximum share of Controller.Interval that is added at random, so that several management clusters do not send requests to a
// cloud at the same time.
const jitter = 0.1

// EventRecorder takes Events without blocking.
type EventRecorder interface {
	Record(event events.Event)
}

// Elector elects one of several replicas as the leader.
type Elector interface {
	// Run calls lead each time this replica becomes the leader, and returns when ctx ends.
	Run(ctx context.Context, lead func(context.Context)) error
}

// Controller runs the audit repeatedly on the leader, and records an Event for each finding. Between the runs it checks the machines
// whose claims have changed: on Kubernetes those that Changed queues, on kcp, where nothing is watched, those that differ from the previous list.
type Controller struct {
	Audit    *Audit
	Recorder EventRecorder
	Election Elector
	// Synced returns the reason why objects are unknown, nil if all of them have been read.
	Synced func() error
	// OnKCP is true if the objects are those of workspaces of kcp.
	OnKCP bool
	// Reports takes the results. It is nil if there are no reports.
	Reports Reports
	// Interval is the time from the end of one run to the start of the next one, without jitter.
	Interval time.Duration
	// queue is nil while no machines are checked. checking are the checks.
	queue    atomic.Pointer[queue]
	checking sync.WaitGroup
	current  ledger
	// refreshed is when refresh has read all objects.
	refreshing sync.Mutex
	refreshed  time.Time
}

// syncInterval is the time between two calls of Synced.
const syncInterval = time.Second

// Start runs the audit repeatedly while this replica is the leader, until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	return c.Election.Run(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("audit")), c.lead)
}

func (c *Controller) lead(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	c.current.lead(c.platform(), c.Reports != nil)
	defer c.current.resign()
	queue := c.open(ctx)
	defer c.checking.Wait()
	c.checking.Go(func() { c.work(ctx, queue) })
	if c.OnKCP {
		c.checking.Go(func() { c.compareClaims(ctx) })
	}
	if c.Reports != nil {
		c.checking.Go(func() { c.updateReports(ctx) })
	}
	defer stop()
	// The only error is that ctx ended.
	if wait.PollUntilContextCancel(ctx, syncInterval, true, func(context.Context) (bool, error) { return c.Synced() == nil, nil }) == nil {
		wait.JitterUntilWithContext(ctx, c.run, c.Interval, jitter, true)
	}
}

// platform is the label of the metrics.
func (c *Controller) platform() string {
	if c.OnKCP {
		return "kcp"
	}
	return "kubernetes"
}

func (c *Controller) run(ctx context.Context) {
	c.current.begin()
	began := c.Audit.Now()
	result, err := c.Audit.Run(ctx)
	if ctx.Err() != nil {
		return // an incomplete result
	}
	log := logf.FromContext(ctx)
	if err != nil {
		log.Error(err, "not everything could be checked; the next run tries again")
	}
	observe(result, err)
	read := !errors.Is(err, errNotRead) // otherwise the previous findings may still be valid
	c.current.end(result, read)
	if !read {
		return
	}
	for _, machine := range result.Unchecked {
		c.enqueue(machine, firstRetry)
	}
	c.record(ctx, result.Findings)
	c.report(ctx)
	log.Info("audited", "machines", result.Machines, "accounts", result.Accounts, "cloudRequests", result.Requests,
		"findings", len(result.Findings), "seconds", c.Audit.Now().Sub(began).Seconds())
}

func (c *Controller) record(ctx context.Context, findings []Finding) {
	log := logf.FromContext(ctx)
	for _, finding := range findings {
		at := log
		if c.OnKCP {
			at = log.WithValues("cluster", finding.LogicalCluster)
		}
		at.Info("finding", "reason", finding.Reason, "kind", finding.Object.Kind, "namespace", finding.Object.Namespace,
			"name", finding.Object.Name, "instance", finding.Instance, "user", finding.Account.User, "region", finding.Account.Region,
			"message", finding.Message, "others", finding.Others)
		if finding.Object.Name == "" {
			continue
		}
		c.Recorder.Record(events.Event{
			Cluster: finding.LogicalCluster, Object: finding.Object, Type: corev1.EventTypeWarning, Reason: finding.Reason, Message: "Audit: " + finding.Message,
		})
	}
}
