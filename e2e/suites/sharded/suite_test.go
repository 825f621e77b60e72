//go:build e2e

// Package sharded_test tests a kcp with several shards: the workspace of a service account is on one shard, and the workspaces that
// it creates are on another.
package sharded_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
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
	// kcp has warrantgate installed, and gate is the one that it calls.
	kcp    *kcptest.Sharded
	gate   *kcptest.Warrantgate
	binary string
)

func TestSharded(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(readyTimeout)
	SetDefaultEventuallyPollingInterval(pollInterval)
	RunSpecs(t, "Sharded")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	options := kcptest.ShardedOptions{}
	for env, path := range map[string]*string{
		asset.KCP: &options.KCP, asset.FrontProxy: &options.FrontProxy, asset.CacheServer: &options.CacheServer,
		asset.Warrantgate: &binary,
	} {
		var err error
		*path, err = asset.Path(env)
		Expect(err).NotTo(HaveOccurred())
	}
	var err error
	kcp, err = kcptest.StartSharded(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return kcp.Stop() })

	gate, err = kcptest.StartWarrantgate(ctx, kcp.Server, kcptest.WarrantgateOptions{Binary: binary})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return gate.Stop() })
}, NodeTimeout(startTimeout))

var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() {
		kcp.KeepDir()
		AddReportEntry("logs are kept", kcp.Dir())
	}
})
