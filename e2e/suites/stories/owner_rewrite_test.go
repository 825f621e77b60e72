//go:build e2e

package stories_test

import (
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// Workspaces of service accounts and of users who are scoped to another workspace become Ready. Only their creator gains access.
var _ = Describe("Owner rewrite", func() {
	It("makes the workspace of a service account Ready, in which it works, and not one of the same name elsewhere", func(ctx SpecContext) {
		p, other := newPlace(ctx), newPlace(ctx)
		p.create(ctx, p.bot)
		child := p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
		suite.ExpectLockedOut(ctx, other.bot, child.Spec.Cluster)

		By("describing it: an Event on the Workspace, and the creator")
		Eventually(suite.DescribeWorkspace).WithArguments(p.Admin(), "child").Should(And(
			MatchRegexp(`(?m)^ +Normal +OwnerRewritten .*`+p.GlobalName("bot")),
			ContainSubstring(kcptest.CreatedByAnnotation+": "+p.Cluster+":default:bot"),
		))
		By("explaining it: nothing is missing")
		Eventually(ctx, func() suite.Output { return p.explain(ctx, "child") }).Should(And(
			HaveField("Status", 0), HaveField("Stdout", ContainSubstring("Ready"))))
	}, SpecTimeout(specTimeout))

	It("gives no permission to a service account of the same name inside the new workspace", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.bot)
		child := p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
		impostor, err := kcptest.ServiceAccount(within(ctx), p.Server.Admin(child.Spec.Cluster), "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		Expect(suite.CreateNamespace(ctx, impostor, child.Spec.Cluster)).To(MatchError(ContainSubstring("forbidden")))
	}, SpecTimeout(specTimeout))

	It("binds the default APIExports that the service account may bind at home", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Export(ctx, p.Admin(), "core.example.io", kcptest.Widgets("core.example.io"))).To(Succeed())
		Expect(kcptest.Grant(within(ctx), p.Admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.BindRule("core.example.io"))).To(Succeed())
		binding := p.WorkspaceType(ctx, "binding", tenancyv1alpha1.WorkspaceTypeSpec{
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: p.Path, Export: "core.example.io"}},
		})
		p.create(ctx, p.bot, binding)
		child := p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("makes the workspace of an impersonated user Ready, and only that user works in it", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.User(ctx, "alice")
		asAlice := p.Admin()
		asAlice.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
		p.create(ctx, asAlice)
		child := p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, p.Server.User("root", "alice"), child.Spec.Cluster)
		suite.ExpectLockedOut(ctx, p.Server.User("root", "bob"), child.Spec.Cluster)
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, "alice"))
	}, SpecTimeout(specTimeout))

	It("does not change the owner of a user who is in scope", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.User(ctx, "carol"))
		child := p.WaitSettled(ctx, "child")
		Expect(child.Annotations).To(And(
			HaveKeyWithValue(kcptest.OwnerAnnotation, `{"username":"carol"}`), Not(HaveKey(kcptest.CreatedByAnnotation)),
		))
		suite.ExpectAtHome(ctx, p.Server.User("root", "carol"), child.Spec.Cluster)
	}, SpecTimeout(specTimeout))
})
