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
	// admitters is the number of concurrent admissions, each on its own connection.
	admitters = 200
	// admissionPatience is the timeout of an API server, as in the requests. Admissions with later responses are dropped.
	admissionPatience = 3 * time.Second
)

// rival is one of two servers that get the same load.
type rival struct {
	name      string
	admitters []*admitter
	// rounds are the rounds that count. dropped is the number of dropped admissions of all rounds.
	rounds  []loadRound
	dropped int
}

// loadRound is the result of a round.
type loadRound struct {
	// millis is the time of each admission.
	millis  []float64
	dropped int
	// firstDrop is the error of the first dropped admission.
	firstDrop error
}

// admitter sends one request after the other and alternates between the kinds.
type admitter struct {
	kinds []kindOfRequest
	next  int
}

// kindOfRequest is a kind of request in the load.
type kindOfRequest struct {
	caller *caller
	path   string
	// patches is true if the responses must have a patch.
	patches bool
}

// newRival returns a server at a URL that gets the load of the contestants, each at its path. If noop is not "", all requests go to
// that path.
func newRival(name, url string, roots *x509.CertPool, load []contestant, noop string) (*rival, error) {
	r := &rival{name: name}
	for i := range admitters {
		// Each admitter begins with a different kind, so that all kinds are in flight at any time.
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

// verify waits until the server is up and checks the response to each kind of request.
func (r *rival) verify(ctx context.Context) error {
	for _, kind := range r.admitters[0].kinds {
		if err := kind.caller.verify(ctx, kind.path, kind.patches); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// run runs all admitters for a time. A dropped admission does not end the run.
func (r *rival) run(ctx context.Context, duration time.Duration) (loadRound, error) {
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
	err := group.Wait()
	return all, err
}

// admit sends the next request and returns the time of the response. It returns an error if there is none in time, or if the
// response denies a valid object.
func (a *admitter) admit(ctx context.Context) (time.Duration, error) {
	kind := a.kinds[a.next]
	a.next = (a.next + 1) % len(a.kinds)
	ctx, cancel := context.WithTimeout(ctx, admissionPatience)
	defer cancel()
	start := time.Now()
	answer, err := kind.caller.call(ctx, kind.path)
	took := time.Since(start)
	// The response is not decoded, which would cost more than the request.
	if err == nil && !bytes.Contains(answer, []byte(`"allowed":true`)) {
		err = fmt.Errorf("response of %s: %s", kind.path, answer)
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
