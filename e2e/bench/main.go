// Command bench measures what warrantgate costs, on this machine, and on a kcp, a kube-apiserver and a Keystone of its own.
// "make bench" builds what it needs and runs it.
//
// It prints one line a figure on standard output: name, value, unit. If a figure misses its bound, the program names it
// and ends with 1. Every ratio compares two things that were measured in turns in the same run, so that it holds on
// slow and busy machines too; the absolute figures say something only next to the machine that they were taken on.
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

// patience is far more than the measurements take, so that the program always ends.
const patience = 40 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	run := bench
	switch {
	case len(os.Args) == 3 && os.Args[1] == serveArgument:
		run = func(ctx context.Context) error { return serve(ctx, os.Args[2]) }
	case len(os.Args) > 2 && os.Args[1] == peakArgument:
		run = func(ctx context.Context) error { return tellPeak(ctx, os.Args[2:], os.Stdout) }
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
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
	if err := measureRewrite(out); err != nil {
		return err
	}
	// What needs no kcp comes first: an idle kcp is not idle enough to be measured beside.
	if err := measureHandler(ctx, out, filepath.Join(dir, "handlers.log")); err != nil {
		return fmt.Errorf("compare handlers: %w", err)
	}
	if err := measureMachineHandler(ctx, out, filepath.Join(dir, "handlers.log")); err != nil {
		return fmt.Errorf("compare handlers of machines: %w", err)
	}
	if err := measurePolicy(ctx, out, dir); err != nil {
		return fmt.Errorf("lint a policy for Keystone: %w", err)
	}
	if err := measureRoleChecks(ctx, out); err != nil {
		return fmt.Errorf("check roles on OpenStack: %w", err)
	}
	if err := measureMachines(ctx, out); err != nil {
		return fmt.Errorf("machines: %w", err)
	}
	if err := measureWorkspaces(ctx, out); err != nil {
		return fmt.Errorf("create workspaces: %w", err)
	}
	if err := measureHealing(ctx, out); err != nil {
		return fmt.Errorf("heal workspaces: %w", err)
	}
	if err := measureWatched(ctx, out); err != nil {
		return fmt.Errorf("watch workspaces that hang: %w", err)
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

// logTo logs to a file as "warrantgate serve" does by default, in JSON from level info on.
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

// progress tells a person who waits what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
