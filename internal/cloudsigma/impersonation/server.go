package impersonation

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// requestTimeout limits one request.
const requestTimeout = 5 * time.Second

var (
	// retries are the tries of one request. Each delay is longer than the one in pauses after as many failures.
	retries = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 3}
	// pauses are the delays after consecutive failures of one server, until it gets the next request.
	pauses = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 100, Cap: 5 * time.Second}
)

// server is the identity provider, or the service provider API of a region. While it fails, it gets one request at a time, after growing
// pauses and not before its Retry-After, however many users need a token.
type server struct {
	mu sync.Mutex
	// failure is the last failure, nil after a success. It occurred at failedAt. No request is sent before next.
	failure        *ownership.UnknownError
	failedAt, next time.Time
	pauses         wait.Backoff
}

// server returns the server with this host and port. There is one per region, and regions are configured.
func (s *Source) server(host string) *server {
	found, _ := s.servers.LoadOrStore(host, &server{pauses: pauses})
	return found.(*server) //nolint:errcheck,forcetypeassert // the only type of this map
}

// send sends a request, and repeats it after a failure, unless the server asks for a pause or others wait for it.
func (s *server) send(ctx context.Context, request func(context.Context) (issued, *ownership.UnknownError)) (issued, error) {
	var token issued
	failure := cloudhttp.Unknown(ownership.CauseTimeout, "", "no token in time")
	_ = wait.ExponentialBackoffWithContext(ctx, retries, func(ctx context.Context) (done bool, _ error) { // failure has the error
		if held := s.begin(); held != nil {
			failure = held
			return true, nil
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		token, failure = request(ctx)
		s.end(began, failure)
		return failure == nil || failure.RetryAfter > 0, nil
	})
	if failure != nil {
		return issued{}, failure
	}
	return token, nil
}

// begin returns an error if the server must not get a request now. After a pause, one request checks whether the server works again.
func (s *server) begin() *ownership.UnknownError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return nil
	}
	if left := time.Until(s.next); left > 0 {
		held := cloudhttp.Unknown(s.failure.Cause, "", "not sent, because a recent request failed: %w", s.failure.Err)
		held.RetryAfter = left
		return held
	}
	s.next = time.Now().Add(requestTimeout)
	return nil
}

// end records the result of a request. Requests that began before the last failure do not lengthen the pause.
func (s *server) end(began time.Time, failure *ownership.UnknownError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case failure == nil:
		s.failure, s.pauses = nil, pauses
	case s.failure == nil || !began.Before(s.failedAt):
		now := time.Now()
		s.failure, s.failedAt, s.next = failure, now, now.Add(max(s.pauses.Step(), failure.RetryAfter))
	}
}
