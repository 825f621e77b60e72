//go:build e2e

package stories_test

import (
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// Workspaces that are stuck because of their owner become Ready. explain says what is missing.
var _ = Describe("Initializer and repair", func() {
	It("repair a workspace that is older than warrantgate, and kubectl describe shows it", func(ctx SpecContext) {
		stuck := kcp.early.WaitReady(ctx, "stuck")
		suite.ExpectAtHome(ctx, kcp.early.bot, stuck.Spec.Cluster)
		Eventually(suite.DescribeWorkspace).WithArguments(kcp.early.Admin(), "stuck").Should(MatchRegexp(`(?m)^ +Normal +OwnerRewritten .*` + kcp.early.GlobalName("bot")))
	}, SpecTimeout(specTimeout))

	It("initialize a workspace of a type that extends warranted", func(ctx SpecContext) {
		p := newPlace(ctx)
		extending := p.WorkspaceType(ctx, "extending", tenancyv1alpha1.WorkspaceTypeSpec{Extend: tenancyv1alpha1.WorkspaceTypeExtension{
			With: []tenancyv1alpha1.WorkspaceTypeReference{{Path: "root", Name: "universal"}, {Path: "root", Name: "warranted"}},
		}})
		p.create(ctx, p.bot, extending)
		child := p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("report the permission that an owner lacks, and continue once it is granted", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Export(ctx, p.Admin(), "core.example.io", kcptest.Widgets("core.example.io"))).To(Succeed())
		binding := p.WorkspaceType(ctx, "binding", tenancyv1alpha1.WorkspaceTypeSpec{
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: p.Path, Export: "core.example.io"}},
		})
		p.User(ctx, "carol")
		// An administrator creates it in the name of its owner: from v0.33 on, kcp denies its creation (kcp-dev/kcp#4311).
		suite.CreateWorkspace(ctx, p.Server.ShardAdmin(p.Path), "child", binding,
			kcptest.WithAnnotation(kcptest.OwnerAnnotation, `{"username":"carol","groups":["system:authenticated"]}`))
		Eventually(suite.DescribeWorkspace).WithArguments(p.Admin(), "child").Should(MatchRegexp(`(?m)^ +Warning +BindPermissionMissing .*core\.example\.io`))

		By("explain prints the rule")
		explained := p.explain(ctx, "child")
		Expect(explained.Status).To(Equal(1), explained.Stderr)
		Expect(explained.Stdout).To(And(ContainSubstring("carol"), ContainSubstring("bind"), ContainSubstring("core.example.io")))

		Expect(kcptest.Grant(within(ctx), p.Admin(), kcptest.User("carol"), kcptest.AccessRule(), kcptest.BindRule("core.example.io"))).To(Succeed())
		p.WaitReady(ctx, "child")
		Eventually(ctx, func() suite.Output { return p.explain(ctx, "child") }).Should(HaveField("Status", 0))
	}, SpecTimeout(specTimeout))
})
