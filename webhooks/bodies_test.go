package webhooks

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"warrantgate.dev/internal/fairqueue"
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

// TestLargeBodiesWaitForEachOtherAndDelayNoSmallOnes checks bodies that fit the budget together, and a body that is larger than the
// budget.
func TestLargeBodiesWaitForEachOtherAndDelayNoSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gate := newBodies(), held{make(chan int64, 1000), make(chan struct{})}
		handler := b.limited("large", gate)
		for _, size := range []int64{maxReviewBytes, -1, 100 << 20, smallBody + 1} { // the second and the third count as the maximum
			go post(t, handler, size, time.Hour)
			synctest.Wait()
		}
		for range smallBudget / smallBody {
			go post(t, handler, smallBody, time.Hour)
		}
		synctest.Wait()
		go post(t, handler, 0, time.Hour) // needs no budget
		synctest.Wait()
		got := map[int64]int{}
		for range len(gate.begun) {
			got[<-gate.begun]++
		}
		if diff := cmp.Diff(map[int64]int{maxReviewBytes: 1, smallBody: smallBudget / smallBody, 0: 1}, got); diff != "" {
			t.Errorf("bodies that are reviewed at the same time, by their sizes (-want +got):\n%s", diff)
		}

		before := testutil.ToFloat64(admissions.WithLabelValues("large", "error", "Overloaded"))
		started := time.Now()
		code, text := post(t, handler, smallBody+1, 6*time.Second)
		if want := "warrantgate had no room for this request in time; try again\n"; code != http.StatusServiceUnavailable || text != want {
			t.Errorf("response at the deadline = %d %q, want 503 %q", code, text, want)
		}
		if took := time.Since(started); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		for range maxWaiting - 3 { // three wait already
			go post(t, handler, maxReviewBytes, time.Hour)
		}
		synctest.Wait()
		code, text = post(t, handler, maxReviewBytes, time.Hour)
		if want := "warrantgate checks too many large requests now; try again\n"; code != http.StatusTooManyRequests || text != want {
			t.Errorf("response with too many waiting = %d %q, want 429 %q", code, text, want)
		}
		if got := testutil.ToFloat64(admissions.WithLabelValues("large", "error", "Overloaded")) - before; got != 2 {
			t.Errorf("%v were counted, want 2", got)
		}

		close(gate.release)
		synctest.Wait()
		if got := len(gate.begun); got != maxWaiting {
			t.Errorf("%d of the waiting bodies were reviewed, want %d", got, maxWaiting)
		}
		if !b.small.TryAcquire(smallBudget) || !b.large.TryAcquire(largeBudget) || b.waiting.Load() != 0 {
			t.Errorf("the budget was not released completely, or %d bodies still wait", b.waiting.Load())
		}
	})
}

// The owner of a provider's workspace on kcp knows a token of its own, and can keep requests open without a body.
func TestACallerTakesHalfOfTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gate := newBodies(), held{make(chan int64, 1000), make(chan struct{})}
		handler := b.limited("caller", gate)
		from := func(caller string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handler.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), caller)))
			})
		}
		const half = smallBudget / smallBody / 2
		for range half {
			go post(t, from("provider"), smallBody, time.Hour)
		}
		go post(t, from("provider"), largeBudget/2, time.Hour)
		synctest.Wait()
		for _, size := range []int64{smallBody, largeBudget / 2, maxReviewBytes, -1} {
			if code, text := post(t, from("provider"), size, time.Hour); code != http.StatusTooManyRequests || text != tooMany+"\n" {
				t.Errorf("answer to %d bytes beyond the half = %d %q, want 429", size, code, text)
			}
		}
		for range half / 2 {
			go post(t, handler, smallBody, time.Hour)
			go post(t, from("another provider"), smallBody, time.Hour)
		}
		go post(t, handler, largeBudget/2, time.Hour)
		synctest.Wait()
		if got := len(gate.begun); got != 2*half+2 {
			t.Errorf("%d requests are judged at the same time, want %d", got, 2*half+2)
		}
		close(gate.release)
		synctest.Wait()
		if !b.small.TryAcquire(smallBudget) || !b.large.TryAcquire(largeBudget) || len(b.ofCallers[b.small])+len(b.ofCallers[b.large]) != 0 {
			t.Errorf("not all room was given back: %v", b.ofCallers)
		}
	})
}

