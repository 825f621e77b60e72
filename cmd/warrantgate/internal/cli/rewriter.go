package cli

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// RewritesOwners reports whether the webhook or the admission policy that rewrites owners is registered in root. Whether it acts, only a dry run
// of a Workspace shows.
func RewritesOwners(ctx context.Context, config *rest.Config) (bool, error) {
	root, err := kcp.ConfigFor(config, kcp.Root)
	if err != nil {
		return false, err
	}
	c, err := admissionregistrationclient.NewForConfig(root)
	if err != nil {
		return false, err
	}
	_, webhookErr := c.MutatingWebhookConfigurations().Get(ctx, webhooks.ConfigurationName, metav1.GetOptions{})
	_, policyErr := c.MutatingAdmissionPolicyBindings().Get(ctx, workspace.RewritePolicyName, metav1.GetOptions{})
	if webhookErr == nil || policyErr == nil {
		return true, nil
	}
	return false, errors.Join(client.IgnoreNotFound(webhookErr), client.IgnoreNotFound(policyErr))
}
