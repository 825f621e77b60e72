package impersonation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/maypok86/otter/v2"
	"github.com/sony/gobreaker/v2"

	"warrantgate.dev/internal/ownership"
)

const (
	// failuresToOpen is the number of consecutive failures that open the circuit breaker of a server.
	failuresToOpen = 3
	// openFor is the time from then until one request checks the server again.
	openFor = time.Second
	// maxServers limits the memory of guards: each region has its own server.
	maxServers = 1000
	// requestTimeout limits one request.
	requestTimeout = 5 * time.Second
	// maxTries and firstWait limit the retries of one request. Retries end earlier if no caller waits any longer.
	maxTries  = 4
	firstWait = 100 * time.Millisecond
)

// guards contains the guards of all servers, by host and port.
type guards struct {
	servers *otter.Cache[string, *guard]
}

func newGuards() (*guards, error) {
	servers, err := otter.New(&otter.Options[string, *guard]{MaximumSize: maxServers, Logger: &otter.NoopLogger{}})
	if err != nil {
		return nil, err
	}
	return &guards{servers: servers}, nil
}

// send sends a request, and repeats it if a retry may help, while a caller waits for the response. The delays are random between 0
// and twice a growing mean ("full jitter"), or the Retry-After of the server.
func (g *guards) send(ctx context.Context, server string, at step, request func(context.Context) (issued, error)) (issued, error) {
	guard, _ := g.servers.ComputeIfAbsent(server, func() (*guard, bool) { return newGuard(), false })
	waits := &backoff.ExponentialBackOff{
		InitialInterval: firstWait, RandomizationFactor: 1, Multiplier: 2, MaxInterval: time.Second,
	}
	return backoff.Retry(ctx, func() (issued, error) {
		token, err := guard.do(func() (issued, error) {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			return request(ctx)
		})
		if held, ok := errors.AsType[*requestError](err); ok && held.held {
			held.step = at
		}
		countRequest(at, err)
		failed, ok := errors.AsType[*requestError](err)
		switch {
		case err == nil:
			return token, nil
		case !ok || !failed.transient():
			return issued{}, backoff.Permanent(err)
		case failed.retryAfter > 0:
			return issued{}, errors.Join(err, &backoff.RetryAfterError{Duration: failed.retryAfter})
		}
		return issued{}, err
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(maxTries), backoff.WithMaxElapsedTime(patience(ctx)))
}

// guard is the circuit breaker of one server. It also respects Retry-After.
type guard struct {
	breaker *gobreaker.CircuitBreaker[issued]
	last    atomic.Pointer[failure]
}

// failure is the last failure of a server.
type failure struct {
	requestError
	until time.Time // the end of Retry-After
}

func newGuard() *guard {
	return &guard{breaker: gobreaker.NewCircuitBreaker[issued](gobreaker.Settings{
		Timeout:     openFor,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= failuresToOpen },
		IsSuccessful: func(err error) bool { // a server that rejects a request works
			failed, ok := errors.AsType[*requestError](err)
			return err == nil || ok && failed.fault == faultRejected
		},
	})}
}

func (g *guard) do(request func() (issued, error)) (issued, error) {
	if last := g.last.Load(); last != nil && time.Now().Before(last.until) {
		return issued{}, last.hold()
	}
	token, err := g.breaker.Execute(request)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		last := g.last.Load()
		if last == nil { // the first request after a failure has succeeded
			last = &failure{requestError: requestError{fault: faultUnavailable}}
		}
		return issued{}, last.hold()
	}
	if failed, ok := errors.AsType[*requestError](err); ok && failed.fault != faultRejected {
		g.last.Store(&failure{requestError: *failed, until: time.Now().Add(failed.retryAfter)})
	} else {
		g.last.Store(nil)
	}
	return token, err
}

// hold returns the error for a request that is not sent.
func (f *failure) hold() *requestError {
	held := f.requestError
	held.held = true
	held.retryAfter = max(time.Until(f.until), 0)
	return &held
}

type patienceKey struct{}

// withPatience adds the deadline of the caller. Callers share the work, and it continues when one of them leaves. So the deadline
// does not limit the work, but it limits the delay of retries.
func withPatience(ctx context.Context) context.Context {
	until, bounded := ctx.Deadline()
	if !bounded {
		until = time.Now().Add(workTimeout)
	}
	if outer, ok := ctx.Value(patienceKey{}).(time.Time); ok && outer.Before(until) {
		until = outer
	}
	if outer, ok := ownership.Patience(ctx); ok && outer.Before(until) { // a caller that shares ctx with others
		until = outer
	}
	return context.WithValue(ctx, patienceKey{}, until)
}

// patience returns how long the caller still waits. It is more than 0, because 0 means no limit in the callers.
func patience(ctx context.Context) time.Duration {
	until, _ := ctx.Value(patienceKey{}).(time.Time)
	return max(time.Until(until), 1)
}
