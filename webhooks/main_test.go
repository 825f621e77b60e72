package webhooks_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// logged is the log of all tests, because controller-runtime has one log per process. Tests select their own lines.
var logged = &lines{}

func TestMain(m *testing.M) {
	logf.SetLogger(funcr.NewJSON(logged.add, funcr.Options{Verbosity: 1}))
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// lines collects the lines of a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, line)
}

// take returns the lines that contain text, and removes all lines.
func (l *lines) take(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := slices.DeleteFunc(l.text, func(line string) bool { return !strings.Contains(line, text) })
	l.text = nil
	return found
}

// fakeGate is a gate with the name of its test that answers with review. Without review it must not be called.
type fakeGate struct {
	t      *testing.T
	review func(ctx context.Context, request admission.Request) webhooks.Answer
}

var _ webhooks.Gate = &fakeGate{}

func (g *fakeGate) Name() string { return g.t.Name() }

func (g *fakeGate) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	if g.review == nil {
		g.t.Errorf("unexpected review of request %s", request.UID)
		return webhooks.Answer{}
	}
	return g.review(ctx, request)
}

// gateWith returns a gate that always gives the same answer.
func gateWith(t *testing.T, answer webhooks.Answer) *fakeGate {
	t.Helper()
	return &fakeGate{t: t, review: func(context.Context, admission.Request) webhooks.Answer { return answer }}
}

// fakeRecorder records Events.
type fakeRecorder struct {
	mu       sync.Mutex
	recorded []events.Event
}

var _ webhooks.EventRecorder = &fakeRecorder{}

func (r *fakeRecorder) Record(event events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = append(r.recorded, event)
}

func (r *fakeRecorder) all() []events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.recorded)
}

// serve serves handler with TLS and HTTP/2, as API servers call webhooks, until the test ends.
func serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// review returns an AdmissionReview of version v1, changed by modify.
func review(modify ...func(*admissionv1.AdmissionReview)) admissionv1.AdmissionReview {
	r := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:  "d1",
			Kind: metav1.GroupVersionKind{Group: "tenancy.kcp.io", Version: "v1alpha1", Kind: "Workspace"},
			Resource: metav1.GroupVersionResource{
				Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces",
			},
			Name: "team-a", Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: "alice"},
		},
	}
	for _, m := range modify {
		m(&r)
	}
	return r
}

func withUID(uid types.UID) func(*admissionv1.AdmissionReview) {
	return func(r *admissionv1.AdmissionReview) { r.Request.UID = uid }
}

func withDryRun(dryRun bool) func(*admissionv1.AdmissionReview) {
	return func(r *admissionv1.AdmissionReview) { r.Request.DryRun = &dryRun }
}

// send sends a review and returns the response.
func send(t *testing.T, server *httptest.Server, query string, r admissionv1.AdmissionReview) admissionv1.AdmissionReview {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return post(t, server, query, "application/json", bytes.NewReader(body))
}

// post sends a body and returns the response. Its HTTP status is 200 for every decision.
func post(t *testing.T, server *httptest.Server, query, contentType string, body io.Reader) admissionv1.AdmissionReview {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/gate"+query, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatalf("call the gate: %v", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("HTTP status = %s, want 200 OK", response.Status)
	}
	if response.ProtoMajor != 2 {
		t.Errorf("protocol = %s, want HTTP/2.0", response.Proto)
	}
	var answer admissionv1.AdmissionReview
	decoder := json.NewDecoder(response.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil {
		t.Fatalf("decode the answer: %v", err)
	}
	return answer
}

// newAdmissions returns a function for the admissions of this test's gate since now, by decision and reason.
func newAdmissions(t *testing.T) func() map[string]float64 {
	t.Helper()
	before := admissions(t)
	return func() map[string]float64 {
		t.Helper()
		since := map[string]float64{}
		for key, value := range admissions(t) {
			if value > before[key] {
				since[key] = value - before[key]
			}
		}
		return since
	}
}

func admissions(t *testing.T) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	for _, family := range families {
		if family.GetName() != "warrantgate_admissions_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["gate"] == t.Name() {
				values[labels["decision"]+"/"+labels["reason"]] = metric.GetCounter().GetValue()
			}
		}
	}
	return values
}
