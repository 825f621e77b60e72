package audit

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/events"
)

// jitter is the share by which the time between two passes varies, so that several management clusters do not ask a cloud
// at the same time.
const jitter = 0.1

// EventRecorder takes Events without blocking.
type EventRecorder interface {
	Record(event events.Event)
}

// Elector has one of several replicas lead.
type Elector interface {
	// Run calls lead whenever this replica leads, and returns when ctx ends.
	Run(ctx context.Context, lead func(context.Context)) error
}

// Controller makes one pass after the other, in one of several replicas at a time, and tells of each finding by an Event. Each replica tells of
// the first claims that it denied itself, because no other one knows them.
type Controller struct {
	Audit    *Audit
	Recorder EventRecorder
	Election Elector
	// Synced returns why the objects have not all been seen yet, nil if they have been.
	Synced func() error
	// Interval is the time from the end of one pass to the begin of the next, give or take a tenth.
	Interval time.Duration
}

// syncInterval is how often it is looked whether all objects have been seen.
const syncInterval = time.Second

// Start makes passes while this replica leads, until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	return c.Election.Run(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("audit")), c.lead)
}

func (c *Controller) lead(ctx context.Context) {
	defer findings.Reset() // this replica's findings end with its lead
	// The only error is that ctx ended.
	if wait.PollUntilContextCancel(ctx, syncInterval, true, func(context.Context) (bool, error) { return c.Synced() == nil, nil }) != nil {
		return
	}
	wait.JitterUntilWithContext(ctx, c.pass, c.Interval, jitter, true)
}

func (c *Controller) pass(ctx context.Context) {
	result, err := c.Audit.Pass(ctx)
	if ctx.Err() != nil {
		return // what was cut off says nothing
	}
	log := logf.FromContext(ctx)
	if err != nil {
		log.Error(err, "not all accounts could be looked at; the next pass tries again")
	}
	observe(result, err)
	for _, finding := range result.Findings {
		log.Info("finding", "reason", finding.Reason, "kind", finding.Object.Kind, "namespace", finding.Object.Namespace,
			"name", finding.Object.Name, "instance", finding.Instance, "user", finding.Account.User, "region", finding.Account.Region,
			"message", finding.Message)
		c.Recorder.Record(events.Event{
			Object: finding.Object, Type: corev1.EventTypeWarning, Reason: finding.Reason, Message: "Audit: " + finding.Message,
		})
	}
	log.Info("pass", "machines", result.Machines, "accounts", result.Accounts, "cloudRequests", result.Requests,
		"findings", len(result.Findings))
}
