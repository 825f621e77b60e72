// Package faults has an emulated server answer wrongly, late or not at all, for as many requests as a test wants.
package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Fault answers a request in place of the server: it may call answer, which is what the server would do. The channel is closed
// when the failure is released.
type Fault func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc)

// Hang answers once the failure is released, and not at all if the client goes before.
func Hang() Fault {
	return func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc) {
		select {
		case <-released:
			answer(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler) // else an empty answer would be sent to who is still there when the server stops
		}
	}
}

// Failures are the faults that requests meet, and how slow they are. Operation is how the server tells its requests apart.
type Failures[Operation comparable] struct {
	mu        sync.Mutex
	active    []*Failure[Operation]
	latency   time.Duration
	latencyOf map[Operation]time.Duration
}

// New returns none.
func New[Operation comparable]() *Failures[Operation] {
	return &Failures[Operation]{latencyOf: map[Operation]time.Duration{}}
}

// Failure is a fault that requests meet.
type Failure[Operation comparable] struct {
	failures   *Failures[Operation]
	fault      Fault
	operations []Operation // none means all
	released   chan struct{}
	release    sync.Once

	mu      sync.Mutex
	left    int // -1 means until it is released
	met     int
	changed chan struct{} // is closed and replaced when met grows
}

// Fail lets the next requests of the operations meet a fault, those of all operations if none is named. If times is 0,
// they do until it is released. Of several failures that fit, the oldest is met.
func (f *Failures[Operation]) Fail(fault Fault, times int, operations ...Operation) *Failure[Operation] {
	failure := &Failure[Operation]{
		failures: f, fault: fault, operations: operations, left: times,
		released: make(chan struct{}), changed: make(chan struct{}),
	}
	if times == 0 {
		failure.left = -1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = append(f.active, failure)
	return failure
}

// SetLatency lets requests of the operations wait before they are looked at, those of all operations if none is named.
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

// Release ends the failure: no request meets it any more, and those that hang in it go on.
func (f *Failure[Operation]) Release() {
	f.failures.mu.Lock()
	defer f.failures.mu.Unlock()
	f.failures.active = slices.DeleteFunc(f.failures.active, func(other *Failure[Operation]) bool { return other == f })
	f.release.Do(func() { close(f.released) })
}

// Met returns how many requests have met the failure.
func (f *Failure[Operation]) Met() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met
}

// WaitMet waits until so many requests have met the failure.
func (f *Failure[Operation]) WaitMet(ctx context.Context, times int) error {
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
	close(f.changed)
	f.changed = make(chan struct{})
	return true
}

// Take returns the failure that a request meets, nil if it meets none.
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

// Delay waits for as long as the operation is slow. It returns false if the client has gone, or the server stops.
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

// Answer answers a request as the failure wants it.
func (f *Failure[Operation]) Answer(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	f.fault(w, r, f.released, answer)
}
