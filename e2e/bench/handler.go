package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"warrantgate.dev/internal/events"
)

const (
	p50RatioBound        = 1.3
	throughputRatioBound = 0.75

	// Each server is a process of its own: how fast one is differs from start to start by more than within a run.
	servers = 6
	// Latency is measured by one client, as kcp places one workspace after the other.
	latencyRounds, callsPerRound = 10, 100
	// Throughput is measured by several at once. Each may be busy for the time of a round.
	throughputRounds, clients = 10, 8
	roundTime                 = 200 * time.Millisecond
	// warmUpRounds come first with each server and are not counted.
	warmUpRounds = 2
)

// comparison is what was measured of each of the two handlers, by path.
type comparison struct {
	micros, perSecond map[string][]float64
}

// measureHandler compares the rewrite's handler with one that does nothing, on one server. The two take turns in short
// rounds, and who begins alternates, so that whatever else the machine does meets both alike.
func measureHandler(ctx context.Context, out *figures, logFile string) error {
	measured := comparison{micros: map[string][]float64{}, perSecond: map[string][]float64{}}
	for i := range servers {
		progress("owner-rewrite handler against one that does nothing: server %d of %d", i+1, servers)
		if err := measured.add(ctx, logFile); err != nil {
			return err
		}
	}
	measured.show(out)

	reviews, err := newReviews(0)
	if err != nil {
		return err
	}
	out.show("rewrite_handler_allocs", allocations(ctx, rewritePath, reviews), "allocs")
	out.show("noop_handler_allocs", allocations(ctx, noopPath, reviews), "allocs")
	return nil
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
		reviews, err := newReviews(int64(i) << 32)
		if err != nil {
			return err
		}
		callers[i] = newCaller(server, reviews)
	}
	if err := callers[0].verify(ctx); err != nil {
		return err
	}
	if err := c.latency(ctx, callers[0]); err != nil {
		return err
	}
	return c.throughput(ctx, callers)
}

func (c comparison) show(out *figures) {
	rewrite, noop := c.micros[rewritePath], c.micros[noopPath]
	out.show("rewrite_p50_us", median(rewrite), "us")
	out.show("noop_p50_us", median(noop), "us")
	out.show("rewrite_p99_us", quantile(rewrite, 0.99), "us")
	out.show("noop_p99_us", quantile(noop, 0.99), "us")
	out.atMost("rewrite_p50_ratio", median(rewrite)/median(noop), "ratio", p50RatioBound)

	rewrite, noop = c.perSecond[rewritePath], c.perSecond[noopPath]
	ratios := make([]float64, len(rewrite))
	for round := range ratios {
		ratios[round] = rewrite[round] / noop[round]
	}
	out.show("rewrite_throughput_rps", median(rewrite), "requests/s")
	out.show("noop_throughput_rps", median(noop), "requests/s")
	out.atLeast("rewrite_throughput_ratio", median(ratios), "ratio", throughputRatioBound)
}

// turns are the two handlers in the order of a round.
func turns(round int) []string {
	if round%2 == 0 {
		return []string{noopPath, rewritePath}
	}
	return []string{rewritePath, noopPath}
}

func (c comparison) latency(ctx context.Context, caller *caller) error {
	for round := range warmUpRounds + latencyRounds {
		for _, path := range turns(round) {
			for range callsPerRound {
				start := time.Now()
				if _, err := caller.call(ctx, path); err != nil {
					return err
				}
				if took := time.Since(start); round >= warmUpRounds {
					c.micros[path] = append(c.micros[path], float64(took.Nanoseconds())/1e3)
				}
			}
		}
	}
	return nil
}

func (c comparison) throughput(ctx context.Context, callers []*caller) error {
	for round := range warmUpRounds + throughputRounds {
		for _, path := range turns(round) {
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

// rateOf lets all callers call for the time of a round and returns how many calls a second they made.
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

// allocations counts those of one review without the network; what the test's own request and response take is in both.
func allocations(ctx context.Context, path string, reviews *reviews) float64 {
	handler := handlers(events.NewRecorder(nil))[path]
	return testing.AllocsPerRun(1000, func() {
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, path+"?timeout=3s", bytes.NewReader(reviews.next()))
		request.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(httptest.NewRecorder(), request)
	})
}
