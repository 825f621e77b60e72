package charts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/charts/charttest"
)

// clientCA are values that require client certificates of API servers.
const clientCA = "clients: {names: [kube-apiserver], caBundle: \"-----BEGIN CERTIFICATE-----\"}\n"

// TestTheWebhookPath checks that serve accepts the registered path, and that only the Secret contains a token.
func TestTheWebhookPath(t *testing.T) {
	first, second := strings.Repeat("a", 32), strings.Repeat("b", 64)
	const gates = "config: {machine: {mode: \"Off\"}, audit: {mode: \"Off\"}, cluster: {impersonation: {mode: \"Off\"}}, keystonePolicy: {selector: {matchLabels: {a: b}}}}\n"
	for name, tc := range map[string]struct {
		values string
		// wantPath is the registered path. wantSecret is the mounted Secret. The chart creates it if wantTokens is not "".
		wantPath, wantSecret, wantTokens string
		wantErr                          string
	}{
		"one token":              {values: "webhookPath: {tokens: [" + first + "]}", wantPath: "/" + first + "/keystone/policy", wantSecret: "warrantgate-webhook-path", wantTokens: first},
		"the first of two":       {values: "webhookPath: {tokens: [" + second + ", " + first + "]}", wantPath: "/" + second + "/keystone/policy", wantSecret: "warrantgate-webhook-path", wantTokens: second + "\n" + first},
		"a Secret":               {values: "webhookPath: {existingSecret: mine, tokens: [" + first + "]}", wantPath: "/" + first + "/keystone/policy", wantSecret: "mine"},
		"clients alone":          {values: clientCA, wantPath: "/keystone/policy"},
		"clients and a token":    {values: clientCA + "webhookPath: {tokens: [" + first + "]}", wantPath: "/" + first + "/keystone/policy", wantSecret: "warrantgate-webhook-path", wantTokens: first},
		"nothing, and a cluster": {values: "", wantErr: "without access to the cluster (helm template, GitOps) a random token would be another one each time: set webhookPath.tokens"},
		"a Secret that is not read": {
			values:  "webhookPath: {existingSecret: mine}",
			wantErr: "webhookPath.existingSecret: there is no Secret mine with the key tokens that Helm can read; without access to the cluster (helm template, GitOps) set webhookPath.tokens to the lines of that Secret, too",
		},
		"a token that is too short": {values: "webhookPath: {tokens: [" + first[1:] + "]}", wantErr: "tokens"},
		"a token of two segments":   {values: "webhookPath: {tokens: [" + first + "/a]}", wantErr: "tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			chart, err := charttest.Chart()
			if err != nil {
				t.Fatal(err)
			}
			rendered, err := charttest.TemplateOf(t.Context(), chart, certificate+gates+tc.values)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error = %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			webhooks, _ := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, rendered.Objects, "ValidatingWebhookConfiguration")
			if diff := cmp.Diff(tc.wantPath, *webhooks.Webhooks[0].ClientConfig.Service.Path); diff != "" {
				t.Errorf("path (-want +got):\n%s", diff)
			}
			secret, made := find[corev1.Secret](t, rendered.Objects, "Secret")
			if made != (tc.wantTokens != "") || made && (secret.Name != tc.wantSecret || string(secret.Data["tokens"]) != tc.wantTokens) {
				t.Errorf("Secret %q with %q", secret.Name, secret.Data["tokens"])
			}
			deployment, _ := find[appsv1.Deployment](t, rendered.Objects, "Deployment")
			mounted := ""
			for _, volume := range deployment.Spec.Template.Spec.Volumes {
				if volume.Name == "webhook-path" {
					mounted = volume.Secret.SecretName
				}
			}
			if diff := cmp.Diff(tc.wantSecret, mounted); diff != "" {
				t.Errorf("Secret that is mounted (-want +got):\n%s", diff)
			}
			for _, object := range append(append(rendered.Objects, rendered.Hooks...), rendered.Tests...) {
				text, err := object.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if object.GetKind() != "ValidatingWebhookConfiguration" && strings.Contains(string(text), first) {
					t.Errorf("a token is in the %s %s", object.GetKind(), object.GetName())
				}
			}
		})
	}
}