// The owner of a provider's workspace can send requests about the workspace of any tenant. They are denied, but only after it was read
// which APIExports this workspace binds.
func TestACallerDoesNotTakeTheShareOfATenant(t *testing.T) {
	b := newBodies()
	about := func(caller string, review func() Answer) Answer {
		ctx := fairqueue.WithTenant(WithCaller(t.Context(), caller), fairqueue.Tenant{LogicalCluster: "1dz6n4ubraua7pul"})
		return b.shared(context.WithValue(ctx, roomKey{}, room{budget: b.small, size: smallBudget/2 + 1, most: smallBudget}), review)
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
	for range 3 {
		if got := about("attacker", allowed); got.Decision != Allowed {
			t.Errorf("a request after the end of the others = %+v, want it allowed", got)
		}
	}
}

func TestACallerGetsBackItsRoom(t *testing.T) {
	handler := newBodies().limited("gate", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range smallBudget / smallBody { // twice as many as a caller may send at the same time
		request := httptest.NewRequestWithContext(WithCaller(t.Context(), "provider"), http.MethodPost, "/", nil)
		request.ContentLength = smallBody
		answer := httptest.NewRecorder()
		if handler.ServeHTTP(answer, request); answer.Code != http.StatusOK {
			t.Fatalf("HTTP status = %d, want 200", answer.Code)
		}
	}
}

// A tenant's share of a budget may take as much as it leaves free: a quarter is taken, so that half fits in beside it.
func TestAShareTakesWhatItLeavesFree(t *testing.T) {
	b := newBodies()
	of := func(size int64, review func() Answer) Answer {
		ctx := fairqueue.WithTenant(t.Context(), fairqueue.Tenant{Namespace: "team-a"})
		return b.shared(context.WithValue(ctx, roomKey{}, room{budget: b.small, size: size, most: smallBudget}), review)
	}
	allowed := func() Answer { return Answer{Decision: Allowed} }
	var half, more, none Answer
	of(smallBudget/4, func() Answer {
		half = of(smallBudget/2, func() Answer {
			none = of(0, allowed)
			return allowed()
		})
		more = of(smallBudget/2+1, allowed)
		return allowed()
	})
	if half.Decision != Allowed {
		t.Errorf("half of the budget = %+v, want it allowed", half)
	}
	if none.Decision != Allowed {
		t.Errorf("no bytes beyond the share = %+v, want it allowed", none)
	}
	if more.Reason != "TooManyRequests" || more.RetryAfter != 2*time.Second {
		t.Errorf("one byte more than half = %+v, want it denied for 2s", more)
	}
	if len(b.held[b.small]) != 0 || b.total[b.small] != 0 {
		t.Errorf("not all room was given back: %v of %d", b.held[b.small], b.total[b.small])
	}
}

func TestPanicReleasesTheBudget(t *testing.T) {
	b := newBodies()
	func() {
		defer func() { _ = recover() }()
		post(t, b.limited("panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })), 1, time.Hour)
	}()
	if !b.small.TryAcquire(smallBudget) {
		t.Error("the budget was not released")
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
	if !b.small.TryAcquire(smallBudget) {
		t.Fatal("the budget was not released")
	}
	reader, writer := io.Pipe()
	go func() {
		for b.waiting.Load() == 0 {
			time.Sleep(time.Millisecond) //nolint:forbidigo // no event to wait for
		}
		b.small.Release(smallBudget)
		_, _ = io.WriteString(writer, "late")
		_ = writer.Close()
	}()
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
