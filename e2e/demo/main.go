// Command demo shows the functions of warrantgate on its own servers. Its argument is the story: kcp, which is the default, machines or
// openstack. "make demo", "make demo-machines" and "make demo-openstack" build the binaries and run it. "make pictures" also gives it the
// file for a picture of its output.
//
// Each step works on real objects and verifies the result. If a result is wrong, the program names the step and exits with 1. It removes
// everything that it started, even after an interrupt.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// timeout is far longer than a story, even on a slow machine.
const timeout = 4 * time.Minute

// story is the demo of one kind of server.
type story struct {
	steps []step
	// most is the maximum number of printed lines, 0 for any number.
	most int
}

type step struct {
	title string
	run   func(context.Context, *demo) error
}

// stories are the demos, by name.
var stories = map[string]story{
	"kcp": {most: 60, steps: []step{
		{"A kcp of its own, without warrantgate: the workspace of a service account is stuck", stuck},
		{"Start warrantgate and install it", installAndServe},
		{"With warrantgate, the workspace of a service account becomes Ready", becomeReady},
		{"A user cannot forge an owner", forge},
		{"`kubectl describe workspace` shows the rewrite", describeWorkspace},
		{"A workspace that was stuck before is repaired", repair},
	}},
	"machines": {steps: []step{
		{"warrantgate for Cluster API on CloudSigma", startMachines},
		{"The provider names the server of a machine: status.instanceID first, spec.providerID second", nameServer},
		{"The incident: a write names a server of another user, and is denied", denyStaleServer},
		{"`kubectl describe` shows the denial", describeMachine},
		{"`warrantgate explain machine` shows a machine in which such a write was stored before", explainMachine},
		{"The report of the audit shows it, too", showReport},
		{"The provider repairs the machines", repairMachine},
		{"The audit finds an orphaned server", audit},
	}},
	"openstack": {steps: []step{
		{"warrantgate for Cluster API on OpenStack", startOpenStack},
		{"A cluster cannot act with an administrator's permissions", denyAdministrator},
		{"A Keystone policy that cannot work is denied", denyBrokenPolicy},
	}},
}

func main() {
	// Discard the logs of libraries. The demo returns its own failures as errors.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	logf.SetLogger(logr.Discard())
	// A closed terminal or pipe ends the demo gracefully, as Ctrl-C does.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	start := time.Now()
	name := "kcp"
	if len(args) > 0 {
		name = args[0]
	}
	shown, ok := stories[name]
	if !ok || len(args) > 2 {
		return fmt.Errorf("%q: the arguments are kcp, machines or openstack, and the file for a picture", args)
	}
	defer context.AfterFunc(ctx, func() { fmt.Fprintln(os.Stderr, "\ndemo: interrupted; stopping the servers") })()
	deadline, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	d := &demo{}
	defer func() { err = errors.Join(err, d.cleanUp()) }() //nolint:contextcheck // what was started is stopped also when ctx has ended
	for i, step := range shown.steps {
		d.heading(fmt.Sprintf("%d. %s", i+1, step.title))
		if err := step.run(deadline, d); err != nil {
			return stepError(ctx, fmt.Sprintf("step %d (%s)", i+1, step.title), err)
		}
	}
	d.heading(d.summary(len(shown.steps), time.Since(start)))
	if shown.most > 0 && d.lines > shown.most {
		return fmt.Errorf("it printed %d lines, and should print at most %d", d.lines, shown.most)
	}
	if len(args) == 2 {
		return os.WriteFile(args[1], []byte(picture("make demo", d.printed.String())), 0o644)
	}
	return nil
}

// summary is the last line.
func (d *demo) summary(steps int, took time.Duration) string {
	if d.skipped > 0 {
		return fmt.Sprintf("%d of %d steps had the expected result, in %s; the others need programs that are not installed here.", steps-d.skipped, steps, seconds(took))
	}
	return fmt.Sprintf("All %d steps had the expected result, in %s.", steps, seconds(took))
}

// stepError adds the name of the step. The error of an interrupted step is only its name.
func stepError(ctx context.Context, step string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted in %s", step)
	}
	return fmt.Errorf("%s failed: %w\nWith KEEP=1 in the environment the logs are kept", step, err)
}
