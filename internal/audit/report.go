package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// Reports takes the results of the audit by namespace.
type Reports interface {
	// Replace takes the results of all namespaces.
	Replace(ctx context.Context, all map[string][]openreports.ReportResult) error
	// Update takes those of some namespaces, between two calls of Replace.
	Update(ctx context.Context, changed map[string][]openreports.ReportResult) error
}

// updateInterval is the time between two updates of reports. A tenant that changes its machines in a loop causes one write in this time.
const updateInterval = 10 * time.Second

// Gates, by the names that they have in metrics. They are the policies of results.
const (
	gateMachine       = "machine-ownership"
	gateImpersonation = "cluster-impersonation"
	gateDelegation    = "cluster-delegation"
)

// reasonOwned is the rule of a result without a finding.
const reasonOwned = "InstanceOwned"

// subject is a machine that the audit compared with the cloud.
type subject struct {
	key    clusterapi.MachineKey
	object corev1.ObjectReference
}

func subjectOf(machine clusterapi.Machine) subject {
	return subject{machine.Key(), machine.Reference()}
}

// results are the results for one namespace: findings first, and then the machines without findings.
func results(found []Finding, compared map[clusterapi.MachineKey]corev1.ObjectReference) []openreports.ReportResult {
	found = slices.SortedFunc(slices.Values(found), func(a, b Finding) int { return cmp.Or(byObject(a, b), cmp.Compare(a.Message, b.Message)) })
	results := make([]openreports.ReportResult, 0, len(found)+len(compared))
	wrong := map[types.UID]bool{}
	for _, finding := range found {
		wrong[finding.Object.UID] = true
		result, severity := grade(finding.Reason)
		results = append(results, resultOn(finding.Object, openreports.ReportResult{
			Policy: cmp.Or(finding.gate, gateMachine), Rule: finding.Reason, Result: result, Severity: severity, Description: finding.Message,
		}))
	}
	passed := len(results)
	for _, object := range compared {
		if !wrong[object.UID] {
			results = append(results, resultOn(object, openreports.ReportResult{
				Policy: gateMachine, Rule: reasonOwned, Result: "pass", Severity: "info", Description: "its instance belongs to the user that its provider acts as",
			}))
		}
	}
	slices.SortFunc(results[passed:], func(a, b openreports.ReportResult) int {
		return cmp.Or(cmp.Compare(a.Subjects[0].Kind, b.Subjects[0].Kind), cmp.Compare(a.Subjects[0].Name, b.Subjects[0].Name),
			cmp.Compare(a.Subjects[0].UID, b.Subjects[0].UID))
	})
	return results
}

// resultOn returns a result about an object. It has no resource version, which heartbeats change.
func resultOn(object corev1.ObjectReference, result openreports.ReportResult) openreports.ReportResult {
	object.ResourceVersion = ""
	result.Subjects = []corev1.ObjectReference{object}
	return result
}

// grade returns the result and the severity of a finding: what gives a tenant something of another one is high, and what only costs money is a warning.
func grade(reason string) (openreports.Result, openreports.ResultSeverity) {
	switch reason {
	case ownership.ReasonUnknown, reasonNotAudited:
		return "error", "medium"
	case ReasonOrphaned, ReasonDuplicate, ReasonNotNamed:
		return "warn", "low"
	case ownership.ReasonNotOwned, ownership.ReasonConflict:
		return "fail", "high"
	}
	return "fail", "medium"
}

// report writes the reports of all namespaces, after a run.
func (c *Controller) report(ctx context.Context) {
	if c.Reports == nil {
		return
	}
	if err := c.Reports.Replace(ctx, c.current.results(true)); err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Error(err, "reports could not be written; the next run tries again")
	}
}

// updateReports writes the reports of the namespaces that changed since, until ctx ends. It begins after an interval: the first run writes them all.
func (c *Controller) updateReports(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, updateInterval, false, func(ctx context.Context) (bool, error) {
		if err := c.Reports.Update(ctx, c.current.results(false)); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "reports could not be updated; the next run tries again")
		}
		return false, nil
	})
}
