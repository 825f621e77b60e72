package controllermanager_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// TestLabelsCannotBeRemoved: without them the next change would not be checked.
func TestLabelsCannotBeRemoved(t *testing.T) {
	ofApp := func(app string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": app, clusterLabel: "metal"} }
	}
	inPlace := summary{Decision: webhooks.Allowed, Reason: "IdentityInPlace"}
	const message = "its labels make it a controller manager (app=cloudsigma-ccm), and without them its next change would not be checked; " +
		"leave them, or delete the object and make another one"
	denied := denial("ControllerManagerDeselected", "metadata.labels", message)
	byName := func(c *v1beta1.ControllerManager) {
		c.Objects = []v1beta1.ControllerManagerObject{{Namespace: "tenant-a", Name: "ccm"}}
	}
	for name, tc := range map[string]struct {
		old, new func(*appsv1.Deployment)
		config   v1beta1.ControllerManager
		create   bool
		want     summary
	}{
		"they stay":                {old: ofApp("cloudsigma-ccm"), new: ofApp("cloudsigma-ccm"), want: inPlace},
		"they are added":           {old: ofApp("web"), new: ofApp("cloudsigma-ccm"), want: inPlace},
		"they are removed":         {old: ofApp("cloudsigma-ccm"), new: ofApp("web"), want: denied},
		"all labels are removed":   {old: ofApp("cloudsigma-ccm"), new: func(d *appsv1.Deployment) { d.Labels = nil }, want: denied},
		"missing before and after": {old: ofApp("web"), new: ofApp("other"), want: inPlace},
		"they are removed from an object that is selected by name": {old: ofApp("cloudsigma-ccm"), new: ofApp("web"), config: config(byName), want: inPlace},
		"there is no selector":                            {old: ofApp("a"), new: ofApp("b"), config: config(byName, func(c *v1beta1.ControllerManager) { c.Selector = nil }), want: inPlace},
		"a new object, with an old object in the request": {old: ofApp("cloudsigma-ccm"), new: ofApp("web"), create: true, want: inPlace},
	} {
		if tc.config.Mode == "" {
			tc.config = config()
		}
		for gateName, gate := range both(tc.config, metal()) {
			t.Run(name+"/"+gateName, func(t *testing.T) {
				of := request(t, deployment(withEnv(identity()...), tc.new), tc.create)
				of.OldObject.Raw = encode(t, deployment(tc.old))
				if diff := cmp.Diff(tc.want, summaryOf(gate.Review(t.Context(), of))); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestTheSecretMustExist(t *testing.T) {
	const at = "spec.template.spec.containers[0].env"
	const unread = subject + "the cluster of the controller manager, or its Secret, cannot be read now; try again"
	for name, tc := range map[string]struct {
		objects func(*accounts)
		want    summary
	}{
		"it exists": {func(*accounts) {}, summary{Decision: webhooks.Allowed, Reason: "IdentityInPlace"}},
		"it does not exist": {func(a *accounts) { a.noSecret = true }, denial("SecretMissing", at,
			`there is no Secret "cloudsigma-impersonation" in its namespace, which its pods need to start; create it first, with the keys oauth-url, client-id, client-secret`)},
		"keys are missing": {func(a *accounts) { a.missing = []string{"client-id", "client-secret"} }, denial("SecretMissing", at,
			`Secret "cloudsigma-impersonation" of its namespace has no values for client-id, client-secret, which its pods need to start; add them first`)},
		"it cannot be read": {func(a *accounts) { a.secretErr = errors.New("connection denied") }, summary{
			Decision: webhooks.Undecided, Reason: "ObjectsUnknown", Message: unread,
			Events: eventOn(corev1.EventTypeWarning, "ObjectsUnknown", "Denied: "+unread),
		}},
	} {
		objects := metal()
		tc.objects(objects)
		for gateName, gate := range both(config(), objects) {
			t.Run(name+"/"+gateName, func(t *testing.T) {
				got := summaryOf(gate.Review(t.Context(), request(t, deployment(withEnv(identity()...)), false)))
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestOtherKinds: other kinds with a pod template have the same answers.
func TestOtherKinds(t *testing.T) {
	for _, kind := range []string{"DaemonSet", "StatefulSet"} {
		for gateName, gate := range both(config(), metal()) {
			t.Run(kind+"/"+gateName, func(t *testing.T) {
				of := request(t, deployment(withEnv(value("CLOUDSIGMA_REGION", "zrh"))), false)
				of.Kind = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}
				got := gate.Review(t.Context(), of)
				if got.Decision != webhooks.Denied || len(got.Events) != 1 || got.Events[0].Object.Kind != kind {
					t.Errorf("%+v, want a denial with an Event on the %s", got, kind)
				}
			})
		}
	}
}
