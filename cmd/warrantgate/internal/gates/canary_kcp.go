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
			Policy: workspace.IntegrityPolicyName, Reason: events.OwnerChangeDenied, Warns: mode == v1beta1.Warn, Object: canaryWorkspace(kcp.CanaryAnnotation, "integrity"),
		})
	}
	if mode := config.OwnerRewrite.Mode; mode != v1beta1.Off && !policiesOnly {
		canaries = append(canaries, Canary{
			Webhook: rewriteWebhook, Rewrites: true, Reason: "Canary", Warns: mode == v1beta1.Warn, Object: canaryWorkspace(kcp.CanaryAnnotation, kcp.WebhookCanary),
		})
	}
	return canaries
}

// PolicyRewrites checks with a dry run whether kcp evaluates the policy that rewrites owners. It does not if the policy does not exist, kcp has not
// compiled it yet, or its admission plugin is disabled. c may be a client for any workspace in which its user may create Workspaces. An error means
// that the result is unknown.
func PolicyRewrites(ctx context.Context, c client.Client) (bool, error) {
	return policyRemoves(ctx, c, kcp.CanaryAnnotation, kcp.PolicyCanary)
}

// PolicyRestores checks, in the same way, whether the policy for restored Workspaces removes what a backup contains.
func PolicyRestores(ctx context.Context, c client.Client) (bool, error) {
	return policyRemoves(ctx, c, kcp.CreatedByAnnotation, namePrefix)
}

// policyRemoves reports whether a policy removes an annotation from a Workspace that only warrantgate may annotate. Where none does, the policy that
// protects owners denies the Workspace, or kcp answers with the annotation.
func policyRemoves(ctx context.Context, c client.Client, annotation, value string) (bool, error) {
	canary := canaryWorkspace(annotation, value)
	err := c.Create(ctx, canary, client.DryRunAll)
	_, kept := canary.GetAnnotations()[annotation]
	switch {
	case err == nil:
		return !kept, nil
	case deniedBy(workspace.IntegrityPolicyName, err), apierrors.IsForbidden(err) && strings.Contains(err.Error(), annotation):
		return false, nil
	}
	return false, err
}

// canaryWorkspace returns a Workspace with an annotation, for dry runs only. It is unstructured, so that the response replaces all of its fields.
func canaryWorkspace(annotation, value string) *unstructured.Unstructured {
	canary := &unstructured.Unstructured{Object: map[string]any{
		// Every user may use this type.
		"spec": map[string]any{"type": map[string]any{"path": kcp.Root.String(), "name": "universal"}},
	}}
	canary.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"))
	canary.SetGenerateName(namePrefix)
	canary.SetAnnotations(map[string]string{annotation: value})
	return canary
}

// deniedBy reports whether an admission policy denied a request.
func deniedBy(policy string, err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), quotedPolicy(policy))
}

// quotedPolicy is how API servers name a policy in denials and warnings.
func quotedPolicy(policy string) string { return "ValidatingAdmissionPolicy '" + policy + "'" }
