package gates

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// Credentials of OpenStack are in Secrets of the consumer's workspace, which serve cannot read there.
func TestExportable(t *testing.T) {
	config := v1beta1.Default()
	config.OpenStack.AuthURLs = []string{"https://keystone.example.com/v3"}
	config.Machine.Kinds = append(config.MachineKinds(), v1beta1.MachineKind{Provider: "external-aws", Resource: "awsmachines"})
	kinds := len(config.Machine.Kinds)
	isOpenStack := func(kind v1beta1.MachineKind) bool { return kind.Provider == v1beta1.ProviderOpenStack }
	if !slices.ContainsFunc(config.Machine.Kinds, isOpenStack) {
		t.Fatal("the configuration has no kind of OpenStack")
	}
	got := Exportable(config)
	if got.OpenStack.Enabled() || slices.ContainsFunc(got.Machine.Kinds, isOpenStack) || len(got.Machine.Kinds) == 0 {
		t.Errorf("Exportable() = %+v, %+v", got.OpenStack, got.Machine.Kinds)
	}
	if got.HasExternalKinds() || !Auditable(config).HasExternalKinds() || slices.ContainsFunc(Auditable(config).Machine.Kinds, isOpenStack) {
		t.Error("external kinds have to be audited, and not gated")
	}
	if len(config.Machine.Kinds) != kinds || !config.OpenStack.Enabled() {
		t.Error("Exportable() changed its argument")
	}
}

// A path without the provider would be one of the gates on Kubernetes, which believe what an object claims about its logical cluster.
func TestProviderRegistration(t *testing.T) {
	off := v1beta1.Default()
	off.Machine.Mode, off.Cluster.Impersonation.Mode, off.Cluster.Delegation.Mode = v1beta1.Off, v1beta1.Off, v1beta1.Off
	for name, tc := range map[string]struct {
		config v1beta1.GateConfiguration
		want   []string
	}{
		"by default":    {v1beta1.Default(), []string{"ValidatingWebhookConfiguration"}},
		"gates are off": {off, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, object := range ProviderRegistration(webhooks.Server{URL: "https://gate"}, tc.config, "2ckxs5l4w09g7c29", false) {
				got = append(got, object.GetObjectKind().GroupVersionKind().Kind)
				configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
				if !ok || len(configuration.Webhooks) == 0 {
					t.Fatalf("%T, want validating webhooks", object)
				}
				for i := range configuration.Webhooks {
					hook, path := configuration.Webhooks[i].Name, *configuration.Webhooks[i].ClientConfig.URL
					if !strings.HasPrefix(path, "https://gate/kcp/2ckxs5l4w09g7c29/") || strings.Contains(hook, "openstack") || strings.Contains(hook, "secrets") {
						t.Errorf("webhook %s with the path %s", hook, path)
					}
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("ProviderRegistration() has %q, want %q", got, tc.want)
			}
		})
	}
}

func TestKubernetesRegistrationOfOpenStack(t *testing.T) {
	for name, tc := range map[string]struct {
		authURLs []string
		want     bool
	}{
		"without Keystone": {},
		"with Keystone":    {authURLs: []string{"https://keystone.example.com/v3"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			config := v1beta1.Default()
			config.OpenStack.AuthURLs = tc.authURLs
			if _, got := registeredHooks(t, config)["openstackclusters.delegation.warrantgate.dev"]; got != tc.want {
				t.Errorf("the webhook on credentials of OpenStackClusters is registered: %t of %v", got, registeredHooks(t, config))
			}
		})
	}
}
