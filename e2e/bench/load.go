package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// admitters is how many admissions are under way at the same time, each on a connection of its own.
	admitters = 200
	// admissionPatience is how long an API server waits for an answer, as the requests say. What takes longer is dropped.
	admissionPatience = 3 * time.Second
)

// rival is one of two servers that get the same load.
type rival struct {
	// name begins the names of its figures.
	name      string
	pid       int
	admitters []*admitter
	// rounds are those that count, dropped is how many admissions were dropped in any.
	rounds  []loadRound
	dropped int
}

// loadRound is what a round of a load came to.
type loadRound struct {
	// millis is how long each admission took, took how long all of them did, and processor how long processors worked
	// for the server meanwhile.
	millis          []float64
	took, processor time.Duration
	dropped         int
	// firstDrop is why the first that was dropped was.
	firstDrop error
}

// admitter sends one request after the other, of each kind by turns.
type admitter struct {
	kinds []kindOfRequest
	next  int
}

// kindOfRequest is one of those that a load consists of.
type kindOfRequest struct {
	caller *caller
	path   string
	// patches is true where the answers have to have a patch.
	patches bool
}

// newRival returns a server at a URL that gets the load of the contestants, each at its path. If noop is not "", all go there.
func newRival(name, url string, roots *x509.CertPool, pid int, load []contestant, noop string) (*rival, error) {
	r := &rival{name: name, pid: pid}
	for i := range admitters {
		// A different one comes first with each, so that all kinds are under way at any time.
		a := &admitter{next: i % len(load)}
		client := newClient(roots)
		for _, c := range load {
			reviews, err := c.reviews(i)
			if err != nil {
				return nil, err
			}
			kind := kindOfRequest{caller: &caller{url: url, client: client, reviews: reviews}, path: c.path, patches: c.patches}
			if noop != "" {
				kind.path, kind.patches = noop, false
			}
			a.kinds = append(a.kinds, kind)
		}
		r.admitters = append(r.admitters, a)
	}
	return r, nil
}

// verify waits until the server is up and checks that each kind of request is answered as it has to be.
func (r *rival) verify(ctx context.Context) error {
	for _, kind := range r.admitters[0].kinds {
		if err := kind.caller.verify(ctx, kind.path, kind.patches); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// run has all admitters admit for a time. One that is dropped does not end it.
func (r *rival) run(ctx context.Context, duration time.Duration) (loadRound, error) {
	before, err := processorTime(r.pid)
	if err != nil {
		return loadRound{}, err
	}
	var all loadRound
	var lock sync.Mutex
	var group errgroup.Group
	start := time.Now()
	for _, a := range r.admitters {
		group.Go(func() error {
			var own loadRound
			for time.Since(start) < duration && ctx.Err() == nil {
				own.add(a.admit(ctx))
			}
			lock.Lock()
			defer lock.Unlock()
			all.join(own)
			return ctx.Err()
		})
	}
	err = group.Wait()
	all.took = time.Since(start)
	if err != nil {
		return loadRound{}, err
	}
	after, err := processorTime(r.pid)
	all.processor = after - before
	return all, err
}

// admit sends the next request and returns how long the answer took. An error says that there was none in time, or that it
// refused what has to pass.
func (a *admitter) admit(ctx context.Context) (time.Duration, error) {
	kind := a.kinds[a.next]
	a.next = (a.next + 1) % len(a.kinds)
	ctx, cancel := context.WithTimeout(ctx, admissionPatience)
	defer cancel()
	start := time.Now()
	answer, err := kind.caller.call(ctx, kind.path)
	took := time.Since(start)
	// It is not decoded, which would cost more than to send the request.
	if err == nil && !bytes.Contains(answer, []byte(`"allowed":true`)) {
		err = fmt.Errorf("answer of %s: %s", kind.path, answer)
	}
	return took, err
}

func (l *loadRound) add(took time.Duration, err error) {
	l.millis = append(l.millis, milliseconds(took))
	if err != nil {
		l.dropped++
		if l.firstDrop == nil {
			l.firstDrop = err
		}
	}
}

func (l *loadRound) join(other loadRound) {
	l.millis = append(l.millis, other.millis...)
	l.dropped += other.dropped
	if l.firstDrop == nil {
		l.firstDrop = other.firstDrop
	}
}
