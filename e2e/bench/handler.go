package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	p50RatioBound        = 1.3
	throughputRatioBound = 0.75

	// Each server is a separate process: the speed differs more between starts than within one run.
	servers = 6
	// Latency is measured with one client, because kcp schedules one workspace after the other.
	latencyRounds, callsPerRound = 10, 100
	// Throughput is measured with several clients at once, for the time of a round.
	throughputRounds, clients = 10, 8
	roundTime                 = 200 * time.Millisecond
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
	out.atLeast("rewrite_throughput_ratio", measured.throughputRatio(), "ratio", throughputRatioBound)
	return nil
}

// comparison contains the results of both handlers, by path.
type comparison struct {
	contestant
	micros, perSecond map[string][]float64
}

// compare compares a handler with a no-op handler on one server. The two alternate in short rounds, and so does the first of a
// round. So any other load of the machine affects both in the same way.
func compare(ctx context.Context, c contestant, logFile string) (comparison, error) {
	measured := comparison{contestant: c, micros: map[string][]float64{}, perSecond: map[string][]float64{}}
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
	callers := make([]*caller, clients)
	for i := range callers {
		reviews, err := c.reviews(i)
		if err != nil {
			return err
		}
		callers[i] = newCaller(server.url, server.roots, reviews)
	}
	for path, wantPatch := range map[string]bool{c.path: c.patches, noopPath: false} {
		if err := callers[0].verify(ctx, path, wantPatch); err != nil {
			return err
		}
	}
	if err := c.latency(ctx, callers[0]); err != nil {
		return err
	}
	return c.throughput(ctx, callers)
}

func (c comparison) p50Ratio() float64 { return median(c.micros[c.path]) / median(c.micros[noopPath]) }

// throughputRatio is the median of the ratios of the rounds.
func (c comparison) throughputRatio() float64 {
	ratios := make([]float64, len(c.perSecond[c.path]))
	for round := range ratios {
		ratios[round] = c.perSecond[c.path][round] / c.perSecond[noopPath][round]
	}
	return median(ratios)
}

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

func (c comparison) throughput(ctx context.Context, callers []*caller) error {
	for round := range warmUpRounds + throughputRounds {
		for _, path := range turns(round, c.path, noopPath) {
			rate, err := rateOf(ctx, callers, path)
			if err != nil {
				return err
			}
			if round >= warmUpRounds {
				c.perSecond[path] = append(c.perSecond[path], rate)
			}
		}
	}
	return nil
}

// rateOf makes all callers call for the time of a round and returns the number of calls per second.
func rateOf(ctx context.Context, callers []*caller, path string) (float64, error) {
	counts := make([]int, len(callers))
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i, caller := range callers {
		group.Go(func() error {
			for time.Since(start) < roundTime {
				if _, err := caller.call(ctx, path); err != nil {
					return err
				}
				counts[i]++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	total := 0
	for _, count := range counts {
		total += count
	}
	return float64(total) / time.Since(start).Seconds(), nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
