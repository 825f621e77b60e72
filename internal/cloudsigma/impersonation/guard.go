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
	// failuresToOpen is how many requests to a server have to fail one after the other before it is left alone.
	failuresToOpen = 3
	// openFor is how long a server is left alone before one request may find out whether it works again.
	openFor = time.Second
	// maxServers bounds the memory for servers: each region has one of its own.
	maxServers = 1000
	// requestTimeout ends one request.
	requestTimeout = 5 * time.Second
	// maxTries and firstWait bound the retries of one request. They end earlier where nobody waits any longer.
	maxTries  = 4
	firstWait = 100 * time.Millisecond
)

// guards are the guards of all servers, by their host and port.
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

// send asks a server, again where that may help, as long as somebody waits for the answer. The waits are random from 0
// to twice a growing mean ("full jitter"), or what the server asks for.
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

// guard keeps requests away from one server that fails or asked to be left alone.
type guard struct {
	breaker *gobreaker.CircuitBreaker[issued]
	last    atomic.Pointer[failure]
}

// failure is the last one of a server.
type failure struct {
	requestError
	until time.Time // not before then, because the server asked for it
}

func newGuard() *guard {
	return &guard{breaker: gobreaker.NewCircuitBreaker[issued](gobreaker.Settings{
		Timeout:     openFor,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= failuresToOpen },
		IsSuccessful: func(err error) bool { // a server that says no works
			failed, ok := errors.AsType[*requestError](err)
			return err == nil || ok && failed.fault == faultRefused
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
		if last == nil { // the first request after a failure has just worked
			last = &failure{requestError: requestError{fault: faultUnavailable}}
		}
		return issued{}, last.hold()
	}
	if failed, ok := errors.AsType[*requestError](err); ok && failed.fault != faultRefused {
		g.last.Store(&failure{requestError: *failed, until: time.Now().Add(failed.retryAfter)})
	} else {
		g.last.Store(nil)
	}
	return token, err
}

// hold is the error for a request that is not sent.
func (f *failure) hold() *requestError {
	held := f.requestError
	held.held = true
	held.retryAfter = max(time.Until(f.until), 0)
	return &held
}

type patienceKey struct{}

// withPatience notes for how long the caller waits. The work for it is shared and goes on when the caller has left, so
// the caller's deadline does not bound the work, but it does bound how long a retry is put off.
func withPatience(ctx context.Context) context.Context {
	until, bounded := ctx.Deadline()
	if !bounded {
		until = time.Now().Add(workTimeout)
	}
	if outer, ok := ctx.Value(patienceKey{}).(time.Time); ok && outer.Before(until) {
		until = outer
	}
	if outer, ok := ownership.Patience(ctx); ok && outer.Before(until) { // a caller who shares ctx with others
		until = outer
	}
	return context.WithValue(ctx, patienceKey{}, until)
}

// patience returns how long the caller still waits. It is more than 0, which stands for ever where it is used.
func patience(ctx context.Context) time.Duration {
	until, _ := ctx.Value(patienceKey{}).(time.Time)
	return max(time.Until(until), 1)
}
