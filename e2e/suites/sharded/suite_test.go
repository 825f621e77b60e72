//go:build e2e

// Package sharded_test tests a kcp with several shards: the workspace of a service account is on one shard, and the workspaces that
// it creates are on another.
package sharded_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	startTimeout = 5 * time.Minute
	specTimeout  = 8 * time.Minute
	// readyTimeout is far longer than a workspace takes to become Ready. The longest waits are for a shard that restarted, because
	// kcp retries one that was down with exponential backoff.
	readyTimeout = 3 * time.Minute
	pollInterval = 100 * time.Millisecond
)

var (
	// kcp is the server with warrantgate installed, gate is that warrantgate.
	kcp  *kcptest.Sharded
	gate *kcptest.Warrantgate
)

func TestSharded(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "Sharded", readyTimeout, pollInterval)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	kcp, err = kcptest.StartSharded(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(kcp.Stop)

	gate, err = kcptest.StartWarrantgate(ctx, kcp.Server, kcptest.WarrantgateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return gate.Stop() })
}, NodeTimeout(startTimeout))

var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() {
		kcp.KeepDir()
		AddReportEntry("logs are kept", kcp.Dir())
	}
})
