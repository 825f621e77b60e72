package controllermanager_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

func TestMalformedObjectsAreDenied(t *testing.T) {
	for gateName, gate := range both(config(), metal()) {
		if gate.Name() != gateName {
			t.Errorf("Name() = %q, want %q", gate.Name(), gateName)
		}
		for name, tc := range map[string]struct{ raw, wantReason string }{
			"nothing":                       {"", "Undecodable"},
			"a list":                        {"[]", "Undecodable"},
			"labels that are numbers":       {`{"metadata":{"labels":{"a":1}}}`, "Undecodable"},
			"containers that are an object": {`{"spec":{"template":{"spec":{"containers":{"name":"ccm"}}}}}`, "Undecodable"},
			"an environment that is a text": {`{"spec":{"template":{"spec":{"containers":[{"name":"ccm","env":"A=b"}]}}}}`, "Undecodable"},
			"a value that is a number":      {`{"spec":{"template":{"spec":{"containers":[{"name":"ccm","env":[{"name":"A","value":1}]}]}}}}`, "Undecodable"},
			"null":                          {"null", "ContainerMissing"},
			"an empty object":               {"{}", "ContainerMissing"},
			"a spec that is null":           {`{"spec":null}`, "ContainerMissing"},
			"containers that are null":      {`{"spec":{"template":{"spec":{"containers":null}}}}`, "ContainerMissing"},
			"a container that is null":      {`{"spec":{"template":{"spec":{"containers":[null]}}}}`, "ContainerMissing"},
			"containers in capitals":        {`{"spec":{"template":{"spec":{"Containers":[{"name":"ccm"}]}}}}`, "ContainerMissing"},
			"labels that are null":          {`{"metadata":{"labels":null},"spec":{"template":{"spec":{"containers":[{"name":"ccm","env":[{"name":"A"}]}]}}}}`, "ControllerManagerWithoutCluster"},
			"a label that is empty": {
				`{"metadata":{"labels":{"` + clusterLabel + `":""}},"spec":{"template":{"spec":{"containers":[{"name":"ccm","env":[{"name":"A"}]}]}}}}`,
				"ControllerManagerWithoutCluster",
			},
		} {
			t.Run(name+"/"+gateName, func(t *testing.T) {
				answer := gate.Review(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
					Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(tc.raw)},
				}})
				if answer.Decision != webhooks.Denied || answer.Reason != tc.wantReason || answer.Message == "" {
					t.Errorf("answer %+v, want denied %s with a message", answer, tc.wantReason)
				}
			})
		}
	}
}

func TestEventsOfADeniedCreation(t *testing.T) {
	set := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Set", Name: "first", UID: "1"}
	controlPlane := metav1.OwnerReference{APIVersion: "controlplane.example.com/v1", Kind: "ControlPlane", Name: "metal", UID: "2", Controller: ptr.To(true)}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   []corev1.ObjectReference
	}{
		"without an owner": {},
		"its controller": {
			owners: []metav1.OwnerReference{set, controlPlane},
			want:   []corev1.ObjectReference{{APIVersion: "controlplane.example.com/v1", Kind: "ControlPlane", Namespace: "tenant-a", Name: "metal", UID: "2"}},
		},
		"an owner that is not a controller": {
			owners: []metav1.OwnerReference{set},
			want:   []corev1.ObjectReference{{APIVersion: "example.com/v1", Kind: "Set", Namespace: "tenant-a", Name: "first", UID: "1"}},
		},
	} {
		for gateName, gate := range both(config(), metal()) {
			t.Run(name+"/"+gateName, func(t *testing.T) {
				object := deployment(withEnv(value("CLOUDSIGMA_USER_EMAIL", "a@b")), func(d *appsv1.Deployment) { d.OwnerReferences = tc.owners })
				var got []corev1.ObjectReference
				for _, event := range gate.Review(t.Context(), request(t, object, true)).Events {
					got = append(got, event.Object)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("objects of Events (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestEventsOfADeniedPut: the object of a PUT may omit its UID, and kubectl describe finds Events by it.
func TestEventsOfADeniedPut(t *testing.T) {
	stored := deployment()
	put := deployment(withEnv(value("CLOUDSIGMA_USER_EMAIL", "a@b")), func(d *appsv1.Deployment) { d.UID = "" })
	for gateName, gate := range both(config(), metal()) {
		t.Run(gateName, func(t *testing.T) {
			r := request(t, put, false)
			r.OldObject.Raw = encode(t, stored)
			got := gate.Review(t.Context(), r).Events
			if len(got) != 1 || got[0].Object.UID != stored.UID {
				t.Errorf("Events %+v, want one on the object with UID %s", got, stored.UID)
			}
		})
	}
}

// TestNamesOfTheRequest: the object may omit the namespace and name, and a name may be generated later.
func TestNamesOfTheRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		name, generateName, wantSubject string
	}{
		"the name of the request":  {"ccm", "", subject},
		"a name that is generated": {"", "ccm-", `Deployment "ccm-" of namespace "tenant-a": `},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, deployment(withEnv(identity(value("CLOUDSIGMA_REGION", "zrh"))...), func(d *appsv1.Deployment) {
				d.Name, d.Namespace, d.GenerateName = "", "", tc.generateName
			}), true)
			r.Name = tc.name
			got := newIntegrity(config(), metal()).Review(t.Context(), r).Message
			want := tc.wantSubject + `CLOUDSIGMA_REGION is "zrh"; it has to be "next", the region of CloudSigmaCluster "metal": ` +
				"remove the variable, and warrantgate sets it, or correct the cluster"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheConfiguredContainerIsChecked(t *testing.T) {
	object := deployment(sidecar)
	want := object.DeepCopy()
	want.Spec.Template.Spec.Containers[1].Env = identity()
	named := config(func(c *v1beta1.ControllerManager) { c.Container = "proxy" })
	answer := newIdentity(named, metal()).Review(t.Context(), request(t, object, true))
	if diff := cmp.Diff(want, apply(t, object, answer)); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]events.Event(nil), answer.Events); diff != "" { // no object exists yet that could have an Event
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}
