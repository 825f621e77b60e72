package gates

import (
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// TestCanariesNameHooksThatThereAre checks that no canary uses the old name of a renamed gate.
func TestCanariesNameHooksThatThereAre(t *testing.T) {
	config := v1beta1.Default()
	config.OpenStack.AuthURLs = []string{"https://keystone.example.com/v3"}
	config.KeystonePolicy.Mode = v1beta1.Enforce
	canaries, err := KubernetesCanaries(config, "default")
	if err != nil {
		t.Fatal(err)
	}
	if len(canaries) != 3 {
		t.Errorf("%d canaries, want those on policies and on machines of both clouds", len(canaries))
	}
	registered := registeredHooks(t, config)
	for _, sent := range append(canaries, KCPCanaries(config.Workspace, false)...) {
		if sent.Policy == "" && registered[sent.Webhook] == "" {
			t.Errorf("no webhook %q is registered", sent.Webhook)
		}
	}
}

// registeredHooks are the failure policies of all webhooks, by their names: on Kubernetes, on kcp and in the workspace of a provider on kcp.
func registeredHooks(t *testing.T, config v1beta1.GateConfiguration) map[string]admissionregistrationv1.FailurePolicyType {
	t.Helper()
	registered := map[string]admissionregistrationv1.FailurePolicyType{}
	for _, object := range slices.Concat(KubernetesRegistration(webhooks.Server{}, config), workspace.Registration(webhooks.Server{}, config.Workspace),
		ProviderRegistration(webhooks.Server{}, config, "2ckxs5l4w09g7c29", true),
	) {
		switch configuration := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for i := range configuration.Webhooks {
				registered[configuration.Webhooks[i].Name] = *configuration.Webhooks[i].FailurePolicy
			}
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for i := range configuration.Webhooks {
				registered[configuration.Webhooks[i].Name] = *configuration.Webhooks[i].FailurePolicy
			}
		}
	}
	return registered
}
