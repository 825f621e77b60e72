package keystone_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/webhookstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Policies, and their findings.
const (
	sound    = "identity:create_user: rule:admin_required\n"
	broken   = "identity:create_user: domain_id:%(user.domain_id)s\n"
	doubtful = "identity:create_user: rule:admin_required and domain_idd:x\n"
	other    = "identity:get_user: rule:admin_required\n"
	odd      = "mine: rule:admin_required\n" // a note: no rule uses it

	saidOfBroken = `policy.yaml:1, rule "identity:create_user": Keystone does not fill %(user.domain_id)s in for identity:create_user: ` +
		`the check is always false (write "%(target.user.domain_id)s")`
	saidOfDoubtful = `policy.yaml:1, rule "identity:create_user": Keystone's credentials have no "domain_idd", so that the check is false or ` +
		`raises an exception (write "domain_id")`

	ofConfigMap = `ConfigMap "policy" of namespace "keystone": `
	ofSecret    = `Secret "policy" of namespace "keystone": `
	seeAll      = `; "warrantgate lint keystone-policy" lists all problems of the file`
)

// config is that of a gate on objects with the label holds=keystone-policy, changed by modify.
func config(modify ...func(*v1beta1.KeystonePolicy)) v1beta1.KeystonePolicy {
	c := v1beta1.KeystonePolicy{
		Mode: v1beta1.Enforce, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"holds": "keystone-policy"}},
		ManagerRoles: []string{"manager"}, ManagedRoles: []string{"member", "load-balancer_member"},
	}
	for _, m := range modify {
		m(&c)
	}
	return c
}

func withKeys(keys ...string) func(*v1beta1.KeystonePolicy) {
	return func(c *v1beta1.KeystonePolicy) { c.Keys = keys }
}

func newGate(tb testing.TB, config v1beta1.KeystonePolicy) webhookstest.Gate {
	tb.Helper()
	return newGateOver(tb, config)
}

// newGateOver returns a gate in a cluster that has these ConfigMaps.
func newGateOver(tb testing.TB, config v1beta1.KeystonePolicy, configMaps ...runtime.Object) webhookstest.Gate {
	tb.Helper()
	gate, err := keystone.New(config, keystone.NewBase(config, fake.NewClientset(configMaps...).CoreV1()))
	if err != nil {
		tb.Fatal(err)
	}
	gate.WithoutTimeLimit()
	return webhookstest.Gate{Gate: gate, Mode: config.Mode}
}

// lintWith replaces the linter of a gate.
func lintWith(tb testing.TB, gate webhookstest.Gate, lint func(name string, data []byte) []oslopolicy.Finding) {
	tb.Helper()
	g, ok := gate.Gate.(*keystone.Gate)
	if !ok {
		tb.Fatalf("a gate of type %T", gate.Gate)
	}
	g.LintWith(lint)
}

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "keystone", Name: "policy", UID: "6a1b", ResourceVersion: "7", Labels: map[string]string{"holds": "keystone-policy"},
	}
}

// configMap is one with texts under keys: key, text, key, text.
func configMap(keysAndTexts ...string) *corev1.ConfigMap {
	data := map[string]string{}
	for pair := range slices.Chunk(keysAndTexts, 2) {
		data[pair[0]] = pair[1]
	}
	return &corev1.ConfigMap{ObjectMeta: meta(), Data: data}
}

// secret is the same as a Secret.
func secret(keysAndTexts ...string) *corev1.Secret {
	data := map[string][]byte{}
	for key, text := range configMap(keysAndTexts...).Data {
		data[key] = []byte(text)
	}
	return &corev1.Secret{ObjectMeta: meta(), Data: data}
}

// labeled gives an object other labels.
func labeled[T client.Object](object T, labels map[string]string) T {
	object.SetLabels(labels)
	return object
}

func encode(tb testing.TB, value any) []byte {
	tb.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// request is an update from old to changed, or a creation if old is nil.
func request(tb testing.TB, old, changed client.Object) admission.Request {
	tb.Helper()
	r := admissionv1.AdmissionRequest{
		UID: types.UID("d1"), Namespace: "keystone", Name: "policy", Operation: admissionv1.Create,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		UserInfo: authenticationv1.UserInfo{Username: "alice"}, Object: runtime.RawExtension{Raw: encode(tb, changed)},
	}
	if _, isSecret := changed.(*corev1.Secret); isSecret {
		r.Resource.Resource = "secrets"
	}
	if old != nil {
		r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: encode(tb, old)}
	}
	return admission.Request{AdmissionRequest: r}
}

// self refers to the object of all tests.
func self(kind string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: "keystone", Name: "policy", UID: "6a1b", ResourceVersion: "7"}
}

type fakeRecorder []events.Event

var _ webhooks.EventRecorder = &fakeRecorder{}

func (r *fakeRecorder) Record(event events.Event) { *r = append(*r, event) }

// serve sends a request to a handler, as the API server does.
func serve(t *testing.T, handler http.Handler, r admission.Request) *admissionv1.AdmissionResponse {
	t.Helper()
	body := encode(t, admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &r.AdmissionRequest,
	})
	sent := httptest.NewRequestWithContext(t.Context(), http.MethodPost, keystone.Path+"?timeout=3s", bytes.NewReader(body))
	sent.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, sent)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || answer.Response == nil {
		t.Fatalf("answer %s, %v", recorder.Body, err)
	}
	return answer.Response
}
