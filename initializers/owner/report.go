package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/preflight"
)

// EventRecorder records Events without blocking.
type EventRecorder interface {
	Record(event events.Event)
}

// reporter turns results into metrics, Events and log lines.
type reporter struct {
	recorder EventRecorder
	// checker finds other causes why a workspace is stuck.
	checker preflight.Checker
	// workspaceOf is Shards.WorkspaceOf. Only initialization uses it.
	workspaceOf func(ctx context.Context, cluster logicalcluster.Name, owner *corev1alpha1.LogicalClusterOwner) (*tenancyv1alpha1.Workspace, error)
}

// repair reports a result of the repair. The controller logs errors.
func (r reporter) repair(ctx context.Context, req request, result Result, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // this replica does not hold the Lease any more, or ends
	}
	log := logf.FromContext(ctx).WithValues("path", result.Path, "outcome", string(result.Outcome), "reason", string(result.Report.Reason))
	record := func(eventType, reason, message string) { r.record(req.workspace(), eventType, reason, message) }
	if result.Rewritten {
		log.Info("the owner was changed", "message", result.Report.Message)
		recordChange(record, "Repaired: ", result)
	}
	if err == nil && (result.Outcome == "" || result.healthy() || result.Outcome == Gone && req.Ready) {
		return
	}
	repairs.WithLabelValues(string(result.Outcome)).Inc()
	sentence := Sentence(result, err)
	switch result.Outcome {
	case Failed:
		record(corev1.EventTypeWarning, events.RepairFailed, "The owner could not be corrected: "+sentence)
	case Corrected:
		log.Info("the workspace was repaired")
	case Foreign:
		log.Info("the workspace was not repaired", "message", sentence)
		record(corev1.EventTypeWarning, notChanged(result), "The owner was not changed, because the repair only warns: "+sentence)
	case Differs:
		log.Info("the workspace was not repaired", "message", sentence)
		record(corev1.EventTypeWarning, events.OwnerDiffers, sentence)
	case NotCorrectable:
		log.Info("the workspace was not repaired", "message", sentence)
		record(corev1.EventTypeWarning, events.OwnerNotRewritten, "The owner cannot be corrected: "+sentence)
	case Fine:
		log.V(1).Info("the workspace is stuck for another reason", "message", sentence)
	case Retriggered:
		log.Info("system:apibindings was retriggered", "message", sentence)
		record(corev1.EventTypeNormal, events.InitializationRetriggered, sentence)
	default:
		log.V(1).Info("the workspace was not repaired", "message", sentence)
	}
}

// causes finds causes other than the owner that keep a workspace from becoming Ready, and records one Event for each. reported is whether
// there was any. It returns an empty report if nothing could be determined.
func (r reporter) causes(ctx context.Context, req request, result Result) (report preflight.Report, reported bool) {
	log := logf.FromContext(ctx).WithValues("path", result.Path)
	ws, err := r.checker.Load(ctx, result.Cluster.Path())
	if err != nil {
		log.Error(err, "find other causes why a workspace is not Ready")
		return preflight.Report{}, false
	}
	report = r.checker.Check(ctx, ws.WithType(req.Type))
	for _, finding := range report.Findings {
		switch {
		case finding.Advisory, finding.Reason == preflight.NotReady:
		case (finding.Reason == preflight.OwnerForeign || finding.Reason == preflight.PrivilegedOwner) && result.Outcome == Foreign:
			// the repair corrects or reports it
		case finding.Reason == preflight.Undetermined: // objects that this program may not read concern the operator, not the creator
			log.Info("other causes why a workspace is not Ready could not be determined", "message", finding.Message)
		case finding.Reason == preflight.InitializerPending, finding.Reason == preflight.BindingIncomplete:
			// The conditions of the Workspace already report these.
			log.V(1).Info("the workspace is stuck", "reason", string(finding.Reason), "message", finding.Message)
		default:
			r.record(req.workspace(), corev1.EventTypeWarning, string(finding.Reason), causeText(finding))
			reported = true
		}
	}
	return report, reported
}

