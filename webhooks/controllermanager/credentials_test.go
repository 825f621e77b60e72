package controllermanager_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

func TestGlobalCredentials(t *testing.T) {
	const global = "cloudsigma-credentials"
	pod := func(modify func(*corev1.PodSpec)) *appsv1.Deployment {
		return deployment(withEnv(identity()...), func(d *appsv1.Deployment) { modify(&d.Spec.Template.Spec) })
	}
	env := func(variables ...corev1.EnvVar) *appsv1.Deployment {
		return deployment(withEnv(append(identity(), variables...)...))
	}
	volume := func(source corev1.VolumeSource) *appsv1.Deployment {
		return pod(func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "creds", VolumeSource: source}} })
	}
	fromAll := func(secret string) []corev1.EnvFromSource {
		return []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}
	}
	projected := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: global}}},
	}}}

	for name, tc := range map[string]struct {
		object     *appsv1.Deployment
		configured string // the Secret that is configured for impersonation
		want       string // the place of the credentials in the denial, empty if there is none
	}{
		"name and password": {
			object: env(value("CLOUDSIGMA_USERNAME", "root@example.com"), fromSecret("CLOUDSIGMA_PASSWORD", "own", "password")),
			want:   "CLOUDSIGMA_USERNAME, CLOUDSIGMA_PASSWORD",
		},
		"an init container has them":            {object: pod(func(p *corev1.PodSpec) { p.InitContainers[0].EnvFrom = fromAll(global) })},
		"a volume with the Secret among others": {object: volume(projected), want: `volume "creds" with Secret "cloudsigma-credentials"`},
		"a client secret from the old Secret":   {object: deployment(withEnv(identity(fromSecret("CLOUDSIGMA_CLIENT_SECRET", global, "password"))...)), want: "CLOUDSIGMA_CLIENT_SECRET"},
		"impersonation uses the old Secret":     {object: env(fromSecret("ANY", global, "username")), configured: global},
	} {
		c := config(func(c *v1beta1.ControllerManager) {
			if tc.configured != "" {
				c.SecretName = tc.configured
			}
		})
		for gateName, gate := range both(c, metal()) {
			t.Run(name+"/"+gateName, func(t *testing.T) {
				answer := gate.Review(t.Context(), request(t, tc.object, false))
				if tc.want == "" {
					if answer.Reason == "GlobalCredentials" {
						t.Errorf("denied: %s", answer.Message)
					}
					return
				}
				message := "it has the global credentials (" + tc.want + "), but impersonation is on, and with them the cloud does not show it " +
					"the servers of the cluster's user; remove them"
				got := summaryOf(answer)
				// The second gate also lists the problems that the first corrects.
				if message, more, found := strings.Cut(got.Message, "; CLOUDSIGMA_"); found && gateName == "controller-manager-integrity" && more != "" {
					got.Message, got.Causes = message, nil
					got.Events[0].Message = "Denied: " + message
				}
				want := denial("GlobalCredentials", "spec.template.spec", message)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			})
		}
	}
}

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
