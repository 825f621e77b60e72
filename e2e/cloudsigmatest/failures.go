package cloudsigmatest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// failures are the faults that requests meet, and how slow they are.
type failures struct {
	mu        sync.Mutex
	active    []*Failure
	latency   time.Duration
	latencyOf map[Operation]time.Duration
}

func newFailures() *failures {
	return &failures{latencyOf: map[Operation]time.Duration{}}
}

// Failure is a fault that requests meet.
type Failure struct {
	failures   *failures
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
func (f *failures) Fail(fault Fault, times int, operations ...Operation) *Failure {
	failure := &Failure{
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
func (f *failures) SetLatency(latency time.Duration, operations ...Operation) {
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
func (f *Failure) Release() {
	f.failures.mu.Lock()
	defer f.failures.mu.Unlock()
	f.failures.active = slices.DeleteFunc(f.failures.active, func(other *Failure) bool { return other == f })
	f.release.Do(func() { close(f.released) })
}

// Met returns how many requests have met the failure.
func (f *Failure) Met() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met
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
func (f *Failure) take(operation Operation) bool {
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

// take returns the failure that a request meets, nil if it meets none.
func (f *failures) take(operation Operation) *Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, failure := range f.active {
		if failure.take(operation) {
			return failure
		}
	}
	return nil
}

// delay waits for as long as the operation is slow. It returns false if the client has gone, or the cloud stops.
func (f *failures) delay(ctx context.Context, operation Operation) bool {
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

func (f *failures) releaseAll() {
	f.mu.Lock()
	active := slices.Clone(f.active)
	f.mu.Unlock()
	for _, failure := range active {
		failure.Release()
	}
}

// meet answers a request as the failure wants it.
func (f *Failure) meet(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	f.fault(w, r, f.released, answer)
}
