package owner

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/preflight"
)

// tellCauses says on a workspace that hangs with a right owner what it is that is missing, one Event a cause. That of the
// same cause again is counted up by the recorder.
func (c *Controller) tellCauses(ctx context.Context, r Repaired) {
	ws, err := c.checker.Load(ctx, r.Result.Cluster.Path())
	if err != nil {
		logf.FromContext(ctx).Error(err, "look for what else keeps a workspace from becoming Ready", "workspace", r.Result.Path)
		return
	}
	for _, finding := range c.checker.Check(ctx, ws).Findings {
		switch {
		case finding.Advisory, finding.Reason == preflight.NotReady:
		case finding.Reason == preflight.CouldNotTell: // what this program may not see is the operator's affair, not the creator's
			logf.FromContext(ctx).Info("it cannot be told what else keeps a workspace from becoming Ready", "workspace", r.Result.Path,
				"message", finding.Message)
		case finding.Reason == preflight.InitializerPending, finding.Reason == preflight.BindingIncomplete:
			// Whose turn it is, and that kcp is at work on a binding, its own conditions say.
			logf.FromContext(ctx).V(1).Info("hangs", "workspace", r.Result.Path, "reason", string(finding.Reason), "message", finding.Message)
		default:
			c.record(r, corev1.EventTypeWarning, string(finding.Reason), causeText(finding))
		}
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
	return fmt.Sprintf("%s; it takes in %s: %s", text, finding.Grant.Workspace, strings.Join(parts, ", and "))
}
