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

	// Latency is measured by one client, as kcp places one workspace after the other.
	latencyRounds, callsPerRound = 60, 100
	// Throughput is measured by several at once. Each may be busy for the time of a round.
	throughputRounds, clients = 40, 8
	roundTime                 = 200 * time.Millisecond
)

// measureHandler compares the rewrite's handler with one that does nothing, on one server. The two take turns in short
// rounds, and who begins alternates, so that whatever else the machine does meets both alike.
func measureHandler(ctx context.Context, out *figures, logFile string) (err error) {
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
	progress("owner-rewrite handler against one that does nothing: latency")
	if err := latency(ctx, callers[0], out); err != nil {
		return err
	}
	progress("owner-rewrite handler against one that does nothing: throughput of %d clients", clients)
	if err := throughput(ctx, callers, out); err != nil {
		return err
	}
	out.show("rewrite_handler_allocs", allocations(ctx, rewritePath, callers[0].reviews), "allocs")
	out.show("noop_handler_allocs", allocations(ctx, noopPath, callers[0].reviews), "allocs")
	return nil
}

// turns are the two handlers in the order of a round.
func turns(round int) []string {
	if round%2 == 0 {
		return []string{noopPath, rewritePath}
	}
	return []string{rewritePath, noopPath}
}

func latency(ctx context.Context, caller *caller, out *figures) error {
	micros := map[string][]float64{}
	for round := range latencyRounds + 2 {
		for _, path := range turns(round) {
			for range callsPerRound {
				start := time.Now()
				if _, err := caller.call(ctx, path); err != nil {
					return err
				}
				if took := time.Since(start); round >= 2 { // the first two rounds warm up
					micros[path] = append(micros[path], float64(took.Nanoseconds())/1e3)
				}
			}
		}
	}
	rewrite, noop := micros[rewritePath], micros[noopPath]
	out.show("rewrite_p50_us", median(rewrite), "us")
	out.show("noop_p50_us", median(noop), "us")
	out.show("rewrite_p99_us", quantile(rewrite, 0.99), "us")
	out.show("noop_p99_us", quantile(noop, 0.99), "us")
	out.atMost("rewrite_p50_ratio", median(rewrite)/median(noop), "ratio", p50RatioBound)
	return nil
}

func throughput(ctx context.Context, callers []*caller, out *figures) error {
	perSecond := map[string][]float64{}
	for round := range throughputRounds + 2 {
		for _, path := range turns(round) {
			rate, err := rateOf(ctx, callers, path)
			if err != nil {
				return err
			}
			if round >= 2 {
				perSecond[path] = append(perSecond[path], rate)
			}
		}
	}
	rewrite, noop := perSecond[rewritePath], perSecond[noopPath]
	ratios := make([]float64, len(rewrite))
	for round := range ratios {
		ratios[round] = rewrite[round] / noop[round]
	}
	out.show("rewrite_throughput_rps", median(rewrite), "requests/s")
	out.show("noop_throughput_rps", median(noop), "requests/s")
	out.atLeast("rewrite_throughput_ratio", median(ratios), "ratio", throughputRatioBound)
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
