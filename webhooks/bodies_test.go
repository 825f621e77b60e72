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
	"github.com/prometheus/client_golang/prometheus/testutil"

	"warrantgate.dev/internal/share"
)

// held is a handler that responds on a signal, and reports its progress.
type held struct {
	begun   chan int64
	release chan struct{}
}

func (h held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.begun <- r.ContentLength
	<-h.release
	_, _ = io.WriteString(w, "answer")
}

// post sends a body of a size, or of unknown size for -1, and returns the status and the text of the response.
func post(t *testing.T, handler http.Handler, size int64, timeout time.Duration) (code int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/gate", strings.NewReader("body"))
	request.ContentLength = size
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

// A body that has to wait does not delay smaller ones. Its unknown size, and one beyond the maximum, count as the maximum.
func TestLargeBodiesWaitAndDelayNoSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const small = 128 << 10
		b, gate := newBodies(), held{make(chan int64, 1000), make(chan struct{})}
		handler := b.limited("large", gate)
		for _, size := range []int64{maxReviewBytes, -1, 100 << 20, maxReviewBytes, small} { // three fit beside each other
			go post(t, handler, size, time.Hour)
			synctest.Wait()
		}
		got := map[int64]int{}
		for range len(gate.begun) {
			got[<-gate.begun]++
		}
		if diff := cmp.Diff(map[int64]int{maxReviewBytes: 1, -1: 1, 100 << 20: 1, small: 1}, got); diff != "" {
			t.Errorf("bodies that are reviewed at the same time, by their sizes (-want +got):\n%s", diff)
		}

		before := testutil.ToFloat64(admissions.WithLabelValues("large", "error", "Overloaded"))
		started := time.Now()
		code, text := post(t, handler, maxReviewBytes, 6*time.Second)
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
		if used := b.ofCallers.Used(); used != 0 {
			t.Errorf("%d bytes are used at the end", used)
		}
	})
}

// The owner of a provider's workspace on kcp knows a token of its own, and can keep requests open without a body.
func TestACallerTakesWhatItLeavesFree(t *testing.T) {
	b, gate := newBodies(), held{make(chan int64, 1000), make(chan struct{})}
	handler := b.limited("caller", gate)
	var requests sync.WaitGroup
	send := func(caller string, size int64) {
		requests.Go(func() { post(t, from(caller, handler), size, time.Hour) })
		<-gate.begun
	}
	send("provider", bodyBudget/4)
	send("provider", bodyBudget/4)
	for _, size := range []int64{1, maxReviewBytes, -1} {
		if code, _ := post(t, from("provider", handler), size, time.Hour); code != http.StatusTooManyRequests {
			t.Errorf("answer to %d bytes beyond the half = %d, want 429", size, code)
		}
	}
	send("another provider", bodyBudget/4)
	send("", bodyBudget/4)
	close(gate.release)
	requests.Wait()
	if used := b.ofCallers.Used(); used != 0 {
		t.Errorf("%d bytes are used at the end", used)
	}
}

// from returns a handler of requests of a caller.
func from(caller string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), caller)))
	})
}

// The owner of a provider's workspace can send requests about the workspace of any tenant. They are denied, but only after it was read
// which APIExports this workspace binds.
func TestACallerDoesNotTakeTheShareOfATenant(t *testing.T) {
	b := newBodies()
	about := func(caller string, review func() Answer) Answer {
		ctx := share.WithTenant(WithCaller(t.Context(), caller), share.Tenant{LogicalCluster: "1dz6n4ubraua7pul"})
		return b.shared(context.WithValue(ctx, sizeKey{}, int64(bodyBudget/2)), review)
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

func TestPanicReleasesTheBudget(t *testing.T) {
	b := newBodies()
	func() {
		defer func() { _ = recover() }()
		post(t, b.limited("panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })), 1, time.Hour)
	}()
	if used := b.ofCallers.Used(); used != 0 {
		t.Errorf("%d bytes are used at the end", used)
	}
}

// TestReadTimeoutStartsAfterTheWait also checks that a waiting body is not read: its client sends it later.
func TestReadTimeoutStartsAfterTheWait(t *testing.T) {
	b := newBodies()
	server := httptest.NewServer(b.limited("late", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})))
	defer server.Close()
	release, _ := b.ofCallers.Try("", bodyBudget)
	reader, writer := io.Pipe()
	time.AfterFunc(50*time.Millisecond, func() {
		release()
		_, _ = io.WriteString(writer, "late")
		_ = writer.Close()
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, reader)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = int64(len("late"))
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || strings.TrimSpace(string(body)) != "late" {
		t.Errorf("answer = %q, %v", body, err)
	}
}
