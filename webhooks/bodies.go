package webhooks

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/share"
)

const (
	// bodyBudget limits how many bytes of request bodies are processed at the same time. A review needs several times the memory of its body
	// until it is answered, in the worst case thirty times.
	bodyBudget = 24 << 20
	// maxDiscardBytes is more than an API server can send: two objects of 3 MiB, of which each byte may take six in JSON.
	maxDiscardBytes = 32 << 20
)

// inFlight is shared by all gates, because they share the memory of the process.
var inFlight = newBodies()

// bodies limits the memory that request bodies take: those of each caller from before they are read, and those of each tenant from when it is
// known. A body that has to wait does not delay smaller ones.
type bodies struct {
	ofCallers *share.Limit[string]
	// ofTenants are the limits for the tenants of each caller. A caller with a token of its own can name any of its tenants.
	ofTenants sync.Map
}

func newBodies() *bodies { return &bodies{ofCallers: share.New[string](bodyBudget)} }

// tenantsOf returns the limit for the tenants of a caller. A caller with a token of its own may take half of the budget, which its tenants share:
// otherwise one of them could take all of it.
func (b *bodies) tenantsOf(caller string) *share.Limit[share.Tenant] {
	budget := int64(bodyBudget)
	if caller != "" {
		budget /= 2
	}
	limit, _ := b.ofTenants.LoadOrStore(caller, share.New[share.Tenant](budget))
	return limit.(*share.Limit[share.Tenant]) //nolint:errcheck,forcetypeassert // the only type of this map
}

type callerKey struct{}

// WithCaller returns a context for requests of an API server that others than administrators can also send, as the owner of a provider's
// workspace on kcp can, who can read the token of the path. The caller may send their bodies slowly, or not at all. The requests of one
// caller take at most as much room as they leave free, which is sufficient for the largest object that kcp stores.
func WithCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

type roomKey struct{}

// room is what the body of a request takes of a budget.
type room struct {
	of    *bodies
	bytes int64
}

// sizeOf returns the number of bytes that the body of a request may have.
func sizeOf(r *http.Request) int64 {
	if r.ContentLength < 0 || r.ContentLength > maxReviewBytes { // unknown, or rejected when it is read
		return maxReviewBytes
	}
	return r.ContentLength
}

// wait waits for room for a body of the caller of ctx. It waits at most half of the remaining time, so that the rest is enough for the decision.
func (b *bodies) wait(ctx context.Context, size int64) (release func(), err error) {
	if end, ends := ctx.Deadline(); ends {
		waiting, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = waiting
	}
	return b.ofCallers.Take(ctx, callerOf(ctx), size)
}

// shared calls review for the tenant of ctx. Reviews of one tenant that wait for a cloud do not keep those of others from being read.
func shared(ctx context.Context, review func() Answer) Answer {
	room, limited := ctx.Value(roomKey{}).(room)
	tenant := share.FromContext(ctx)
	if !limited || tenant == (share.Tenant{}) {
		return review()
	}
	release, taken := room.of.tenantsOf(callerOf(ctx)).Try(tenant, room.bytes)
	if !taken {
		return Answer{Decision: Denied, Status: metav1.StatusReasonTooManyRequests, Reason: "TooManyRequests", RetryAfter: 2 * time.Second,
			Message: "too many large requests of this namespace (on kcp: of this workspace) are being checked already; send fewer at the same time, " +
				"and try again in a few seconds"}
	}
	defer release()
	return review()
}

// discard reads the rest of a body and drops it. If the connection were closed while the client sends the body, the client could
// fail before it reads the answer, and the API server would show its requester the error with the URL of the webhook and its token.
func discard(r *http.Request) {
	_, _ = io.CopyN(io.Discard, r.Body, maxDiscardBytes)
}
