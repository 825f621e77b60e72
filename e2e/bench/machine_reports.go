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
	// reports, whose time depends on the API server; it is not compared.
	reportsRounds = 3
	reportsRuns   = 5
)

// reportsWay is an audit with or without reports, and its figures: the seconds of the audits after the first one, and the peaks of memory.
type reportsWay struct {
	*kubetest.Warrantgate
	reports       bool
	later, memory []float64
}

// measureReports compares the audits of a running warrantgate with and without reports.
func (m *machines) measureReports(ctx context.Context, out *figures) error {
	crd, err := kubetest.ReportCRD(ctx)
	if err != nil {
		return err
	}
	if err := m.api.ApplyCRDs(ctx, crd); err != nil {
		return err
	}
	var ways []*reportsWay
	for _, reports := range []bool{false, true} {
		configuration, err := os.ReadFile(m.warrantgate.ConfigFile())
		if err != nil {
			return err
		}
		audit := fmt.Sprintf("audit: {interval: 1s, requestsPerSecond: %d, reports: %t}", auditRate, reports)
		way := &reportsWay{reports: reports}
		way.Warrantgate, err = kubetest.NewWarrantgate(ctx, m.api, kubetest.WarrantgateOptions{
			Binary: m.binary, Configuration: strings.Replace(string(configuration), `audit: {mode: "Off"}`, audit, 1), Args: m.flags, Env: m.env,
		})
		if err != nil {
			return err
		}
		ways = append(ways, way)
	}
	if _, err := ways[1].Install(ctx); err != nil { // the permissions for both
		return err
	}
	var writes float64
	for n := range reportsRounds {
		progress("audits with and without reports: round %d of %d", n+1, reportsRounds)
		for _, way := range ways {
			later, err := way.round(ctx)
			if err != nil {
				return fmt.Errorf("reports %t: %w", way.reports, err)
			}
			writes += later
		}
	}
	if _, err := ways[1].Run(ctx, "uninstall", "kubernetes", "--kubeconfig="+m.api.Dir()+"/admin.kubeconfig"); err != nil {
		return err
	}
	ratio := func(figure func(way *reportsWay) []float64) float64 {
		return median(figure(ways[1])) / median(figure(ways[0]))
	}
	out.atMost("audit_reports_time_ratio", ratio(func(w *reportsWay) []float64 { return w.later }), "times", reportsTimeBound)
	out.atMost("audit_reports_memory_ratio", ratio(func(w *reportsWay) []float64 { return w.memory }), "times", reportsMemoryBound)
	out.exactly("audit_reports_unchanged_writes", writes, "writes", 0)
	return nil
}

// round runs several audits in a new process, and returns the number of reports that were written after the first one.
func (w *reportsWay) round(ctx context.Context) (later float64, err error) {
	log, err := os.ReadFile(w.LogFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	var after float64
	for done, before := 0, len(log); done < reportsRuns; {
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
		if done = len(seconds); done >= reportsRuns {
			w.later = append(w.later, seconds[1:]...)
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
