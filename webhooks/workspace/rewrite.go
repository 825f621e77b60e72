package workspace

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// OwnerRewrite is the mutating gate that gives a workspace an owner that kcp can act as.
//
// It is registered for the one update in which kcp's scheduler picks the logical cluster: on create kcp would undo
// the change, and later the LogicalCluster has the old owner. It fails closed: while no warrantgate answers, a
// workspace with a foreign owner stays in Scheduling, kcp tries again, and no workspace with a broken owner is made.
type OwnerRewrite struct {
	policy identity.Policy
}

// NewOwnerRewrite returns the gate under a delegation policy.
func NewOwnerRewrite(policy identity.Policy) *OwnerRewrite {
	return &OwnerRewrite{policy: policy}
}

var _ webhooks.Gate = &OwnerRewrite{}

// Name implements webhooks.Gate.
func (*OwnerRewrite) Name() string { return "owner-rewrite" }

// Review implements webhooks.Gate. It never refuses a Workspace for its owner: what cannot be rewritten is left as
// it was, but without an administrator's power, and reported.
func (g *OwnerRewrite) Review(_ context.Context, request admission.Request) webhooks.Answer {
	workspace, err := decode(request)
	if err != nil {
		return webhooks.Undecodable(err)
	}
	annotations := workspace.object.Annotations
	owner, report := identity.Rewrite(annotations[kcp.OwnerAnnotation],
		logicalcluster.Name(annotations[kcp.ClusterAnnotation]), annotations[kcp.RequiredGroupsAnnotation], g.policy)

	answer := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: string(report.Reason), Subject: workspace.subject(), Message: report.Message,
		Details: func() []any { return details(workspace, report) },
	}
	if owner != annotations[kcp.OwnerAnnotation] {
		answer.Patches = append(answer.Patches, setAnnotation(kcp.OwnerAnnotation, owner))
		answer.Committed = func() { countDropped(report) }
	}
	if report.Reason.Rewritten() {
		answer.Patches = append(answer.Patches, setAnnotation(kcp.CreatedByAnnotation, report.CreatedBy))
		answer.Committed = func() { countRewrite(report); countDropped(report) }
	}
	answer.Notices, answer.NoticesUnchanged = notices(report)
	return answer
}

// details are what a report says to operators beyond its message. What there is nothing of, and the fields about a single
// request, which go from every service account's owner, are left out.
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

// notices returns what Events say of a report: where the owner is changed as it says, and where the owner stays as it is.
func notices(report identity.Report) (changed, unchanged []webhooks.Notice) {
	switch {
	case report.Reason.Rewritten():
		changed = []webhooks.Notice{rewritten(report)}
		unchanged = []webhooks.Notice{{
			Type: corev1.EventTypeWarning, Reason: events.OwnerNotRewritten,
			Message: "The owner was left as it is, because the gate only warns. " + sentence(report.Message),
		}}
	case !report.Reason.Harmless():
		changed = []webhooks.Notice{unusableOwner(report)}
		unchanged = []webhooks.Notice{unusableOwner(report)}
	default:
		return nil, nil
	}
	if dropped := describeDropped(report.Dropped); dropped != "" {
		changed = append(changed, webhooks.Notice{Type: corev1.EventTypeNormal, Reason: events.WarrantDropped, Message: dropped})
	}
	return changed, unchanged
}

// rewritten says that the owner has been rewritten, and how.
func rewritten(report identity.Report) webhooks.Notice {
	return webhooks.Notice{Type: corev1.EventTypeNormal, Reason: events.OwnerRewritten, Message: sentence(report.Message)}
}

// unusableOwner says why an owner was left as it is although kcp cannot act as it.
func unusableOwner(report identity.Report) webhooks.Notice {
	return webhooks.Notice{
		Type: corev1.EventTypeWarning, Reason: events.OwnerNotRewritten,
		Message: fmt.Sprintf("%s (%s). Initialization will fail if kcp has to act as this owner", sentence(report.Message), report.Reason),
	}
}

// dropTexts say why a warrant or group was dropped, without naming whose it was.
var dropTexts = map[identity.DropReason]string{
	identity.Privileged: "carried an administrator's power, which is never delegated",
	identity.Lent:       "lent for one request and not named by the delegation policy",
	identity.Unreadable: "could not be read",
	identity.Homeless:   "of a service account without one home cluster",
}

// describeDropped says what of the creator's rights the owner does not have, or "" where that is nothing that a
// person would miss: fields about a single request are not.
func describeDropped(dropped []identity.Drop) string {
	counts := map[string]int{}
	for _, drop := range dropped {
		if drop.Kind != identity.DroppedExtra {
			counts[fmt.Sprintf("%s %s", drop.Kind, dropTexts[drop.Reason])]++
		}
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Not passed on to the owner: " + strings.Join(parts, "; ")
}

// pointerEscapes are those of JSON pointers, RFC 6901.
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func setAnnotation(key, value string) jsonpatch.JsonPatchOperation {
	return jsonpatch.NewOperation("add", "/metadata/annotations/"+pointerEscapes.Replace(key), value)
}

// sentence starts a report's message with a capital, as Events are read by themselves.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	return strings.ToUpper(message[:1]) + message[1:]
}
