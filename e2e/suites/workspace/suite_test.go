//go:build e2e

// Package workspace_test tests workspaces on real kcp servers, without warrantgate and with it.
//
// Each spec has a workspace of its own, and each file is one user story.
package workspace_test

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	// startTimeout limits the start of two servers at the same time on a busy machine.
	startTimeout = 5 * time.Minute
	// specTimeout limits a spec, long before the timeout of the suite.
	specTimeout = 8 * time.Minute
	// readyTimeout is far longer than a workspace takes to become Ready, which is about a second.
	readyTimeout = 3 * time.Minute
	// stuckTime is how long a stuck workspace is observed after kcp has logged the reason.
	stuckTime = time.Second
	// pollInterval is the polling interval of Eventually.
	pollInterval = 100 * time.Millisecond
	// manyWorkspaces limits specs that create dozens of workspaces.
	manyWorkspaces = 15 * time.Minute
)

var (
	// bare is a kcp without warrantgate.
	bare *kcptest.Server
	// guarded is a kcp with warrantgate installed.
	guarded *kcptest.Server
	// gate is the warrantgate of guarded.
	gate *kcptest.Warrantgate
)

func TestWorkspaces(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultConsistentlyDuration(stuckTime)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	suite.Run(t, "Workspaces", readyTimeout, pollInterval)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	DeferCleanup(stopServers)
	servers, startCtx := errgroup.WithContext(ctx)
	servers.Go(func() (err error) {
		bare, err = kcptest.Start(startCtx, kcptest.Options{})
		return err
	})
	servers.Go(func() (err error) {
		guarded, err = kcptest.Start(startCtx, kcptest.Options{})
		return err
	})
	Expect(servers.Wait()).To(Succeed())

	var err error
	gate, err = kcptest.StartWarrantgate(ctx, guarded, kcptest.WarrantgateOptions{})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(startTimeout))

// stopServers stops the servers that BeforeSuite has started.
func stopServers() {
	if gate != nil {
		Expect(gate.Stop()).To(Succeed())
	}
	for _, server := range []*kcptest.Server{bare, guarded} {
		if server != nil {
			Expect(server.Stop()).To(Succeed())
		}
	}
}

// The logs of a failed run are kept, and the report of the failed spec has the end of warrantgate's log.
var _ = JustAfterEach(func() {
	if !CurrentSpecReport().Failed() {
		return
	}
	bare.KeepDir()
	guarded.KeepDir()
	AddReportEntry("logs are kept", bare.LogFile()+" "+guarded.LogFile())
	log, err := os.ReadFile(gate.LogFile())
	Expect(err).NotTo(HaveOccurred())
	AddReportEntry("log of warrantgate", string(log[max(0, len(log)-8<<10):]))
})
