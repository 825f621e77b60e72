package webhooks

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/fairqueue"
)

const (
	// smallBody is larger than nearly all reviews. Small bodies have their own budget, so that large ones cannot delay them.
	smallBody = 128 << 10
	// smallBudget and largeBudget limit how many bytes of request bodies are processed at the same time. A review needs several times
	// the memory of its body until it is answered, in the worst case thirty times.
	smallBudget = 16 << 20
	largeBudget = maxReviewBytes
	// maxWaiting is how many requests may wait for room. Each has a connection with a receive buffer.
	maxWaiting = 256
	// maxDiscardBytes is more than an API server can send: two objects of 3 MiB, of which each byte may take six in JSON.
	maxDiscardBytes = 32 << 20
)

// inFlight is shared by all gates, because they share the memory of the process.
var inFlight = newBodies()

// bodies limits the memory that request bodies take.
type bodies struct {
	small, large *semaphore.Weighted
	waiting      atomic.Int64

	mu sync.Mutex
	// held is how much of each budget reviews of each tenant's share take, total that of all.
	held  map[*semaphore.Weighted]map[holder]int64
	total map[*semaphore.Weighted]int64
	// ofCallers is how much of each budget the requests of each caller take, from before they are read.
	ofCallers map[*semaphore.Weighted]map[string]int64
}

func newBodies() *bodies {
	b := &bodies{small: semaphore.NewWeighted(smallBudget), large: semaphore.NewWeighted(largeBudget), total: map[*semaphore.Weighted]int64{}}
	b.held = map[*semaphore.Weighted]map[holder]int64{b.small: {}, b.large: {}}
	b.ofCallers = map[*semaphore.Weighted]map[string]int64{b.small: {}, b.large: {}}
	return b
}

// holder is a tenant's share. A caller with a token of its own can name any tenant, so its requests count separately.
type holder struct {
	fairqueue.Tenant
	caller string
}

type callerKey struct{}

// WithCaller returns a context for requests of an API server that others than administrators can also send, as the owner of a provider's
// workspace on kcp can, who can read the token of the path. All requests of one caller take at most half of each budget, which is
// sufficient for the largest object that kcp stores. The caller may send their bodies slowly, or not at all.
func WithCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// takeFor adds to the size that the requests of a caller take of a budget, and reports whether that is not more than most.
func (b *bodies) takeFor(caller string, budget *semaphore.Weighted, size, most int64) bool {
	if caller == "" {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.ofCallers[budget]
	if size > 0 && of[caller]+size > most {
		return false
	}
	if of[caller] += size; of[caller] == 0 {
		delete(of, caller)
	}
	return true
}

// room is what the body of a request takes of a budget of so many bytes.
type room struct {
	budget     *semaphore.Weighted
	size, most int64
}

type roomKey struct{}

// shared calls review for the tenant of ctx. A share may take as much room as it leaves free, and one review in any case, so that reviews of
// one tenant that wait for a cloud do not keep those of others from being read.
func (b *bodies) shared(ctx context.Context, review func() Answer) Answer {
	taken, _ := ctx.Value(roomKey{}).(room)
	share := fairqueue.TenantOf(ctx).Share()
	if taken.budget == nil || share == (fairqueue.Tenant{}) {
		return review()
	}
	caller, _ := ctx.Value(callerKey{}).(string)
	held, by := b.held[taken.budget], holder{share, caller}
	add := func(size int64) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if size > 0 && held[by] > 0 && held[by]+size > taken.most-b.total[taken.budget] {
			return false
		}
		b.total[taken.budget] += size
		if held[by] += size; held[by] == 0 {
			delete(held, by)
		}
		return true
	}
	if !add(taken.size) {
		return Answer{Decision: Denied, Status: metav1.StatusReasonTooManyRequests, Reason: "TooManyRequests", RetryAfter: 2 * time.Second,
			Message: "too many large requests of this namespace (on kcp: of this workspace) are being checked already; send fewer at the same time, " +
				"and try again in a few seconds"}
	}
	defer add(-taken.size)
	return review()
}

// limited returns a handler that reads a body only when there is room for it. Without room the answer is 429 if too many requests
// wait or the caller takes too much, or 503 after the deadline. The answer is not an AdmissionReview, which needs the UID from the body.
func (b *bodies) limited(gate string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		budget, size, most := b.large, r.ContentLength, int64(largeBudget)
		switch {
		case size < 0 || size > maxReviewBytes: // unknown, or rejected when it is read
			size = maxReviewBytes
		case size <= smallBody:
			budget, most = b.small, smallBudget
		}
		caller, _ := r.Context().Value(callerKey{}).(string)
		if !b.takeFor(caller, budget, size, most/2) {
			discard(r)
			http.Error(w, tooMany, http.StatusTooManyRequests)
			countOverload(gate, size)
			return
		}
		defer b.takeFor(caller, budget, -size, most/2)
		if !budget.TryAcquire(size) && !b.wait(w, r, budget, size, gate) {
			return
		}
		defer budget.Release(size)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), roomKey{}, room{budget: budget, size: size, most: most})))
	})
}

// wait waits for room, or answers that there is none.
func (b *bodies) wait(w http.ResponseWriter, r *http.Request, budget *semaphore.Weighted, size int64, gate string) bool {
	defer b.waiting.Add(-1)
	switch {
	case b.waiting.Add(1) > maxWaiting:
		discard(r)
		http.Error(w, tooMany, http.StatusTooManyRequests)
	case !acquire(r.Context(), budget, size):
		discard(r)
		http.Error(w, "warrantgate had no room for this request in time; try again", http.StatusServiceUnavailable)
	default:
		// The client has readTimeout to send the body, from now on.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		return true
	}
	countOverload(gate, size)
	return false
}

const tooMany = "warrantgate checks too many large requests now; try again"

func countOverload(gate string, size int64) {
	admissions.WithLabelValues(gate, Undecided.String(), "Overloaded").Inc()
	logger.V(1).Info("no room for a review", "gate", gate, "bytes", size)
}

// acquire waits for at most half of the remaining time, so that the rest is enough for the decision.
func acquire(ctx context.Context, budget *semaphore.Weighted, size int64) bool {
	if end, ends := ctx.Deadline(); ends {
		waiting, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = waiting
	}
	return budget.Acquire(ctx, size) == nil
}

// discard reads the rest of a body and drops it. If the connection were closed while the client sends the body, the client could
// fail before it reads the answer, and the API server would show its requester the error with the URL of the webhook and its token.
func discard(r *http.Request) {
	_, _ = io.CopyN(io.Discard, r.Body, maxDiscardBytes)
}
