package workspace

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
)

// OwnerNotice is the validating gate that reports owners that are not rewritten and that an operator should check: administrators,
// owners that cannot be decoded, and missing owners. It also reports owners that RewritePolicy has changed.
//
// It denies nothing, and fails open: while no warrantgate answers, nothing is reported.
type OwnerNotice struct{}

// NewOwnerNotice returns the gate.
func NewOwnerNotice() *OwnerNotice { return &OwnerNotice{} }

var _ webhooks.Gate = &OwnerNotice{}

// Name implements webhooks.Gate.
func (*OwnerNotice) Name() string { return "owner-notice" }

// Review implements webhooks.Gate.
func (*OwnerNotice) Review(_ context.Context, request admission.Request) webhooks.Answer {
	workspace, err := decode(request)
	if err != nil {
		return webhooks.Undecodable(err)
	}
	annotations := workspace.object.Annotations
	if answer, ok := byPolicy(workspace); ok {
		return answer
	}
	cluster := logicalcluster.Name(annotations[kcp.ClusterAnnotation])
	owner, report := identity.Rewrite(annotations[kcp.OwnerAnnotation], workspace.cluster, cluster, annotations[kcp.RequiredGroupsAnnotation], identity.Policy{})

	answer := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: string(report.Reason), Subject: workspace.subject(), Message: report.Message,
		Details: func() []any { return details(workspace, report) },
	}
	switch {
	case len(report.Privileged) > 0 && (report.Reason == identity.InScope || report.Reason == identity.TooLarge):
		answer.Reason = events.PrivilegedOwner
		answer.Message = fmt.Sprintf("the recorded owner has an administrator's permissions (%s), and kcp initializes this workspace with them; "+
			"create workspaces with a scoped service account, or as a user without these groups", strings.Join(report.Privileged, ", "))
		answer.Notices = []webhooks.Notice{{Type: corev1.EventTypeWarning, Reason: events.PrivilegedOwner, Message: sentence(answer.Message)}}
	case report.Reason == identity.TooLarge: // kcp has no such limit
		answer.Notices = []webhooks.Notice{{
			Type: corev1.EventTypeWarning, Reason: events.OwnerNotRewritten, Message: fmt.Sprintf("%s (%s)", sentence(report.Message), report.Reason),
		}}
	case !report.Reason.Harmless():
		answer.Notices = []webhooks.Notice{notRewritten(owner, cluster, report)}
	}
	return answer
}

// byPolicy reports an owner that RewritePolicy has changed in this update. It returns false if there is none.
func byPolicy(workspace reviewed) (webhooks.Answer, bool) {
	before, after := workspace.old.Annotations, workspace.object.Annotations
	if before[kcp.RewrittenByAnnotation] == after[kcp.RewrittenByAnnotation] {
		return webhooks.Answer{}, false
	}
	cluster := logicalcluster.Name(after[kcp.ClusterAnnotation])
	owner, report := identity.Rewrite(before[kcp.OwnerAnnotation], workspace.cluster, cluster, after[kcp.RequiredGroupsAnnotation], identity.Policy{})
	if !report.Changed() || owner.String() != after[kcp.OwnerAnnotation] {
		return webhooks.Answer{}, false
	}
	changed, _ := notices(owner, cluster, report)
	return webhooks.Answer{
		Decision: webhooks.Allowed, Reason: string(report.Reason), Subject: workspace.subject(), Message: report.Message,
		Details: func() []any { return append(details(workspace, report), "rewrittenBy", RewritePolicyName) },
		Notices: changed,
	}, true
}
