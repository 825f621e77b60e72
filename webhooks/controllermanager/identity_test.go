package controllermanager_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
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

const (
	allNames = "CLOUDSIGMA_IMPERSONATION_ENABLED, CLOUDSIGMA_OAUTH_URL, CLOUDSIGMA_CLIENT_ID, CLOUDSIGMA_CLIENT_SECRET, " +
		"CLOUDSIGMA_USER_EMAIL, CLOUDSIGMA_REGION"
	secretRule = `has to come from the key %s of Secret "cloudsigma-impersonation" (valueFrom.secretKeyRef, not optional)`
	byValue    = "CLOUDSIGMA_CLIENT_SECRET was sent as a plain value, which audit logs, the annotation of kubectl apply and the history of " +
		`manifests may keep; it has to come from the key client-secret of Secret "cloudsigma-impersonation" (valueFrom.secretKeyRef, not optional): ` +
		"create a new client secret, and store it there"
)

func needs(names string) string {
	return subject + `container "ccm" needs ` + names + ` to act as user "tenant@example.com" in region "next", as CloudSigmaCluster "metal" does`
}

func TestIdentity(t *testing.T) {
	given := func(names string, patches int) summary {
		return summary{
			Decision: webhooks.Allowed, Reason: "IdentityGiven", Message: needs(names), Patches: patches,
			Events: eventOn(corev1.EventTypeNormal, "IdentityGiven", "Changed: "+needs(names)),
		}
	}
	replaced := func(reason, names, why string) summary {
		return summary{
			Decision: webhooks.Warned, Reason: reason, Message: needs(names) + "; " + why, Patches: 1,
			Events: eventOn(corev1.EventTypeWarning, reason, "Changed: "+needs(names)+"; "+why),
		}
	}
	inPlace := summary{Decision: webhooks.Allowed, Reason: "IdentityInPlace"}
	const impersonation, secret = "CLOUDSIGMA_IMPERSONATION_ENABLED", "CLOUDSIGMA_CLIENT_SECRET"
	literalSecret := value(secret, "s3cret")
	both := fromSecret(secret, "cloudsigma-impersonation", "client-secret")
	both.Value = "s3cret"

	for name, tc := range map[string]struct {
		env     []corev1.EnvVar
		mode    v1beta1.Mode
		wantEnv []corev1.EnvVar // nil if nothing changes
		want    summary
	}{
		"no environment": {
			wantEnv: identity(), want: given(allNames, 1),
		},
		"other variables, which keep their order": {
			env:     []corev1.EnvVar{value("Z", "1"), value("CLOUDSIGMA_REGION", "next"), value("A", "$(Z)"), value("Z", "2")},
			wantEnv: append([]corev1.EnvVar{value("Z", "1"), value("CLOUDSIGMA_REGION", "next"), value("A", "$(Z)"), value("Z", "2")}, identity()[:5]...),
			want: given("CLOUDSIGMA_IMPERSONATION_ENABLED, CLOUDSIGMA_OAUTH_URL, CLOUDSIGMA_CLIENT_ID, CLOUDSIGMA_CLIENT_SECRET, "+
				"CLOUDSIGMA_USER_EMAIL", 5),
		},
		"empty variables, which are set in place": {
			env:     identity(value("CLOUDSIGMA_USER_EMAIL", ""), value("CLOUDSIGMA_OAUTH_URL", "")),
			wantEnv: identity(), want: given("CLOUDSIGMA_OAUTH_URL, CLOUDSIGMA_USER_EMAIL", 2),
		},
		"complete": {env: identity(), want: inPlace},
		"complete, in another order": {
			env: func() []corev1.EnvVar { env := identity(); slices.Reverse(env); return env }(), want: inPlace,
		},
		"a client secret by value": {
			env: identity(literalSecret), wantEnv: identity(), want: replaced("ClientSecretByValue", secret, byValue),
		},
		"a client secret by value as well as by reference, as kubectl apply merges them": {
			env: identity(both), wantEnv: identity(), want: replaced("ClientSecretByValue", secret, byValue),
		},
		"a URL by value": {
			env: identity(value("CLOUDSIGMA_OAUTH_URL", "https://evil.example")), wantEnv: identity(),
			want: replaced("IdentityReplaced", "CLOUDSIGMA_OAUTH_URL", "CLOUDSIGMA_OAUTH_URL has another value; it "+fmt.Sprintf(secretRule, "oauth-url")),
		},
		"a variable that occurs twice, and both are corrected": {
			env:     append(identity(value(impersonation, "")), value(impersonation, "")),
			wantEnv: append(identity(), value(impersonation, "true")),
			want:    given(impersonation, 2),
		},
		"the gate only warns": {
			env: identity()[:5], mode: v1beta1.Warn, wantEnv: identity(), // webhooks.Handler removes the change
			want: summary{
				Decision: webhooks.Allowed, Reason: "IdentityGiven", Message: needs("CLOUDSIGMA_REGION"), Patches: 1,
				Events: eventOn(corev1.EventTypeWarning, "IdentityGiven", "Not changed, because the gate only warns: "+needs("CLOUDSIGMA_REGION")),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config()
			if tc.mode != "" {
				c.Mode = tc.mode
			}
			object := deployment(withEnv(tc.env...))
			answer := newIdentity(c, metal()).Review(t.Context(), request(t, object, false))
			if diff := cmp.Diff(tc.want, summaryOf(answer)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			want := object.DeepCopy()
			if tc.wantEnv != nil { // no other part may differ
				want.Spec.Template.Spec.Containers[0].Env = tc.wantEnv
			}
			if diff := cmp.Diff(string(encode(t, want)), string(encode(t, apply(t, object, answer)))); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNobody: the provider's own manifest has neither a cluster nor an identity. One warning, of the first of both gates, is enough.
func TestNobody(t *testing.T) {
	object := deployment(func(d *appsv1.Deployment) {
		delete(d.Labels, clusterLabel)
		d.Spec.Template.Spec.InitContainers[0].Env = nil
	})
	const message = `it has no label "cluster.x-k8s.io/cluster-name" and no credentials, so it is admitted without an identity, and the cloud does not ` +
		"answer it; set the label to the name of its CloudSigmaCluster to give it the identity"
	gates := both(config(), metal())
	for name, want := range map[string]summary{
		"controller-manager-identity": {
			Decision: webhooks.Warned, Reason: "IdentityMissing", Message: subject + message,
			Events: eventOn(corev1.EventTypeWarning, "IdentityMissing", "Admitted with a warning: "+subject+message),
		},
		"controller-manager-integrity": {Decision: webhooks.Allowed, Reason: "IdentityInPlace"},
	} {
		answer := gates[name].Review(t.Context(), request(t, object, false))
		if diff := cmp.Diff(want, summaryOf(answer)); diff != "" {
			t.Errorf("%s: answer (-want +got):\n%s", name, diff)
		}
	}
}

// TestFieldsThatTheGateDoesNotKnowAreKept: the API server may be newer than warrantgate.
func TestFieldsThatTheGateDoesNotKnowAreKept(t *testing.T) {
	const object = `{"apiVersion":"apps/v1","kind":"Deployment","new":{"a":1},"metadata":{"name":"ccm","namespace":"tenant-a","new":[null],` +
		`"labels":{"cluster.x-k8s.io/cluster-name":"metal"}},"spec":{"template":{"spec":{"containers":[{"name":"ccm","new":1.50,"env":%s}]}}}}`
	const other = `{"name":"A","new":true}`
	answer := newIdentity(config(), metal()).Review(t.Context(), request(t, json.RawMessage(fmt.Sprintf(object, "["+other+"]")), false))
	got := answer.Apply(t, fmt.Appendf(nil, object, "["+other+"]"))
	ours := string(encode(t, identity()))
	want := fmt.Appendf(nil, object, "["+other+","+ours[1:])
	if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// decoded is any JSON, with numbers as written.
func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestAWarningComesWithTheChange: a requester who sent a secret by value gets a warning that replacing it is not enough.
func TestAWarningComesWithTheChange(t *testing.T) {
	message := needs("CLOUDSIGMA_CLIENT_SECRET") + "; " + byValue
	for mode, want := range map[v1beta1.Mode]struct {
		warning string
		patched bool
	}{
		v1beta1.Enforce: {"ClientSecretByValue: " + message, true},
		v1beta1.Warn:    {"ClientSecretByValue (mode Warn, nothing was changed or denied): " + message, false},
	} {
		r := request(t, deployment(withEnv(identity(value("CLOUDSIGMA_CLIENT_SECRET", "s3cret"))...)), false)
		body := encode(t, admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &r.AdmissionRequest,
		})
		sent := httptest.NewRequestWithContext(t.Context(), "POST", "/", bytes.NewReader(body))
		sent.Header.Set("Content-Type", "application/json")
		recorder := &recorder{}
		written := httptest.NewRecorder()
		c := config(inMode(mode))
		webhooks.Handler(newIdentity(c, metal()).Gate, c.Mode, recorder).ServeHTTP(written, sent)
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(written.Body.Bytes(), &review); err != nil {
			t.Fatal(err)
		}
		if !review.Response.Allowed || len(review.Response.Patch) > 0 != want.patched {
			t.Errorf("%s: response %+v", mode, review.Response)
		}
		if diff := cmp.Diff([]string{want.warning}, review.Response.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", mode, diff)
		}
		if len(recorder.recorded) != 1 {
			t.Errorf("%s: Events %v, want one", mode, recorder.recorded)
		}
	}
}

// recorder records Events.
type recorder struct{ recorded []events.Event }

func (r *recorder) Record(event events.Event) { r.recorded = append(r.recorded, event) }

// TestEqualNamesInTwoNamespaces: the cluster of the Deployment's own namespace is used.
func TestEqualNamesInTwoNamespaces(t *testing.T) {
	object := deployment(func(d *appsv1.Deployment) { d.Namespace = "tenant-b" })
	got := apply(t, object, newIdentity(config(), metal()).Review(t.Context(), request(t, object, true)))
	want := object.DeepCopy()
	want.Spec.Template.Spec.Containers[0].Env = identity(value("CLOUDSIGMA_USER_EMAIL", "somebody@else.example"), value("CLOUDSIGMA_REGION", "zrh"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// TestIdentityIsIdempotent: for many Deployments, a second call of the gate changes nothing, the other gate denies nothing, and only the
// identity has changed.
func TestIdentityIsIdempotent(t *testing.T) {
	random := rand.New(rand.NewPCG(2026, 2))
	c := config(func(c *v1beta1.ControllerManager) { c.Container = "ccm" })
	identityGate := newIdentity(c, metal())
	changed := 0
	for range 500 {
		object := generated(random)
		answer := identityGate.Review(t.Context(), request(t, object, false))
		if answer.Decision == webhooks.Denied {
			t.Fatalf("denied: %s\n%s", answer.Message, encode(t, object))
		}
		if len(answer.Patches) > 0 {
			changed++
		}
		after := apply(t, object, answer)
		for name, gate := range both(c, metal()) {
			if again := gate.Review(t.Context(), request(t, after, false)); again.Reason != "IdentityInPlace" || len(again.Patches) > 0 {
				t.Fatalf("%s: %+v\n%s", name, again, encode(t, after))
			}
		}
		if want, got := encode(t, foreign(object)), encode(t, foreign(after)); !bytes.Equal(want, got) {
			t.Fatalf("the rest of the object changed from\n%s\nto\n%s", want, got)
		}
	}
	if changed == 0 {
		t.Error("no object was changed")
	}
}

// generated is a Deployment with a container that has some variables of the identity, correct or not, in any order, among others.
func generated(random *rand.Rand) *appsv1.Deployment {
	var env []corev1.EnvVar
	for _, variable := range identity() {
		candidates := [][]corev1.EnvVar{nil, {variable}, {value(variable.Name, "")}, {variable, value(variable.Name, "")}}
		if variable.Name != "CLOUDSIGMA_USER_EMAIL" && variable.Name != "CLOUDSIGMA_REGION" {
			candidates = append(candidates, []corev1.EnvVar{value(variable.Name, "other")}, []corev1.EnvVar{fromSecret(variable.Name, "own", "key"), variable})
		}
		env = append(env, candidates[random.IntN(len(candidates))]...)
	}
	for i := range random.IntN(4) {
		env = append(env, value(fmt.Sprintf("OTHER_%d", random.IntN(3)), fmt.Sprint(i)))
	}
	random.Shuffle(len(env), func(i, j int) { env[i], env[j] = env[j], env[i] })
	object := deployment(withEnv(env...))
	pod := &object.Spec.Template.Spec
	for i := range random.IntN(3) {
		at := random.IntN(len(pod.Containers) + 1)
		pod.Containers = slices.Insert(pod.Containers, at, corev1.Container{
			Name: fmt.Sprintf("sidecar-%d", i), Env: []corev1.EnvVar{value("CLOUDSIGMA_REGION", "elsewhere")},
		})
	}
	if random.IntN(2) == 0 {
		object.Spec.Paused, object.Spec.Replicas = true, ptr.To(random.Int32N(5))
	}
	return object
}

// foreign is a Deployment without the identity of its container.
func foreign(object *appsv1.Deployment) *appsv1.Deployment {
	rest := object.DeepCopy()
	for i := range rest.Spec.Template.Spec.Containers {
		c := &rest.Spec.Template.Spec.Containers[i]
		if c.Name != "ccm" {
			continue
		}
		c.Env = slices.DeleteFunc(c.Env, func(have corev1.EnvVar) bool {
			return slices.ContainsFunc(identity(), func(ours corev1.EnvVar) bool { return ours.Name == have.Name })
		})
	}
	return rest
}

func FuzzReview(f *testing.F) {
	for _, object := range []any{
		deployment(), deployment(withEnv(identity()...)), deployment(sidecar), deployment(withEnv(value("CLOUDSIGMA_USERNAME", "a"))), nil, []int{},
	} {
		f.Add(encode(f, object))
	}
	gates := both(config(), metal())
	f.Fuzz(func(t *testing.T, object []byte) {
		for name, gate := range gates {
			answer := gate.Review(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: object},
			}})
			if answer.Reason == "" || answer.Message == "" && answer.Decision != webhooks.Allowed {
				t.Errorf("%s: answer %+v has no reason or message", name, answer)
			}
		}
	})
}
