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
	It("makes the workspace of a service account Ready, and the service account works in it", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.bot)
		child := p.waitReady(ctx, "child")
		expectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("is an Event on the Workspace, which kubectl describe shows with the creator", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.bot)
		p.waitReady(ctx, "child")
		Eventually(p.describe).WithArguments("child").Should(And(
			MatchRegexp(`(?m)^ +Normal +OwnerRewritten .*`+p.botName()),
			ContainSubstring(kcptest.CreatedByAnnotation+": "+p.cluster+":default:bot"),
		))
	}, SpecTimeout(specTimeout))

	It("gives no access to a service account of the same name in another workspace", func(ctx SpecContext) {
		p, other := newPlace(ctx), newPlace(ctx)
		p.create(ctx, p.bot)
		child := p.waitReady(ctx, "child")
		expectAtHome(ctx, p.bot, child.Spec.Cluster)
		expectLockedOut(ctx, other.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("gives no permission to a service account of the same name inside the new workspace", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.bot)
		child := p.waitReady(ctx, "child")
		expectAtHome(ctx, p.bot, child.Spec.Cluster)
		impostor, err := kcptest.ServiceAccount(within(ctx), p.server.Admin(child.Spec.Cluster), "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		Expect(createNamespace(ctx, impostor, child.Spec.Cluster)).To(MatchError(ContainSubstring("forbidden")))
	}, SpecTimeout(specTimeout))

	It("binds the default APIExports that the service account may bind at home", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Export(ctx, p.admin(), "core.example.io", kcptest.Widgets("core.example.io"))).To(Succeed())
		Expect(kcptest.Grant(within(ctx), p.admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.BindRule("core.example.io"))).To(Succeed())
		binding := p.workspaceType(ctx, "binding", tenancyv1alpha1.WorkspaceTypeSpec{
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: p.path, Export: "core.example.io"}},
		})
		p.create(ctx, p.bot, binding)
		child := p.waitReady(ctx, "child")
		expectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("makes the workspace of an impersonated user Ready, and only that user works in it", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.user(ctx, "alice")
		asAlice := p.admin()
		asAlice.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
		p.create(ctx, asAlice)
		child := p.waitReady(ctx, "child")
		expectAtHome(ctx, p.server.User("root", "alice"), child.Spec.Cluster)
		expectLockedOut(ctx, p.server.User("root", "bob"), child.Spec.Cluster)
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, "alice"))
	}, SpecTimeout(specTimeout))

	It("does not change the owner of a user who is in scope", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.user(ctx, "carol"))
		child := p.waitSettled(ctx)
		Expect(child.Annotations).To(And(
			HaveKeyWithValue(kcptest.OwnerAnnotation, `{"username":"carol"}`), Not(HaveKey(kcptest.CreatedByAnnotation)),
		))
		expectAtHome(ctx, p.server.User("root", "carol"), child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("leaves nothing for explain to report", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.bot)
		p.waitSettled(ctx)
		Eventually(ctx, func() suite.Output { return p.explain(ctx, "child") }).Should(And(
			HaveField("Status", 0), HaveField("Stdout", ContainSubstring("Ready"))))
	}, SpecTimeout(specTimeout))
})
