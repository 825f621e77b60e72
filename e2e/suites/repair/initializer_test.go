//go:build e2e

package repair_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A platform team extends its workspace types from the type warranted, so that no workspace of these types becomes Ready with a wrong
// owner, with or without the webhook.
var _ = Describe("a workspace of a type that extends warranted", func() {
	var p place
	var extending kcptest.WorkspaceOption

	BeforeEach(func(ctx SpecContext) {
		p = newPlace(ctx)
		extending = p.extending(ctx)
	}, NodeTimeout(specTimeout))

	It("of a user who is in scope becomes Ready with an unchanged owner", func(ctx SpecContext) {
		Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
		serveSlowly(ctx)
		suite.CreateWorkspace(ctx, kcp.User(p.Path, "alice"), "child", extending)
		child := p.WaitReady(ctx, "child")
		Expect(adminsOf(ctx, child)).To(ConsistOf("alice"))
	}, SpecTimeout(specTimeout))

	It("waits while no warrantgate runs, prevents the removal of the type, and becomes Ready afterwards, with its owner rewritten", func(ctx SpecContext) {
		suite.CreateWorkspace(ctx, p.bot, "child", extending)
		p.WaitInitializing(ctx, "child")
		Eventually(ctx, kcptest.Describe).WithArguments(ctx, p.Admin(), "child").Should(ContainSubstring("root:warranted"))
		explained := And(
			ContainSubstring("nothing was changed, because workspaces wait for the initializer of the WorkspaceType warranted"),
			ContainSubstring(p.Path+":child (logical cluster "),
		)
		uninstalled := suite.Warrantgate(ctx, "uninstall", "kcp", "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")
		Expect(uninstalled.Status).To(Equal(2))
		Expect(uninstalled.Stderr).To(explained)
		withoutRepair, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Configuration: withoutGates + "repair: {mode: \"Off\"}\n"})
		Expect(err).NotTo(HaveOccurred())
		_, err = withoutRepair.InstallOnly(ctx)
		Expect(err).To(MatchError(explained))
		w := serveSlowly(ctx)
		child := p.WaitReady(ctx, "child")
		Expect(adminsOf(ctx, child)).To(ConsistOf(p.GlobalName("bot")))
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
		Eventually(ctx, func() string {
			return kcptest.Describe(ctx, p.Admin(), "child")
		}).Should(And(ContainSubstring("OwnerRewritten"), ContainSubstring("At initialization: ")))
		Expect(repairedBy(ctx, w)).To(BeZero(), "the repair did not write the workspace")
	}, SpecTimeout(specTimeout))
})
