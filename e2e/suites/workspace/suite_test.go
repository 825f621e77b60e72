//go:build e2e

// Package workspace_test tests workspaces on real kcp servers, without warrantgate and with it.
//
// Each spec has a workspace of its own, and each file is one user story.
package workspace_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

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
	// kcp is the server with warrantgate installed, gate is that warrantgate.
	kcp  *kcptest.Server
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
	var err error
	kcp, err = kcptest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	gate, err = kcptest.StartWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(startTimeout))

// stopServers stops what BeforeSuite has started.
func stopServers() {
	if gate != nil {
		Expect(gate.Stop()).To(Succeed())
	}
	if kcp != nil {
		Expect(kcp.Stop()).To(Succeed())
	}
}

// removeWarrantgate uninstalls warrantgate, as an operator does, until the end of the container.
func removeWarrantgate(ctx SpecContext) {
	Expect(gate.Stop()).To(Succeed())
	_, err := gate.Uninstall(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_, err := gate.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(gate.Start(ctx)).To(Succeed())
	}, NodeTimeout(startTimeout))
}

// The logs of a failed run are kept, and the report of the failed spec has the end of warrantgate's log.
var _ = JustAfterEach(func() {
	if !CurrentSpecReport().Failed() {
		return
	}
	kcp.KeepDir()
	AddReportEntry("logs are kept", kcp.LogFile())
	log := suite.Log(gate)
	AddReportEntry("log of warrantgate", log[max(0, len(log)-8<<10):])
})
