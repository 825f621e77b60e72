package main

import (
	"context"
	"errors"
	"time"
)

const (
	p50RatioBound = 1.3

	// Each server is a separate process: the speed differs more between starts than within one run.
	servers = 6
	// Latency is measured with one client, because kcp schedules one workspace after the other.
	latencyRounds, callsPerRound = 10, 100
	// warmUpRounds are the first rounds of each server. They do not count.
	warmUpRounds = 2
)

// contestant is a handler that is compared with a no-op handler. Both get the same reviews.
type contestant struct {
	name, path string
	// patches is true if the responses must have a patch.
	patches bool
	// reviews returns the reviews of one of several callers.
	reviews func(caller int) (*reviews, error)
}

// measureHandler compares the handler of the rewrite with a no-op handler.
func measureHandler(ctx context.Context, out *figures, logFile string) error {
	rewrite := contestant{name: "rewrite", path: rewritePath, patches: true, reviews: workspaceReviews}
	measured, err := compare(ctx, rewrite, logFile)
	if err != nil {
		return err
	}
	out.atMost("rewrite_p50_ratio", measured.p50Ratio(), "ratio", p50RatioBound)
	return nil
}

// comparison contains the time of each call of both handlers, by path.
type comparison struct {
	contestant
	micros map[string][]float64
}

// compare compares a handler with a no-op handler on one server. The two alternate in short rounds, and so does the first of a
// round. So any other load of the machine affects both in the same way.
func compare(ctx context.Context, c contestant, logFile string) (comparison, error) {
	measured := comparison{contestant: c, micros: map[string][]float64{}}
	for i := range servers {
		progress("%s against a handler that does nothing: server %d of %d", c.name, i+1, servers)
		if err := measured.add(ctx, logFile); err != nil {
			return comparison{}, err
		}
	}
	return measured, nil
}

// add measures on one more server.
func (c comparison) add(ctx context.Context, logFile string) (err error) {
	server, err := startServer(ctx, logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	reviews, err := c.reviews(0)
	if err != nil {
		return err
	}
	caller := newCaller(server.url, server.roots, reviews)
	for path, wantPatch := range map[string]bool{c.path: c.patches, noopPath: false} {
		if err := caller.verify(ctx, path, wantPatch); err != nil {
			return err
		}
	}
	return c.latency(ctx, caller)
}

func (c comparison) p50Ratio() float64 { return median(c.micros[c.path]) / median(c.micros[noopPath]) }

// turns are two contestants in the order of a round.
func turns[T any](round int, one, other T) []T {
	if round%2 == 0 {
		return []T{other, one}
	}
	return []T{one, other}
}

func (c comparison) latency(ctx context.Context, caller *caller) error {
	for round := range warmUpRounds + latencyRounds {
		for _, path := range turns(round, c.path, noopPath) {
			for range callsPerRound {
				start := time.Now()
				if _, err := caller.call(ctx, path); err != nil {
					return err
				}
				if took := time.Since(start); round >= warmUpRounds {
					c.micros[path] = append(c.micros[path], microseconds(took))
				}
			}
		}
	}
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
