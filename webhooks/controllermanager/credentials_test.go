package controllermanager_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"warrantgate.dev/webhooks"
)

// TestSecretsAreNeverRepeated: no answer, log or Event contains a secret.
func TestSecretsAreNeverRepeated(t *testing.T) {
	const canary = "c4nary"
	object := deployment(withEnv(identity(
		value("CLOUDSIGMA_CLIENT_SECRET", canary), value("CLOUDSIGMA_CLIENT_ID", canary), value("CLOUDSIGMA_OAUTH_URL", "https://u:"+canary+"@h"),
	)...))
	legacy := object.DeepCopy()
	legacy.Spec.Template.Spec.Containers[0].Env = append(legacy.Spec.Template.Spec.Containers[0].Env,
		value("CLOUDSIGMA_USERNAME", canary), value("CLOUDSIGMA_PASSWORD", canary), value("CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", canary))
	for _, object := range []*appsv1.Deployment{object, legacy} {
		for name, gate := range both(config(), metal()) {
			answer := gate.Review(t.Context(), request(t, object, false))
			if answer.Reason != "ClientSecretByValue" && answer.Reason != "GlobalCredentials" && answer.Reason != "SecretReferenceMismatch" {
				t.Errorf("%s: reason %s", name, answer.Reason)
			}
			everything := string(encode(t, []any{answer.Message, answer.Causes, answer.Events, answer.Patches, answer.Details(), answer.Field}))
			if strings.Contains(everything, canary) {
				t.Errorf("%s repeats a secret: %s", name, everything)
			}
			if answer.Decision == webhooks.Allowed {
				t.Errorf("%s has no message", name)
			}
		}
	}
}
