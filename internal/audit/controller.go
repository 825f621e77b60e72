package audit

import (
	"context"
	"errors"
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

// Controller runs the audit repeatedly on the leader, and records an Event for each finding.
type Controller struct {
	Audit    *Audit
	Recorder EventRecorder
	Election Elector
	// Synced returns the reason why objects are unknown, nil if all of them have been read.
	Synced func() error
	// OnKCP is true if the objects are those of workspaces of kcp.
	OnKCP bool
	// Interval is the time from the end of one run to the start of the next one, without jitter.
	Interval time.Duration
}

// syncInterval is the time between two calls of Synced.
const syncInterval = time.Second

// Start runs the audit repeatedly while this replica is the leader, until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	return c.Election.Run(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("audit")), c.lead)
}

func (c *Controller) lead(ctx context.Context) {
	defer forget(c.platform()) // a former leader has no findings
	c.repeat(ctx, c.run)
}

// repeat calls run at the interval, after all objects have been read.
func (c *Controller) repeat(ctx context.Context, run func(context.Context)) {
	// The only error is that ctx ended.
	if wait.PollUntilContextCancel(ctx, syncInterval, true, func(context.Context) (bool, error) { return c.Synced() == nil, nil }) != nil {
		return
	}
	wait.JitterUntilWithContext(ctx, run, c.Interval, jitter, true)
}

// platform is the label of the metrics.
func (c *Controller) platform() string {
	if c.OnKCP {
		return "kcp"
	}
	return "kubernetes"
}

func (c *Controller) run(ctx context.Context) {
	result, err := c.Audit.Run(ctx)
	if ctx.Err() != nil {
		return // an incomplete result
	}
	log := logf.FromContext(ctx)
	if err != nil {
		log.Error(err, "not everything could be checked; the next run tries again")
	}
	observe(c.platform(), result, err)
	if errors.Is(err, errNotRead) {
		return
	}
	c.record(ctx, result.Findings)
	log.Info("audited", "machines", result.Machines, "accounts", result.Accounts, "cloudRequests", result.Requests,
		"findings", len(result.Findings))
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
			"message", finding.Message)
		if finding.Object.Name == "" {
			continue
		}
		c.Recorder.Record(events.Event{
			Cluster: finding.LogicalCluster, Object: finding.Object, Type: corev1.EventTypeWarning, Reason: finding.Reason, Message: "Audit: " + finding.Message,
		})
	}
}
