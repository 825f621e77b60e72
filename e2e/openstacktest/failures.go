package openstacktest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// Fault answers a request in place of Nova: it may call answer, which is what Nova would do. The channel is closed when the
// failure is released.
type Fault func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc)

// Status answers with a status code, such as 500. The body repeats the token of the request, as careless servers do: whoever
// logs it has told a secret.
func Status(code int) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}, _ http.HandlerFunc) {
		writeError(w, code, "computeFault", fmt.Sprintf("failed to handle %q", r.Header.Get(tokenHeader)))
	}
}

// Hang answers once the failure is released, and not at all if the client goes before.
func Hang() Fault {
	return func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc) {
		select {
		case <-released:
			answer(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// failures are the faults that requests meet.
type failures struct {
	mu     sync.Mutex
	active []*Failure
}

// Failure is a fault that requests meet.
type Failure struct {
	failures *failures
	fault    Fault
	released chan struct{}
	release  sync.Once

	mu      sync.Mutex
	left    int // -1 means until it is released
	met     int
	changed chan struct{} // is closed and replaced when met grows
}

// Fail lets the next requests meet a fault. If times is 0, they do until it is released. Of several, the oldest is met.
func (f *failures) Fail(fault Fault, times int) *Failure {
	failure := &Failure{failures: f, fault: fault, left: times, released: make(chan struct{}), changed: make(chan struct{})}
	if times == 0 {
		failure.left = -1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = append(f.active, failure)
	return failure
}

// Release ends the failure: no request meets it any more, and those that hang in it go on.
func (f *Failure) Release() {
	f.failures.mu.Lock()
	defer f.failures.mu.Unlock()
	f.failures.active = slices.DeleteFunc(f.failures.active, func(other *Failure) bool { return other == f })
	f.release.Do(func() { close(f.released) })
}

// WaitMet waits until so many requests have met the failure.
func (f *Failure) WaitMet(ctx context.Context, times int) error {
	for {
		f.mu.Lock()
		met, changed := f.met, f.changed
		f.mu.Unlock()
		if met >= times {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until %d requests meet the failure, of which %d have: %w", times, met, ctx.Err())
		}
	}
}

// take counts a request and returns whether it meets the failure.
func (f *Failure) take() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return false
	}
	if f.left > 0 {
		f.left--
	}
	f.met++
	close(f.changed)
	f.changed = make(chan struct{})
	return true
}

// take returns the failure that a request meets, nil if it meets none.
func (f *failures) take() *Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, failure := range f.active {
		if failure.take() {
			return failure
		}
	}
	return nil
}

func (f *failures) releaseAll() {
	f.mu.Lock()
	active := slices.Clone(f.active)
	f.mu.Unlock()
	for _, failure := range active {
		failure.Release()
	}
}
