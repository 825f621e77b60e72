package webhooks

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// smallBody is more than nearly all reviews take. They have a budget of their own, so that large ones cannot delay them.
	smallBody = 128 << 10
	// smallBudget and largeBudget bound how many bytes of bodies are judged at the same time. A review takes several times its
	// body until it is answered, and thirty times that in the worst case: these are the share of a pod's memory that reviews may use.
	smallBudget = 16 << 20
	largeBudget = maxReviewBytes
	// maxWaiting is how many bodies may wait for others to be answered. Each has a connection, and what the system has received of it.
	maxWaiting = 256
	// maxDiscardBytes is more than an API server makes of an object of 3 MiB and a stored one, each byte of which may take six in JSON.
	maxDiscardBytes = 32 << 20
)

// inFlight are the bodies of all gates: they share the memory of the process.
var inFlight = newBodies()

// bodies bounds what reviews take up in memory.
type bodies struct {
	small, large *semaphore.Weighted
	waiting      atomic.Int64
}

func newBodies() *bodies {
	return &bodies{small: semaphore.NewWeighted(smallBudget), large: semaphore.NewWeighted(largeBudget)}
}

// limited has a gate's handler begin to read a body only once there is room for it. One that finds no room is answered 429 where
// too many others wait, or 503 once its time is up, and not in a review: that would need the UID, which is in the body.
func (b *bodies) limited(gate string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		budget, size := b.large, r.ContentLength
		switch {
		case size < 0 || size > maxReviewBytes: // it is not known, or refused when it is read
			size = maxReviewBytes
		case size <= smallBody:
			budget = b.small
		}
		if !budget.TryAcquire(size) && !b.wait(w, r, budget, size, gate) {
			return
		}
		defer budget.Release(size)
		next.ServeHTTP(w, r)
	})
}

// wait waits for room, or answers that there is none.
func (b *bodies) wait(w http.ResponseWriter, r *http.Request, budget *semaphore.Weighted, size int64, gate string) bool {
	defer b.waiting.Add(-1)
	switch {
	case b.waiting.Add(1) > maxWaiting:
		discard(r)
		http.Error(w, "warrantgate checks too many large requests now; try again", http.StatusTooManyRequests)
	case !acquire(r.Context(), budget, size):
		discard(r)
		http.Error(w, "warrantgate had no room for this request in time; try again", http.StatusServiceUnavailable)
	default:
		// The time to send the body begins only now.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		return true
	}
	admissions.WithLabelValues(gate, Undecided.String(), "Overloaded").Inc()
	logger.V(1).Info("no room for a review", "gate", gate, "bytes", size)
	return false
}

// acquire waits for half of the time that is left: what is answered has to come back in time, too.
func acquire(ctx context.Context, budget *semaphore.Weighted, size int64) bool {
	if end, ends := ctx.Deadline(); ends {
		waiting, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = waiting
	}
	return budget.Acquire(ctx, size) == nil
}

// discard reads what is left of a body and keeps nothing of it. A connection that is closed under a body that is being sent can
// break before the answer is read. The API server would tell its requester so, with the URL of the webhook, and its token.
func discard(r *http.Request) {
	_, _ = io.CopyN(io.Discard, r.Body, maxDiscardBytes)
}
