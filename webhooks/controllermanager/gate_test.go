package controllermanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	domain "warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/controllermanager"
	"warrantgate.dev/webhooks/webhookstest"
)

const (
	clusterLabel = "cluster.x-k8s.io/cluster-name"
	subject      = `Deployment "ccm" of namespace "tenant-a": `
	wantUser     = `"tenant@example.com", the user of CloudSigmaCluster "metal"`
)

// config is that of an installation with all defaults.
func config(modify ...func(*v1beta1.ControllerManager)) v1beta1.ControllerManager {
	c := v1beta1.ControllerManager{
		Mode: v1beta1.Enforce, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cloudsigma-ccm"}},
		ClusterNameLabel: clusterLabel, SecretName: "cloudsigma-impersonation", Commands: []string{"/ccm"},
	}
	for _, m := range modify {
		m(&c)
	}
	return c
}

func inMode(mode v1beta1.Mode) func(*v1beta1.ControllerManager) {
	return func(c *v1beta1.ControllerManager) { c.Mode = mode }
}

// accounts are fake objects: the account of each cluster, by namespace and name.
type accounts struct {
	byName map[string]ownership.Account
	err    error
	reads  int
}

func (a *accounts) SecretKeysNow(context.Context, string, string) (keys []string, found bool, err error) {
	return []string{"client-id", "client-secret", "oauth-url", "other"}, true, nil
}

var _ domain.Objects = &accounts{}

func (a *accounts) Account(_ context.Context, cluster clusterapi.Cluster) (ownership.Account, error) {
	a.reads++
	if a.err != nil {
		return ownership.Account{}, a.err
	}
	account, found := a.byName[cluster.Namespace+"/"+cluster.Name]
	if !found {
		return ownership.Account{}, &clusterapi.AccountError{
			Reason: clusterapi.ClusterMissing, Message: `there is no CloudSigmaCluster "` + cluster.Name + `" in namespace "` + cluster.Namespace + `"`,
		}
	}
	return account, nil
}

func metal() *accounts { return actingAs("tenant@example.com", "next") }

func actingAs(user, region string) *accounts {
	return &accounts{byName: map[string]ownership.Account{
		"tenant-a/metal": {Cloud: "cloudsigma", User: user, Region: region},
		"tenant-b/metal": {Cloud: "cloudsigma", User: "somebody@else.example", Region: "zrh"},
	}}
}

// deployment is a controller manager as it is released, changed by modify.
func deployment(modify ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "ccm", Namespace: "tenant-a", UID: "4192", ResourceVersion: "7",
			Labels:      map[string]string{"app": "cloudsigma-ccm", clusterLabel: "metal"},
			Annotations: map[string]string{"example.com/a~b": "kept"},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cloudsigma-ccm"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cloudsigma-ccm"}},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "wait", Image: "busybox", Env: []corev1.EnvVar{
						{Name: "CLOUDSIGMA_USER_EMAIL", Value: "left@alone.example"},
					}}},
					Containers: []corev1.Container{{Name: "ccm", Image: "ccm:1", Args: []string{"--cloud-provider=cloudsigma"}}},
				},
			},
		},
	}
	for _, m := range modify {
		m(d)
	}
	return d
}

func withEnv(env ...corev1.EnvVar) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = env }
}

func value(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }

func fromSecret(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key},
	}}
}

// identity is the required environment, with the given variables instead.
func identity(instead ...corev1.EnvVar) []corev1.EnvVar {
	env := []corev1.EnvVar{
		value("CLOUDSIGMA_IMPERSONATION_ENABLED", "true"),
		fromSecret("CLOUDSIGMA_OAUTH_URL", "cloudsigma-impersonation", "oauth-url"),
		fromSecret("CLOUDSIGMA_CLIENT_ID", "cloudsigma-impersonation", "client-id"),
		fromSecret("CLOUDSIGMA_CLIENT_SECRET", "cloudsigma-impersonation", "client-secret"),
		value("CLOUDSIGMA_USER_EMAIL", "tenant@example.com"),
		value("CLOUDSIGMA_REGION", "next"),
	}
	for _, other := range instead {
		for i := range env {
			if env[i].Name == other.Name {
				env[i] = other
			}
		}
	}
	return env
}

