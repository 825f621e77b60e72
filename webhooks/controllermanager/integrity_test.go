package controllermanager_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// TestIntegrity has problems that Identity would have corrected if another webhook had not changed the object afterwards. Both gates deny
// the other problems.
func TestIntegrity(t *testing.T) {
	const env = "spec.template.spec.containers[0].env"
	for name, tc := range map[string]struct {
		env  []corev1.EnvVar
		mode v1beta1.Mode
		want summary
	}{
		"complete": {env: identity(), want: summary{Decision: webhooks.Allowed, Reason: "IdentityInPlace"}},
		"a client secret by value": {
			env: identity(value("CLOUDSIGMA_CLIENT_SECRET", "s3cret")), want: denial("ClientSecretByValue", env+"[3]", byValue),
		},
		"a problem that Identity only reported in mode Warn": {
			env: identity()[:2], mode: v1beta1.Warn, want: summary{Decision: webhooks.Allowed, Reason: "IdentityInPlace"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config()
			if tc.mode != "" {
				c.Mode = tc.mode
			}
			answer := newIntegrity(c, metal()).Review(t.Context(), request(t, deployment(withEnv(tc.env...)), false))
			if diff := cmp.Diff(tc.want, summaryOf(answer)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			wantDetails := []any{"cluster", "metal", "user", "tenant@example.com", "region", "next"}
			if diff := cmp.Diff(wantDetails, answer.Details()); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
		})
	}
}
