// Command demo shows what warrantgate does, on a kcp, a kube-apiserver and a Keystone of its own. "make demo" builds or
// installs what it needs and runs it.
//
// Each step does what it says with real objects and checks that it came out so. If one did not, the program names the
// step and ends with 1. It leaves nothing behind, also when it is interrupted.
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

// patience is far more than the demo takes, so that it ends on a slow machine too, and always ends.
const patience = 4 * time.Minute

// steps are the demo, in order.
var steps = []struct {
	title string
	run   func(context.Context, *demo) error
}{
	{"Without warrantgate, the workspace of a service account hangs", hang},
	{"Install warrantgate and start it", installAndServe},
	{"With warrantgate, the workspace of a service account becomes Ready", becomeReady},
	{"Nobody can forge an owner", forge},
	{"What `kubectl describe workspace` tells", describeWorkspace},
	{"A workspace that hung from before is healed", heal},
	{"Machines: warrantgate for Cluster API on CloudSigma", startMachines},
	{"A machine cannot name a server of somebody else", refuseStale},
	{"What `kubectl describe` tells of the machine", describeMachine},
	{"Nobody can have a cluster act as a user whom they may not impersonate", refuseAuthor},
	{"The audit finds what was left behind", audit},
	{"OpenStack: warrantgate knows a Keystone as well", startOpenStack},
	{"A cluster cannot act with an administrator's power", refuseAdmin},
	{"A policy for Keystone does what it says", refusePolicy},
}

func main() {
	// Libraries speak only to those who look into their logs; what matters to the demo comes as an error.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	logf.SetLogger(logr.Discard())
	// A closed terminal or pipe ends the demo like Ctrl-C, and in order.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	start := time.Now()
	defer context.AfterFunc(ctx, func() { fmt.Fprintln(os.Stderr, "\ndemo: interrupted; stopping what was started") })()
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	d := &demo{}
	defer func() { err = errors.Join(err, d.cleanUp()) }() //nolint:contextcheck // what was started is stopped also when ctx has ended
	if err := d.setUp(deadline); err != nil {
		return stepError(ctx, "start kcp", err)
	}
	for i, step := range steps {
		heading(fmt.Sprintf("Step %d of %d. %s", i+1, len(steps), step.title))
		if err := step.run(deadline, d); err != nil {
			return stepError(ctx, fmt.Sprintf("step %d (%s)", i+1, step.title), err)
		}
	}
	heading(fmt.Sprintf("All %d steps came out as they say, in %s.", len(steps), seconds(time.Since(start))))
	return nil
}

// stepError names the step. Of an interrupted one there is nothing else to say.
func stepError(ctx context.Context, step string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted in %s", step)
	}
	return fmt.Errorf("%s failed: %w\nWith KEEP=1 in the environment the logs are kept", step, err)
}
