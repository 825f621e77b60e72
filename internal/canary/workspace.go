package canary

import (
	"context"
	"fmt"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
)

// Names of the webhooks that a canary is for: IntegrityWebhook denies a Workspace with the canary annotation, and rewriteWebhook removes the
// annotation if its value is kcp.WebhookCanary.
const (
	IntegrityWebhook = "owner-integrity.warrantgate.dev"
	rewriteWebhook   = "owner-rewrite.warrantgate.dev"
)

// ForKCP returns a Workspace with an annotation that only warrantgate may write, if the owner integrity gate is enabled, and one that the
// webhook rewrites, if the gate that rewrites owners is in mode Enforce. In mode Warn it changes nothing.
func ForKCP(config v1beta1.Workspace) []Canary {
	var canaries []Canary
	if mode := config.OwnerIntegrity.Mode; mode != v1beta1.Off {
		canaries = append(canaries, Canary{
			Webhook: IntegrityWebhook, Reason: events.OwnerChangeDenied, Warns: mode == v1beta1.Warn, Object: Workspace("true"),
		})
	}
	if config.OwnerRewrite.Mode == v1beta1.Enforce {
		canaries = append(canaries, Canary{Webhook: rewriteWebhook, Rewrites: true, Object: Workspace(kcp.WebhookCanary)})
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
	canary := Workspace(kcp.PolicyCanary)
	err := c.Create(ctx, canary, client.DryRunAll)
	switch _, kept := canary.GetAnnotations()[kcp.CanaryAnnotation]; {
	case err == nil && !kept:
		return Acting, nil
	case err == nil, strings.Contains(err.Error(), fmt.Sprintf("webhook %q", IntegrityWebhook)): // kcp calls the webhook after the policy
		return NotActing, nil
	}
	return EffectUnknown, err
}

// Workspace returns a canary Workspace, for dry runs only. It is unstructured, so that the response replaces all of its fields.
func Workspace(value string) *unstructured.Unstructured {
	canary := &unstructured.Unstructured{Object: map[string]any{
		// Every user may use this type.
		"spec": map[string]any{"type": map[string]any{"path": kcp.Root.String(), "name": "universal"}},
	}}
	canary.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"))
	canary.SetGenerateName(namePrefix)
	canary.SetAnnotations(map[string]string{kcp.CanaryAnnotation: value})
	return canary
}

// PolicyDenies checks with a dry run whether the owner integrity policy of that name denies a request. An error means that the
// result is unknown.
func PolicyDenies(ctx context.Context, c client.Client, policy string) (bool, error) {
	canary := Workspace("true")
	canary.SetAnnotations(map[string]string{kcp.IntegrityCanaryAnnotation: namePrefix})
	err := c.Create(ctx, canary, client.DryRunAll)
	switch {
	case err == nil, strings.Contains(fmt.Sprint(err), fmt.Sprintf("webhook %q", IntegrityWebhook)): // kcp calls the webhook after the policy
		return false, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'"):
		return true, nil
	}
	return false, err
}

// PolicyRestores checks with a dry run whether the policy for restored Workspaces removes what a backup contains. Where it does not, the
// request is denied as a forgery, or kcp answers with what it contains. An error means that the result is unknown.
func PolicyRestores(ctx context.Context, c client.Client) (bool, error) {
	canary := Workspace("true")
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
