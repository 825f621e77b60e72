package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"warrantgate.dev/webhooks/workspace"
)

const (
	serveP99RatioBound = 1.2

	// Each of the two servers gets the load for a minute, after one round that does not count.
	loadRounds, loadWarmUpRounds = 12, 1
	loadRoundTime                = 5 * time.Second
)

// measureServe compares a real serve with a no-op server of the same kind, under the load of many API servers at once. The two
// alternate in short rounds. Both get the same requests from the same clients over as many keep-alive connections. All share the
// processors with either server.
//
// The gates are those that respond from memory: owner rewrite and owner notice. The others send requests to the API server each time, so
// that the measurement would show the time of the API server. Events are not written, because there is no kcp; the figures of rewrite
// include their cost.
func measureServe(ctx context.Context, out *figures, logFile string) (err error) {
	noop, err := startServer(ctx, logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, noop.stop()) }()
	m := &machines{}
	defer func() { err = errors.Join(err, m.stop()) }() //nolint:contextcheck // what was started is stopped also when ctx has ended
	if err := m.begin(ctx, machinesToRead); err != nil {
		return err
	}
	rivals, err := m.newRivals(ctx, noop)
	if err != nil {
		return err
	}
	if err := underLoad(ctx, rivals); err != nil {
		return err
	}
	one, other := rivals[0], rivals[1]
	out.atMost("serve_p99_ratio", p99Ratio(one, other), "ratio", serveP99RatioBound)
	out.exactly("serve_dropped", float64(one.dropped), "requests", 0)
	if other.dropped > 0 {
		return fmt.Errorf("the no-op server dropped %d admissions", other.dropped)
	}
	return nil
}

// newRivals starts serve, and returns it and the no-op server.
func (m *machines) newRivals(ctx context.Context, noop *server) ([]*rival, error) {
	if _, err := m.warrantgate.Install(ctx); err != nil {
		return nil, err
	}
	if err := m.warrantgate.Start(ctx); err != nil {
		return nil, err
	}
	roots, err := rootsIn(m.warrantgate.CAFile())
	if err != nil {
		return nil, err
	}
	load := []contestant{
		{path: rewritePath, patches: true, reviews: workspaceReviews},
		{path: workspace.OwnerNoticePath, reviews: workspaceReviews},
	}
	one, err := newRival("serve", m.warrantgate.HookURL(""), roots, load, "")
	if err != nil {
		return nil, err
	}
	other, err := newRival("serve_noop", noop.url, noop.roots, load, noopPath)
	if err != nil {
		return nil, err
	}
	return []*rival{one, other}, errors.Join(one.verify(ctx), other.verify(ctx))
}

// underLoad alternates the load between the rivals.
func underLoad(ctx context.Context, rivals []*rival) error {
	for n := range loadWarmUpRounds + loadRounds {
		progress("%d admissions at once: round %d of %d", admitters, n+1, loadWarmUpRounds+loadRounds)
		for _, r := range turns(n, rivals[0], rivals[1]) {
			round, err := r.run(ctx, loadRoundTime)
			if err != nil {
				return err
			}
			r.dropped += round.dropped
			if round.firstDrop != nil {
				progress("%s: %d admissions were dropped, the first of them because of: %v", r.name, round.dropped, round.firstDrop)
			}
			if n >= loadWarmUpRounds {
				r.rounds = append(r.rounds, round)
			}
		}
	}
	return nil
}

// p99Ratio is the median of the ratios of the rounds. Other load of the machine slows down a round, and would dominate a quantile of
// all rounds.
func p99Ratio(one, other *rival) float64 {
	ratios := make([]float64, 0, len(one.rounds))
	for n := range one.rounds {
		ratios = append(ratios, quantile(one.rounds[n].millis, 0.99)/quantile(other.rounds[n].millis, 0.99))
	}
	return median(ratios)
}
