package workspace

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
)

// OwnerRewrite is the mutating gate that rewrites the owner of a workspace to one that kcp can act as, and removes warrants that must not be
// stored from all others.
//
// It is called for the one update in which kcp's scheduler sets the logical cluster, and for a canary, which is a dry run. During creation
// kcp would undo the change, and after that update the LogicalCluster has the old owner. It fails closed: while no warrantgate answers, a
// workspace with a foreign owner, or with one that has warrants, stays in Scheduling and kcp retries, so no LogicalCluster with such an owner
// is created.
type OwnerRewrite struct {
	policy identity.Policy
}

// NewOwnerRewrite returns the gate with a delegation policy.
func NewOwnerRewrite(policy identity.Policy) *OwnerRewrite {
	return &OwnerRewrite{policy: policy}
}

var _ webhooks.Gate = &OwnerRewrite{}

// Name implements webhooks.Gate.
func (*OwnerRewrite) Name() string { return "owner-rewrite" }

// Review implements webhooks.Gate. It never denies a Workspace because of its owner. An owner that is not rewritten stays, without the
// warrants that must not be stored, and is reported.
func (g *OwnerRewrite) Review(_ context.Context, request admission.Request) webhooks.Answer {
	workspace, err := decode(request)
	if err != nil {
		return webhooks.Undecodable(err)
	}
	annotations := workspace.object.Annotations
	if !workspace.exists && annotations[kcp.CanaryAnnotation] == kcp.WebhookCanary {
		return webhooks.Answer{
			Decision: webhooks.Allowed, Reason: "Canary", Message: "kcp calls the webhook",
			Patches: []jsonpatch.JsonPatchOperation{webhooks.RemoveAnnotation(kcp.CanaryAnnotation)},
		}
	}
	owner, report := identity.Rewrite(annotations[kcp.OwnerAnnotation], workspace.cluster,
		logicalcluster.Name(annotations[kcp.ClusterAnnotation]), annotations[kcp.RequiredGroupsAnnotation], g.policy)

	answer := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: string(report.Reason), Subject: workspace.subject(), Message: report.Message,
		Details: func() []any { return details(workspace, report) },
	}
	if report.Changed() {
		answer.Patches = append(answer.Patches, webhooks.SetAnnotation(annotations, kcp.OwnerAnnotation, owner.String()))
	}
	if report.Reason.Rewritten() {
		answer.Patches = append(answer.Patches, webhooks.SetAnnotation(annotations, kcp.CreatedByAnnotation, report.CreatedBy))
	}
	answer.Notices, answer.NoticesUnchanged = notices(owner, logicalcluster.Name(annotations[kcp.ClusterAnnotation]), report)
	return answer
}

// details returns what operators see of a report in addition to its message. Empty values are left out, and so are extra fields about a
// single request, which are dropped from the owner of every service account.
func details(workspace reviewed, report identity.Report) []any {
	details := []any{"cluster", workspace.cluster.String()}
	add := func(key string, values ...string) {
		if value := strings.Join(values, ", "); value != "" {
			details = append(details, key, value)
		}
	}
	var dropped []string
	for _, drop := range report.Dropped {
		if drop.Kind != identity.DroppedExtra {
			dropped = append(dropped, fmt.Sprintf("%s %s (%s)", drop.Kind, drop.Name, drop.Reason))
		}
	}
	add("createdBy", report.CreatedBy)
	add("kept", report.Kept...)
	add("dropped", dropped...)
	add("requiredGroups", report.RequiredGroups...)
	add("privileged", report.Privileged...)
	return details
}

// notices returns the notices about the result of a rewrite for a logical cluster: where the object is changed, and where the mode Warn leaves it
// unchanged.
func notices(owner identity.Owner, cluster logicalcluster.Name, report identity.Report) (changed, unchanged []webhooks.Notice) {
	switch {
	case report.Reason.Rewritten():
		changed = []webhooks.Notice{rewritten(report)}
		unchanged = []webhooks.Notice{unchangedOwner(report)}
	case !report.Reason.Harmless():
		changed = []webhooks.Notice{notRewritten(owner, cluster, report)}
		unchanged = []webhooks.Notice{notRewritten(owner, cluster, report)}
	case report.Changed():
		unchanged = []webhooks.Notice{unchangedOwner(report)}
	default:
		return nil, nil
	}
	if dropped := report.DescribeDropped(); dropped != "" {
		changed = append(changed, webhooks.Notice{Type: corev1.EventTypeNormal, Reason: events.WarrantDropped, Message: sentence(dropped)})
	}
	return changed, unchanged
}

// unchangedOwner says what the mode Warn has not changed.
func unchangedOwner(report identity.Report) webhooks.Notice {
	return webhooks.Notice{
		Type: corev1.EventTypeWarning, Reason: events.OwnerNotRewritten,
		Message: "The owner was not changed, because the gate only warns. " + sentence(report.Message),
	}
}

// rewritten says how the owner has been rewritten.
func rewritten(report identity.Report) webhooks.Notice {
	return webhooks.Notice{Type: corev1.EventTypeNormal, Reason: events.OwnerRewritten, Message: sentence(report.Message)}
}

// notRewritten says why an owner was not rewritten, and what follows. kcp can act as a service account that names no home, as system:masters can
// impersonate it: it is valid in every logical cluster.
func notRewritten(owner identity.Owner, cluster logicalcluster.Name, report identity.Report) webhooks.Notice {
	result := "Initialization will fail if kcp has to act as this owner"
	if report.Reason != identity.Malformed && owner.IsServiceAccount() && owner.InScope(cluster) {
		result = "kcp acts as any service account of this name, and each one that is created in the workspace is its administrator: " +
			"let the service account create the workspace with its own token"
	}
	return webhooks.Notice{
		Type: corev1.EventTypeWarning, Reason: events.OwnerNotRewritten,
		Message: fmt.Sprintf("%s (%s). %s", sentence(report.Message), report.Reason, result),
	}
}

// sentence returns a message with a capital letter, for Events.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	return strings.ToUpper(message[:1]) + message[1:]
}
