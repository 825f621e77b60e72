//go:build e2e

package sharded_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
)

var _ = Describe("On several shards", func() {
	// One webhook configuration, in root, applies to Workspaces on any shard and to their logical clusters on any shard.
	DescribeTable("a shard that is down delays only its own workspaces, until it is up again",
		func(ctx SpecContext, own, other string) {
			home := newPlace(ctx, own)
			kcp.KillShard(other)
			DeferCleanup(func(ctx SpecContext) { // for the other specs, if this one fails
				Expect(kcp.StartShard(ctx, other)).To(Succeed())
			}, NodeTimeout(startTimeout))

			create(ctx, home.bot, "far", other)
			create(ctx, home.bot, "near", own)
			home.expectAtHome(ctx, "near", own)
			far, err := kcptest.GetWorkspace(ctx, home.Admin(), "far")
			Expect(err).NotTo(HaveOccurred())
			Expect(far.Spec.Cluster).To(BeEmpty())

			Expect(kcp.StartShard(ctx, other)).To(Succeed())
			home.expectAtHome(ctx, "far", other)
			// When the root shard starts, it removes the permission to write Workspaces from the cache server for some seconds.
			Eventually(ctx, func() error {
				_, err := kcptest.TryCreateWorkspace(ctx, home.bot, "later", kcptest.OnShard(other))
				return err
			}).Should(Succeed())
			home.expectAtHome(ctx, "later", other)
		},
		Entry("without the second shard", kcptest.RootShard, kcptest.SecondShard, SpecTimeout(specTimeout)),
		Entry("without the root shard", kcptest.SecondShard, kcptest.RootShard, SpecTimeout(specTimeout)),
	)
})
