package controllermanager_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/webhooks"
)

// TestLabelsCannotBeRemoved: without them the next change would not be checked. TestCheck of package controllermanager has all cases.
func TestLabelsCannotBeRemoved(t *testing.T) {
	ofApp := func(app string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": app, clusterLabel: "metal"} }
	}
	inPlace := summary{Decision: webhooks.Allowed, Reason: "IdentityInPlace"}
	const message = "its labels make it a controller manager (app=cloudsigma-ccm), and without them its next change would not be checked; " +
		"leave them, or delete the object and make another one"
	denied := denial("ControllerManagerDeselected", "metadata.labels", message)
	for name, tc := range map[string]struct {
		old, new func(*appsv1.Deployment)
		create   bool
		want     summary
	}{
		"they stay":        {old: ofApp("cloudsigma-ccm"), new: ofApp("cloudsigma-ccm"), want: inPlace},
		"they are removed": {old: ofApp("cloudsigma-ccm"), new: ofApp("web"), want: denied},
		"a new object, with an old object in the request": {old: ofApp("cloudsigma-ccm"), new: ofApp("web"), create: true, want: inPlace},
	} {
		for gateName, gate := range both(config(), metal()) {
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
