package gates

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"warrantgate.dev/internal/canary"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// TestCanariesNameHooksThatThereAre checks that no canary uses the old name of a renamed gate.
func TestCanariesNameHooksThatThereAre(t *testing.T) {
	config := v1beta1.Default()
	config.OpenStack.AuthURLs = []string{"https://keystone.example.com/v3"}
	config.KeystonePolicy.Mode = v1beta1.Enforce
	canaries, err := canary.ForKubernetes(config, "default")
	if err != nil {
		t.Fatal(err)
	}
	if len(canaries) != 3 {
		t.Errorf("%d canaries, want those on policies and on machines of both clouds", len(canaries))
	}
	registered := registeredHooks(t, config)
	for _, sent := range append(canaries, canary.ForKCP(config.Workspace)...) {
		if !registered[sent.Webhook] {
			t.Errorf("no webhook %q is registered", sent.Webhook)
		}
	}
}

// registeredHooks are the names of all validating webhooks, in Kubernetes and in kcp.
func registeredHooks(t *testing.T, config v1beta1.GateConfiguration) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, object := range append(KubernetesRegistration(webhooks.Server{}, config), workspace.Registration(webhooks.Server{}, config.Workspace)...) {
		if configuration, is := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); is {
			for i := range configuration.Webhooks {
				names[configuration.Webhooks[i].Name] = true
			}
		}
	}
	return names
}
