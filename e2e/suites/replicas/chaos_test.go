//go:build e2e

package replicas_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// chaos is the world of all specs about failures of the environment. Each spec restores it.
var chaos *world

var _ = Describe("The environment of warrantgate:", Ordered, func() {
	BeforeAll(func(ctx SpecContext) { chaos = newWorld(ctx, 2, briefly) }, NodeTimeout(startTimeout))
	AfterEach(func(ctx SpecContext) {
		for _, r := range chaos.replicas {
			Expect(r.process.Alive()).To(Succeed())
		}
		Expect(chaos.begin(ctx).checkVerdicts(ctx)).To(Succeed(), "the gates give the expected verdicts again")
	}, NodeTimeout(timeout))

	Context("the clock", clocks)
	Context("the API server", apiServers)
	Context("the Lease", leases)
	Context("warrantgate itself", coldStarts)
	Context("an admission in progress", underWay)
})