// initialization reports a result of the initializer, on the Workspace that the LogicalCluster names if it is that of the logical cluster.
func (r reporter) initialization(ctx context.Context, lc *corev1alpha1.LogicalCluster, result Result, err error) {
	record := func(eventType, reason, message string) {
		owner := lc.Spec.Owner
		if owner == nil {
			return
		}
		ws, readErr := r.workspaceOf(ctx, result.Cluster, owner)
		switch {
		case ws != nil:
			r.record(events.Event{
				Cluster: logicalcluster.Name(owner.Cluster), Object: events.Workspace(owner.Name, owner.UID, ""),
			}, eventType, reason, message)
		case readErr != nil:
			logf.FromContext(ctx).Info("no Event was written, because the Workspace could not be read", "reason", reason, "error", readErr.Error())
		}
	}
	if result.Rewritten {
		recordChange(record, "At initialization: ", result)
	}
	if err == nil && result.Outcome == "" {
		return
	}
	initialized.WithLabelValues(string(result.Outcome)).Inc()
	switch {
	case err != nil && result.Outcome == Differs:
		record(corev1.EventTypeWarning, events.OwnerDiffers, "The workspace stays in Initializing: "+err.Error())
	case err != nil:
		record(corev1.EventTypeWarning, events.OwnerNotRewritten, "The workspace stays in Initializing: "+err.Error())
	case result.Outcome == Differs:
		record(corev1.EventTypeWarning, events.OwnerDiffers, result.Report.Message)
	case result.Outcome == Foreign:
		record(corev1.EventTypeWarning, notChanged(result), "The owner was not changed, because the initializer only warns: "+result.Report.Message)
	}
}

// recordChange records the Events about a changed owner.
func recordChange(record func(eventType, reason, message string), when string, result Result) {
	if result.Report.Reason.Rewritten() {
		record(corev1.EventTypeNormal, events.OwnerRewritten, when+result.Report.Message)
	}
	if dropped := result.Report.DescribeDropped(); dropped != "" {
		record(corev1.EventTypeNormal, events.WarrantDropped, when+dropped)
	}
}

// notChanged is the reason of the Event about an owner that would be changed.
func notChanged(result Result) string {
	if !result.Report.Reason.Rewritten() && len(result.Report.Privileged) > 0 {
		return events.PrivilegedOwner
	}
	return events.OwnerNotRewritten
}

func (r reporter) record(on events.Event, eventType, reason, message string) {
	on.Type, on.Reason, on.Message = eventType, reason, message
	r.recorder.Record(on)
}

// Sentence describes a result in a sentence for users.
func Sentence(result Result, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case result.Outcome == Gone:
		return "it is no longer there"
	case result.Outcome == Waiting:
		return fmt.Sprintf("it is %s; %s", result.Phase, result.Report.Message)
	case result.Outcome == Retriggered:
		return "nothing that it needs is missing any more, so initialization is retriggered"
	case result.Outcome == Fine && result.Phase == corev1alpha1.LogicalClusterPhaseInitializing:
		return fmt.Sprintf("its owner is correct, so it is stuck for another reason: %s", result.Report.Message)
	case result.Report.Message == "":
		return "its repair was finished"
	default:
		return result.Report.Message
	}
}

// causeText is a finding in one line.
func causeText(finding preflight.Finding) string {
	text := finding.Message
	if finding.Grant == nil {
		if finding.Next != "" {
			text += "; " + finding.Next
		}
		return text
	}
	var parts []string
	for _, object := range finding.Grant.Objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			for _, rule := range o.Rules {
				parts = append(parts, fmt.Sprintf("ClusterRole %q with verbs %s on %s %s", o.Name, strings.Join(rule.Verbs, ","),
					strings.Join(rule.Resources, ",")+"."+strings.Join(rule.APIGroups, ","), strings.Join(rule.ResourceNames, ",")))
			}
		case *rbacv1.ClusterRoleBinding:
			for _, subject := range o.Subjects {
				parts = append(parts, fmt.Sprintf("ClusterRoleBinding %q of it to %s %s", o.Name, subject.Kind,
					strings.TrimPrefix(subject.Namespace+"/"+subject.Name, "/")))
			}
		}
	}
	return fmt.Sprintf("%s; it needs in %s: %s", text, finding.Grant.Workspace, strings.Join(parts, ", and "))
}
