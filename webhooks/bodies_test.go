package webhooks

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/share"
)

// held is a gate that answers on a signal, and reports the sizes of the bodies that it got.
type held struct {
	name    string
	begun   chan int64
	release chan struct{}
}

func (h held) Name() string { return h.name }

func (h held) Review(ctx context.Context, _ admission.Request) Answer {
	room, _ := ctx.Value(roomKey{}).(room)
	h.begun <- room.bytes
	<-h.release
	return Answer{Decision: Allowed}
}

func newHeld(name string) (*handler, held) {
	gate := held{name: name, begun: make(chan int64, 1000), release: make(chan struct{})}
	return &handler{gate: gate, mode: v1beta1.Enforce, bodies: newBodies()}, gate
}

// post sends a review that seems to have a size, or an unknown one for -1, and returns the status and the text of the response.
func post(t *testing.T, handler http.Handler, caller string, size int64, timeout string) (code int, text string) {
	t.Helper()
	return postAbout(t, handler, caller, "", size, timeout)
}

// postAbout is post for an object of a namespace.
func postAbout(t *testing.T, handler http.Handler, caller, namespace string, size int64, timeout string) (code int, text string) {
	t.Helper()
	request := httptest.NewRequestWithContext(WithCaller(t.Context(), caller), http.MethodPost, "/gate?timeout="+timeout, strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"`+namespace+`"}}`))
	request.Header.Set("Content-Type", "application/json")
	request.ContentLength = size
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

// A body that has to wait does not delay smaller ones. Its unknown size, and one beyond the maximum, count as the maximum.
func TestLargeBodiesWaitAndDelayNoSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const small = 128 << 10
		handler, gate := newHeld("large")
		for _, size := range []int64{maxReviewBytes, -1, 100 << 20, maxReviewBytes, small} { // three fit beside each other
			go post(t, handler, "", size, "30s")
			synctest.Wait()
		}
		got := map[int64]int{}
		for range len(gate.begun) {
			got[<-gate.begun]++
		}
		if diff := cmp.Diff(map[int64]int{maxReviewBytes: 3, small: 1}, got); diff != "" {
			t.Errorf("bodies that are reviewed at the same time, by their sizes (-want +got):\n%s", diff)
		}

		before := testutil.ToFloat64(admissions.WithLabelValues("large", "error", "Overloaded"))
		started := time.Now()
		code, text := post(t, handler, "", maxReviewBytes, "7500ms") // the gate may take 6 s
		if want := "warrantgate has no room for this request; try again\n"; code != http.StatusServiceUnavailable || text != want {
			t.Errorf("response at the deadline = %d %q, want 503 %q", code, text, want)
		}
		if took := time.Since(started); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		if got := testutil.ToFloat64(admissions.WithLabelValues("large", "error", "Overloaded")) - before; got != 1 {
			t.Errorf("%v were counted, want 1", got)
		}

		close(gate.release)
		synctest.Wait()
		if got := len(gate.begun); got != 1 {
			t.Errorf("%d waiting bodies were reviewed, want 1", got)
		}
		if used := handler.bodies.ofCallers.Used(); used != 0 {
			t.Errorf("%d bytes are used at the end", used)
		}
	})
}

// The owner of a provider's workspace on kcp knows a token of its own, and can keep requests open without a body.
func TestACallerTakesWhatItLeavesFree(t *testing.T) {
	handler, gate := newHeld("caller")
	var requests sync.WaitGroup
	send := func(caller string, size int64) {
		requests.Go(func() { post(t, handler, caller, size, "30s") })
		<-gate.begun
	}
	send("provider", bodyBudget/4)
	send("provider", bodyBudget/4)
	for _, size := range []int64{1, maxReviewBytes, -1} {
		if code, _ := post(t, handler, "provider", size, "30s"); code != http.StatusTooManyRequests {
			t.Errorf("answer to %d bytes beyond the half = %d, want 429", size, code)
		}
	}
	send("another provider", bodyBudget/4)
	send("", bodyBudget/4)
	close(gate.release)
	requests.Wait()
	if used := handler.bodies.ofCallers.Used(); used != 0 {
		t.Errorf("%d bytes are used at the end", used)
	}
}

// The tenants of a provider on kcp share what its requests may take, and a review keeps its part while the gate waits for the cloud.
func TestATenantDoesNotTakeAllThatItsCallerMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, gate := newHeld("tenants")
		tenants := []string{"attacker", "attacker", "attacker", "attacker", "victim"}
		texts := make([]string, len(tenants))
		for i, tenant := range tenants {
			go func() { _, texts[i] = postAbout(t, handler, "provider", tenant, bodyBudget/8, "30s") }()
			synctest.Wait()
		}
		if reviewed := len(gate.begun); reviewed != 3 {
			t.Errorf("%d bodies are reviewed at the same time, want 3", reviewed)
		}
		close(gate.release)
		synctest.Wait()
		for i, want := range []string{`"allowed":true`, `"allowed":true`, `"code":429`, `"code":429`, `"allowed":true`} {
			if !strings.Contains(texts[i], want) {
				t.Errorf("response to request %d, of the %s = %s, want %s", i, tenants[i], texts[i], want)
			}
		}
	})
}

// The owner of a provider's workspace can send requests about the workspace of any tenant that binds its APIExport.
func TestACallerDoesNotTakeTheShareOfATenant(t *testing.T) {
	b := newBodies()
	about := func(caller string, review func() Answer) Answer {
		ctx := share.WithTenant(WithCaller(t.Context(), caller), share.Tenant{LogicalCluster: "1dz6n4ubraua7pul"})
		return shared(context.WithValue(ctx, roomKey{}, room{b, bodyBudget / 2}), review)
	}
	allowed := func() Answer { return Answer{Decision: Allowed} }
	about("attacker", func() Answer {
		if got := about("attacker", allowed); got.Reason != "TooManyRequests" || got.RetryAfter != 2*time.Second {
			t.Errorf("a second request of the same provider = %+v, want it denied for two seconds", got)
		}
		if got := about("provider", allowed); got.Decision != Allowed {
			t.Errorf("a request of another provider about the same workspace = %+v, want it allowed", got)
		}
		return allowed()
	})
	if got := about("attacker", allowed); got.Decision != Allowed {
		t.Errorf("a request after the end of the others = %+v, want it allowed", got)
	}
}

// unbound are the kinds of a logical cluster that binds nothing.
type unbound struct{}

func (unbound) Binds(context.Context, schema.GroupVersionResource) (bool, error) { return false, nil }

// A caller with a certificate can name any number of providers.
func TestProvidersThatAreNotBoundTakeNoMemory(t *testing.T) {
	b := newBodies()
	gate := PerCluster("machine-ownership", func(logicalcluster.Name) (Gate, error) { return Bound(nil, unbound{}, "stranger"), nil })
	ctx := context.WithValue(WithCaller(t.Context(), "stranger"), roomKey{}, room{b, 1})
	got := gate.Review(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"kcp.io/cluster":"1dz6n4ubraua7pul"}}}`)},
	}})
	if _, remembered := b.ofTenants.Load("stranger"); remembered || got.Reason != "ProviderNotBound" {
		t.Errorf("Review() = %s %s, remembered = %t", got.Reason, got.Message, remembered)
	}
}

// TestReadTimeoutStartsAfterTheWait also checks that a waiting body is not read: its client sends it later.
func TestReadTimeoutStartsAfterTheWait(t *testing.T) {
	handler, gate := newHeld("late")
	close(gate.release)
	server := httptest.NewServer(handler)
	defer server.Close()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"late"}}`
	release, _ := handler.bodies.ofCallers.Try("", bodyBudget)
	reader, writer := io.Pipe()
	time.AfterFunc(50*time.Millisecond, func() {
		release()
		_, _ = io.WriteString(writer, review)
		_ = writer.Close()
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, reader)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.ContentLength = int64(len(review))
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), `"uid":"late"`) {
		t.Errorf("answer = %q, %v", body, err)
	}
}
