// Command bench measures the cost of warrantgate on this machine, with its own kcp and kube-apiserver. "make bench" builds the
// binaries and runs it. BENCH=start,serve selects measurements.
//
// It prints one figure per line on standard output: name, value, unit. If a figure misses its bound, the program names it and exits
// with 1. Every ratio compares two measurements that alternate in the same run, so that it also holds on slow and busy machines.
// Absolute figures are only comparable on the same machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is far longer than all measurements, so that the program always ends.
const patience = 40 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	run := func(ctx context.Context) error { return bench(ctx, os.Args[1:]) }
	switch {
	case len(os.Args) == 3 && os.Args[1] == serveArgument:
		run = func(ctx context.Context) error { return serve(ctx, os.Args[2]) }
	case len(os.Args) > 2 && os.Args[1] == peakArgument:
		run = func(ctx context.Context) error { return reportPeak(ctx, os.Args[2:], os.Stdout) }
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench runs the measurements with the given names, or all.
func bench(ctx context.Context, names []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "warrantgate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log, err := logTo(filepath.Join(dir, "bench.log"))
	if err != nil {
		return err
	}
	defer log.Close()

	out := &figures{writer: os.Stdout}
	for _, m := range chosen {
		if err := m.measure(ctx, out, dir); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return out.missed()
}

// serve serves the handlers and logs to a file.
func serve(ctx context.Context, logFile string) error {
	log, err := logTo(logFile)
	if err != nil {
		return err
	}
	defer log.Close()
	return serveHandlers(ctx, os.Stdin, os.Stdout)
}

// logTo logs to a file as "warrantgate serve" does by default, in JSON at level info.
func logTo(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(file, nil))
	logf.SetLogger(logger)
	klog.SetLogger(logger)
	return file, nil
}

// progress shows the waiting user what is in progress.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
