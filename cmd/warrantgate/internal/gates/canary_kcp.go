package gates

import (
	"context"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks/workspace"
)

// rewriteWebhook is the webhook that removes the canary annotation if its value is kcp.WebhookCanary. The policy on owner integrity denies it.
const rewriteWebhook = "owner-rewrite.warrantgate.dev"

// KCPCanaries returns a Workspace with an annotation that only warrantgate may write, for the policy that protects owners, and one that the webhook
// rewrites, unless kcp has no webhooks. Gates in the mode Off are left out.
func KCPCanaries(config v1beta1.Workspace, policiesOnly bool) []Canary {
	var canaries []Canary
	if mode := config.OwnerIntegrity.Mode; mode != v1beta1.Off {
		canaries = append(canaries, Canary{
			Policy: workspace.IntegrityPolicyName, Reason: events.OwnerChangeDenied, Warns: mode == v1beta1.Warn, Object: canaryWorkspace("integrity"),
		})
	}
	if mode := config.OwnerRewrite.Mode; mode != v1beta1.Off && !policiesOnly {
		canaries = append(canaries, Canary{
			Webhook: rewriteWebhook, Rewrites: true, Reason: "Canary", Warns: mode == v1beta1.Warn, Object: canaryWorkspace(kcp.WebhookCanary),
		})
	}
	return canaries
}

// Effect is the result of a canary for the policy that rewrites owners.
type Effect string

const (
	// EffectUnknown means that the request failed before the policy was evaluated.
	EffectUnknown Effect = ""
	// Acting means that kcp evaluates the policy.
	Acting Effect = "acting"
	// NotActing means that kcp does not evaluate the policy: it does not exist, kcp has not compiled it yet, or its admission plugin
	// is disabled.
	NotActing Effect = "not acting"
)

// PolicyEffect checks with a dry run whether kcp evaluates the policy that rewrites owners. c may be a client for any workspace in
// which its user may create Workspaces. An error contains the reason for EffectUnknown.
func PolicyEffect(ctx context.Context, c client.Client) (Effect, error) {
	canary := canaryWorkspace(kcp.PolicyCanary)
	err := c.Create(ctx, canary, client.DryRunAll)
	switch _, kept := canary.GetAnnotations()[kcp.CanaryAnnotation]; {
	case err == nil && !kept:
		return Acting, nil
	case err == nil, deniedBy(workspace.IntegrityPolicyName, err): // kcp evaluates it later
		return NotActing, nil
	}
	return EffectUnknown, err
}

// canaryWorkspace returns a canary Workspace, for dry runs only. It is unstructured, so that the response replaces all of its fields.
func canaryWorkspace(value string) *unstructured.Unstructured {
	canary := &unstructured.Unstructured{Object: map[string]any{
		// Every user may use this type.
		"spec": map[string]any{"type": map[string]any{"path": kcp.Root.String(), "name": "universal"}},
	}}
	canary.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"))
	canary.SetGenerateName(namePrefix)
	canary.SetAnnotations(map[string]string{kcp.CanaryAnnotation: value})
	return canary
}

// deniedBy reports whether an admission policy denied a request.
func deniedBy(policy string, err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), quotedPolicy(policy))
}

// quotedPolicy is how API servers name a policy in denials and warnings.
func quotedPolicy(policy string) string { return "ValidatingAdmissionPolicy '" + policy + "'" }

// PolicyRestores checks with a dry run whether the policy for restored Workspaces removes what a backup contains. Where it does not, the
// request is denied as a forgery, or kcp answers with what it contains. An error means that the result is unknown.
func PolicyRestores(ctx context.Context, c client.Client) (bool, error) {
	canary := canaryWorkspace("restore")
	canary.SetAnnotations(map[string]string{kcp.CreatedByAnnotation: namePrefix})
	err := c.Create(ctx, canary, client.DryRunAll)
	switch {
	case err == nil:
		_, kept := canary.GetAnnotations()[kcp.CreatedByAnnotation]
		return !kept, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), kcp.CreatedByAnnotation):
		return false, nil
	}
	return false, err
}