// request is an update of an object, or its creation.
func request(tb testing.TB, object any, create bool) admission.Request {
	tb.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "d1", Operation: admissionv1.Update, Name: "ccm", Namespace: "tenant-a",
		Object: runtime.RawExtension{Raw: encode(tb, object)},
	}}
	if create {
		r.Operation = admissionv1.Create
	}
	return r
}

func encode(tb testing.TB, object any) []byte {
	tb.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// apply patches an object as the API server does.
func apply(t *testing.T, object *appsv1.Deployment, answer webhookstest.Answer) *appsv1.Deployment {
	t.Helper()
	patched := &appsv1.Deployment{}
	if err := json.Unmarshal(answer.Apply(t, encode(t, object)), patched); err != nil {
		t.Fatal(err)
	}
	return patched
}

func newIdentity(c v1beta1.ControllerManager, objects domain.Objects) webhookstest.Gate {
	return webhookstest.Gate{Gate: controllermanager.NewIdentity(c, true, objects), Mode: c.Mode}
}

func newIntegrity(c v1beta1.ControllerManager, objects domain.Objects) webhookstest.Gate {
	return webhookstest.Gate{Gate: controllermanager.NewIntegrity(c, true, objects), Mode: c.Mode}
}

// both are the two gates over the same objects.
func both(c v1beta1.ControllerManager, objects domain.Objects) map[string]webhookstest.Gate {
	return map[string]webhookstest.Gate{
		"controller-manager-identity":  newIdentity(c, objects),
		"controller-manager-integrity": newIntegrity(c, objects),
	}
}

// summary is an answer without the fields that differ between equal answers.
type summary struct {
	Decision               webhooks.Decision
	Reason, Message, Field string
	Causes                 []metav1.StatusCause
	Events                 []events.Event
	Patches                int
}

func summaryOf(answer webhookstest.Answer) summary {
	return summary{
		answer.Decision, answer.Reason, answer.Message, answer.Field, answer.Causes, answer.Events, len(answer.Patches),
	}
}

// eventOn is the one Event on the Deployment.
func eventOn(eventType, reason, message string) []events.Event {
	return []events.Event{{
		Object: corev1.ObjectReference{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: "tenant-a", Name: "ccm", UID: "4192", ResourceVersion: "7",
		},
		Type: eventType, Reason: reason, Message: message,
	}}
}

// denial is the answer of both gates to a Deployment that neither gate can correct.
func denial(reason, field, message string, causes ...metav1.StatusCause) summary {
	return summary{
		Reason: reason, Message: subject + message, Field: field, Causes: causes,
		Events: eventOn(corev1.EventTypeWarning, reason, "Denied: "+subject+message),
	}
}

// TestBothGatesDenyProblemsThatCannotBeCorrected: the first denies before the second is called. Package internal/controllermanager tests all problems.
func TestBothGatesDenyProblemsThatCannotBeCorrected(t *testing.T) {
	const (
		env     = "spec.template.spec.containers[0].env"
		correct = ": remove the variable, and warrantgate sets it, or correct the cluster"
		region  = `CLOUDSIGMA_REGION is "zrh"; it has to be "next", the region of CloudSigmaCluster "metal"` + correct
	)
	for name, tc := range map[string]struct {
		env  []corev1.EnvVar
		want summary
	}{
		"the email of another user": {
			env:  identity(value("CLOUDSIGMA_USER_EMAIL", "boss@example.com")),
			want: denial("UserEmailMismatch", env+"[4]", `CLOUDSIGMA_USER_EMAIL is "boss@example.com"; it has to be `+wantUser+correct),
		},
		"another user and another region, in one answer": {
			env: identity(value("CLOUDSIGMA_REGION", "zrh"), value("CLOUDSIGMA_USER_EMAIL", "a@b")),
			want: denial("UserEmailMismatch", env+"[4]", `CLOUDSIGMA_USER_EMAIL is "a@b"; it has to be `+wantUser+correct+"; "+region,
				metav1.StatusCause{Type: "RegionMismatch", Field: env + "[5]", Message: region}),
		},
	} {
		for gateName, gate := range both(config(), metal()) {
			t.Run(name+"/"+gateName, func(t *testing.T) {
				if diff := cmp.Diff(tc.want, summaryOf(gate.Review(t.Context(), request(t, deployment(withEnv(tc.env...)), false)))); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func sidecar(d *appsv1.Deployment) {
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
}

func TestNothingIsCheckedWithoutImpersonation(t *testing.T) {
	objects := metal()
	legacy := request(t, deployment(withEnv(value("CLOUDSIGMA_USERNAME", "global"), value("CLOUDSIGMA_PASSWORD", "s3cret"))), true)
	for _, gate := range []webhookstest.Gate{
		{Gate: controllermanager.NewIdentity(config(), false, objects)}, {Gate: controllermanager.NewIntegrity(config(), false, objects)},
	} {
		want := summary{Decision: webhooks.Allowed, Reason: "ImpersonationOff"}
		if diff := cmp.Diff(want, summaryOf(gate.Review(t.Context(), legacy))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", gate.Name(), diff)
		}
	}
	if objects.reads > 0 {
		t.Errorf("the cluster was read %d times", objects.reads)
	}
}

func TestADeletionIsNeverDenied(t *testing.T) {
	objects := &accounts{err: errors.New("the API server is away")}
	leaving := deployment(func(d *appsv1.Deployment) { d.DeletionTimestamp = ptr.To(metav1.Now()) })
	for name, gate := range both(config(), objects) {
		want := summary{Decision: webhooks.Allowed, Reason: "BeingDeleted"}
		of := request(t, deployment(), false)
		of.OldObject.Raw = encode(t, leaving)
		if diff := cmp.Diff(want, summaryOf(gate.Review(t.Context(), of))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		// The requester can set the deletion timestamp of the new object.
		of = request(t, leaving, false)
		of.OldObject.Raw = encode(t, deployment())
		if got := gate.Review(t.Context(), of); got.Decision != webhooks.Undecided {
			t.Errorf("%s: %+v, want a check, because only the new object has a deletion timestamp", name, got)
		}
	}
}

func TestWithoutTheClusterThereIsNoDecision(t *testing.T) {
	for name, gate := range both(config(), &accounts{err: errors.New("connection refused by 10.0.0.1")}) {
		answer := gate.Review(t.Context(), request(t, deployment(withEnv(identity()...)), false))
		const message = subject + "the cluster of the controller manager, or its Secret, cannot be read now; try again"
		want := summary{
			Decision: webhooks.Undecided, Reason: "ObjectsUnknown", Message: message,
			Events: eventOn(corev1.EventTypeWarning, "ObjectsUnknown", "Denied: "+message),
		}
		if diff := cmp.Diff(want, summaryOf(answer)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		wantDetails := []any{"cluster", "metal", "user", "", "region", "", "error", "read the cluster: connection refused by 10.0.0.1"}
		if diff := cmp.Diff(wantDetails, answer.Details()); diff != "" {
			t.Errorf("%s: details (-want +got):\n%s", name, diff)
		}
	}
}

func TestEventsInModeWarn(t *testing.T) {
	other := request(t, deployment(withEnv(identity(value("CLOUDSIGMA_REGION", "zrh"))...)), false)
	var texts []string
	for name, gate := range both(config(inMode(v1beta1.Warn)), metal()) {
		answer := gate.Review(t.Context(), other)
		if answer.Decision != webhooks.Denied || len(answer.Events) != 1 { // webhooks.Handler turns it into a warning
			t.Fatalf("%s: answer %+v, want a denial with one Event", name, answer)
		}
		texts = append(texts, answer.Events[0].Message)
	}
	want := "Admitted with a warning: " + subject + `CLOUDSIGMA_REGION is "zrh"; it has to be "next", the region of CloudSigmaCluster "metal": ` +
		"remove the variable, and warrantgate sets it, or correct the cluster"
	if diff := cmp.Diff([]string{want, want}, texts); diff != "" { // the same text, so that both are aggregated
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}
