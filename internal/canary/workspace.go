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

// IntegrityWebhook is the webhook that refuses a Workspace with the annotation for canaries.
const IntegrityWebhook = "owner-integrity.warrantgate.dev"

// ForKCP returns a Workspace with an annotation that nobody but warrantgate may write, if the gate that guards it is on.
func ForKCP(config v1beta1.Workspace) []Canary {
	mode := config.OwnerIntegrity.Mode
	if mode == v1beta1.Off {
		return nil
	}
	return []Canary{{
		Webhook: IntegrityWebhook, Reason: events.OwnerChangeRefused, Warns: mode == v1beta1.Warn,
		Object: Workspace("true"),
	}}
}

// Effect is what a canary says of the policy that rewrites owners.
type Effect string

const (
	// EffectUnknown is a request that ended before it could tell.
	EffectUnknown Effect = ""
	// Acting is a policy that kcp evaluates.
	Acting Effect = "acting"
	// NotActing is a policy that kcp does not evaluate: there is none, it is too new, or its admission plugin is disabled.
	NotActing Effect = "not acting"
)

// PolicyEffect asks whether kcp evaluates the policy that rewrites owners, by a dry run that stores nothing. The client may be that
// of any workspace in which its user may create Workspaces. An error says why it is not known.
func PolicyEffect(ctx context.Context, c client.Client) (Effect, error) {
	canary := Workspace(kcp.PolicyCanary)
	err := c.Create(ctx, canary, client.DryRunAll)
	switch _, kept := canary.GetAnnotations()[kcp.CanaryAnnotation]; {
	case err == nil && !kept:
		return Acting, nil
	case err == nil, strings.Contains(err.Error(), fmt.Sprintf("webhook %q", IntegrityWebhook)): // which is asked after the policy
		return NotActing, nil
	}
	return EffectUnknown, err
}

// Workspace is a Workspace that is sent as a dry run only. It is unstructured, so that the answer replaces what was sent.
func Workspace(value string) *unstructured.Unstructured {
	canary := &unstructured.Unstructured{Object: map[string]any{
		// Everybody may use this type.
		"spec": map[string]any{"type": map[string]any{"path": kcp.Root.String(), "name": "universal"}},
	}}
	canary.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"))
	canary.SetGenerateName(namePrefix)
	canary.SetAnnotations(map[string]string{kcp.CanaryAnnotation: value})
	return canary
}

// PolicyRefuses tells whether the admission policy of that name, which guards owners, refuses a dry run of what it guards. An error
// says why that is not known.
func PolicyRefuses(ctx context.Context, c client.Client, policy string) (bool, error) {
	canary := Workspace("true")
	canary.SetAnnotations(map[string]string{kcp.CreatedByAnnotation: namePrefix})
	err := c.Create(ctx, canary, client.DryRunAll)
	switch {
	case err == nil, strings.Contains(fmt.Sprint(err), fmt.Sprintf("webhook %q", IntegrityWebhook)): // which is asked after the policy
		return false, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'"):
		return true, nil
	}
	return false, err
}
