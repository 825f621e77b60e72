package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"warrantgate.dev/e2e/env/kubetest"
)

const (
	reportsTimeBound   = 1.3
	reportsMemoryBound = 1.2
	// reportsRounds is how often both ways run, and reportsRuns the number of audits in each round. The first of them gets all tokens and writes all
	// reports.
	reportsRounds = 3
	reportsRuns   = 5
)

// reportsWay is an audit with or without reports, and its figures: the seconds of the first audits and of the later ones, and the peaks of memory.
type reportsWay struct {
	*kubetest.Warrantgate
	reports              bool
	first, later, memory []float64
}

// measureReports compares the audits of a running warrantgate with and without reports. The first audits are compared at the default rate of
// requests to the cloud: they take as long as their requests. At a rate at which they never wait, writing all results takes longer than everything
// else, because the API server needs a quarter of a millisecond for each of the 5,000.
func (m *machines) measureReports(ctx context.Context, out *figures) error {
	crd, err := kubetest.ReportCRD(ctx)
	if err != nil {
		return err
	}
	if err := m.api.ApplyCRDs(ctx, crd); err != nil {
		return err
	}
	ways, err := m.reportsWays(ctx, "interval: 1s")
	if err != nil {
		return err
	}
	if _, err := ways[1].Install(ctx); err != nil { // the permissions for all
		return err
	}
	progress("a first audit with and without reports, at the default rate of requests")
	for _, way := range ways {
		if _, err := way.round(ctx, 1); err != nil {
			return fmt.Errorf("reports %t: %w", way.reports, err)
		}
	}
	ratio := func(figure func(way *reportsWay) []float64) float64 {
		return median(figure(ways[1])) / median(figure(ways[0]))
	}
	out.atMost("audit_reports_first_time_ratio", ratio(func(w *reportsWay) []float64 { return w.first }), "times", reportsTimeBound)

	if ways, err = m.reportsWays(ctx, fmt.Sprintf("interval: 1s, requestsPerSecond: %d", auditRate)); err != nil {
		return err
	}
	var writes float64
	for n := range reportsRounds {
		progress("audits with and without reports: round %d of %d", n+1, reportsRounds)
		for _, way := range ways {
			later, err := way.round(ctx, reportsRuns)
			if err != nil {
				return fmt.Errorf("reports %t: %w", way.reports, err)
			}
			writes += later
		}
	}
	if _, err := ways[1].Uninstall(ctx); err != nil {
		return err
	}
	progress("first audits at a rate at which they never wait: %.2f s with reports, %.2f s without", median(ways[1].first), median(ways[0].first))
	out.atMost("audit_reports_time_ratio", ratio(func(w *reportsWay) []float64 { return w.later }), "times", reportsTimeBound)
	out.atMost("audit_reports_memory_ratio", ratio(func(w *reportsWay) []float64 { return w.memory }), "times", reportsMemoryBound)
	out.exactly("audit_reports_unchanged_writes", writes, "writes", 0)
	return nil
}

// reportsWays returns the audit without and with reports, with the same settings otherwise.
func (m *machines) reportsWays(ctx context.Context, audit string) ([]*reportsWay, error) {
	var ways []*reportsWay
	for _, reports := range []bool{false, true} {
		configuration, err := os.ReadFile(m.warrantgate.ConfigFile())
		if err != nil {
			return nil, err
		}
		with := fmt.Sprintf("audit: {%s, reports: %t}", audit, reports)
		way := &reportsWay{reports: reports}
		way.Warrantgate, err = kubetest.NewWarrantgate(ctx, m.api, kubetest.WarrantgateOptions{
			Binary: m.binary, Configuration: strings.Replace(string(configuration), `audit: {mode: "Off"}`, with, 1), Args: m.flags, Env: m.env,
		})
		if err != nil {
			return nil, err
		}
		ways = append(ways, way)
	}
	return ways, nil
}

// round runs several audits in a new process, and returns the number of reports that were written after the first one.
func (w *reportsWay) round(ctx context.Context, runs int) (later float64, err error) {
	log, err := os.ReadFile(w.LogFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	var after float64
	for done, before := 0, len(log); done < runs; {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
		content, err := os.ReadFile(w.LogFile())
		if err != nil {
			return 0, err
		}
		seconds, err := audits(content[before:])
		if err != nil {
			return 0, err
		}
		if done == 0 && len(seconds) > 0 {
			if after, err = w.written(ctx); err != nil {
				return 0, err
			}
		}
		if done = len(seconds); done >= runs {
			w.first, w.later = append(w.first, seconds[0]), append(w.later, seconds[1:]...)
		}
	}
	if want := float64(users); w.reports && after != want {
		return 0, fmt.Errorf("the first audit wrote %g reports, want %g", after, want)
	}
	peak, err := peakMebibytes(w.PID())
	if err != nil {
		return 0, err
	}
	w.memory = append(w.memory, peak)
	last, err := w.written(ctx)
	return last - after, err
}

// written is the number of reports that the process has written.
func (w *reportsWay) written(ctx context.Context) (float64, error) {
	return w.Metric(ctx, "warrantgate_audit_reports_total", map[string]string{"outcome": "written"})
}

// audits returns the seconds of each audit in a log. All audits check all machines.
func audits(log []byte) ([]float64, error) {
	var seconds []float64
	for line := range bytes.Lines(log) {
		var message struct {
			Msg                string
			Machines, Findings int
			Seconds            float64
		}
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &message) != nil || message.Msg != "audited" {
			continue
		}
		if message.Machines != users*machinesOfUser || message.Findings > 0 {
			return nil, fmt.Errorf("want %d machines and no finding: %s", users*machinesOfUser, line)
		}
		seconds = append(seconds, message.Seconds)
	}
	return seconds, nil
}
