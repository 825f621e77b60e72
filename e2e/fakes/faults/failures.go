// Package faults injects faults into a fake server: wrong, late or missing responses, for a number of requests.
package faults

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Fault responds to a request instead of the server. It can call answer for the server's own response. The channel is closed when
// the failure is released.
type Fault func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc)

// Hang blocks a request until the failure is released, then the server responds. It does not respond if the client disconnects
// before.
func Hang() Fault {
	return func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc) {
		select {
		case <-released:
			answer(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler) // without it, a client that is connected when the server stops gets an empty response
		}
	}
}

// Failures are the faults and the latency of requests. Operation is the server's type of operations.
type Failures[Operation comparable] struct {
	mu        sync.Mutex
	active    []*Failure[Operation]
	latency   time.Duration
	latencyOf map[Operation]time.Duration
}

// New returns failures without any fault.
func New[Operation comparable]() *Failures[Operation] {
	return &Failures[Operation]{latencyOf: map[Operation]time.Duration{}}
}

// Failure is a fault for a number of requests.
type Failure[Operation comparable] struct {
	failures   *Failures[Operation]
	fault      Fault
	operations []Operation // empty means all
	released   chan struct{}
	release    sync.Once

	mu   sync.Mutex
	left int // -1 means until it is released
	met  int
}

// Fail injects a fault into the next requests of the operations, or of all operations if there are none. If times is 0, it does so
// until the failure is released. If several failures apply to a request, the oldest does.
func (f *Failures[Operation]) Fail(fault Fault, times int, operations ...Operation) *Failure[Operation] {
	failure := &Failure[Operation]{failures: f, fault: fault, operations: operations, left: times, released: make(chan struct{})}
	if times == 0 {
		failure.left = -1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = append(f.active, failure)
	return failure
}

// SetLatency delays requests of the operations, or of all operations if there are none.
func (f *Failures[Operation]) SetLatency(latency time.Duration, operations ...Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(operations) == 0 {
		f.latency = latency
		clear(f.latencyOf)
	}
	for _, operation := range operations {
		f.latencyOf[operation] = latency
	}
}

// Release ends the failure. It applies to no further request, and blocked requests continue.
func (f *Failure[Operation]) Release() {
	f.failures.mu.Lock()
	defer f.failures.mu.Unlock()
	f.failures.active = slices.DeleteFunc(f.failures.active, func(other *Failure[Operation]) bool { return other == f })
	f.release.Do(func() { close(f.released) })
}

// Met returns the number of requests that got the fault.
func (f *Failure[Operation]) Met() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met
}

// take counts a request and returns whether the failure applies to it.
func (f *Failure[Operation]) take(operation Operation) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 || len(f.operations) > 0 && !slices.Contains(f.operations, operation) {
		return false
	}
	if f.left > 0 {
		f.left--
	}
	f.met++
	return true
}

// Take returns the failure that applies to a request, nil if there is none.
func (f *Failures[Operation]) Take(operation Operation) *Failure[Operation] {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, failure := range f.active {
		if failure.take(operation) {
			return failure
		}
	}
	return nil
}

// Delay waits for the latency of the operation. It returns false if the client disconnects or the server stops.
func (f *Failures[Operation]) Delay(ctx context.Context, operation Operation) bool {
	f.mu.Lock()
	latency, ok := f.latencyOf[operation]
	if !ok {
		latency = f.latency
	}
	f.mu.Unlock()
	if latency <= 0 {
		return true
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ReleaseAll ends all failures.
func (f *Failures[Operation]) ReleaseAll() {
	f.mu.Lock()
	active := slices.Clone(f.active)
	f.mu.Unlock()
	for _, failure := range active {
		failure.Release()
	}
}

// Answer responds to a request with the fault.
func (f *Failure[Operation]) Answer(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	f.fault(w, r, f.released, answer)
}
