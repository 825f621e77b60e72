//go:build e2e

package workspace_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// Argo CD, with impersonation for sync, and Flux, with spec.serviceAccountName, impersonate a service account of the workspace that they write
// to, by its name alone. kcp then records no home.
var _ = Describe("The workspace of a service account that a GitOps tool impersonates", func() {
	It("becomes Ready with warrantgate, and only that service account works in it", func(ctx SpecContext) {
		home := newPlace(ctx)
		bot := home.ServiceAccount(ctx, "bot")
		suite.CreateWorkspace(ctx, home.gitOps(ctx), "child")
		child := home.WaitReady(ctx, "child")

		expectAtHome(ctx, bot, child.Spec.Cluster)
		impostor, err := kcptest.ServiceAccount(ctx, kcp.Admin(child.Spec.Cluster), "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		expectLockedOut(ctx, impostor, child.Spec.Cluster)
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, home.Cluster+":default:bot"))
		Eventually(ctx, home.Reasons).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten"}))
	}, SpecTimeout(specTimeout))

	It("has default API bindings that the global name may bind", func(ctx SpecContext) {
		home := newPlace(ctx)
		home.exportWidgets(ctx)
		widgets := home.widgetType(ctx)
		bot := home.ServiceAccount(ctx, "bot")
		tool := home.gitOps(ctx)
		for _, name := range []rbacv1.Subject{kcptest.ServiceAccountSubject("default", "bot"), kcptest.User(home.GlobalName("bot"))} {
			Expect(kcptest.Grant(ctx, home.Admin(), name, kcptest.AccessRule(), kcptest.BindRule(exportName))).To(Succeed())
		}
		suite.CreateWorkspace(ctx, tool, "child", widgets)
		child := home.WaitReady(ctx, "child")

		expectAtHome(ctx, bot, child.Spec.Cluster)
		bindings, err := listBindings(ctx, bot, child.Spec.Cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(exportsOf(bindings)).To(ContainElement(exportName))
	}, SpecTimeout(specTimeout))

	It("waits if only the local name may bind, and explain names the global name", func(ctx SpecContext) {
		home := newPlace(ctx)
		home.exportWidgets(ctx)
		widgets := home.widgetType(ctx)
		home.ServiceAccount(ctx, "bot")
		tool := home.gitOps(ctx)
		Expect(kcptest.Grant(ctx, home.Admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.BindRule(exportName))).To(Succeed())
		suite.CreateWorkspace(ctx, tool, "child", widgets)
		home.expectStuck(ctx, "child", "no permission to bind to export "+home.Path+":"+exportName)

		explained := suite.Warrantgate(ctx, "explain", "workspace", home.Path+":child", "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")
		Expect(explained.Status).To(Equal(1), explained.Stdout+explained.Stderr)
		Expect(explained.Stdout).To(And(
			ContainSubstring("Owner: service account default/bot of "+home.Path+", in scope in the workspace"),
			ContainSubstring(`it was impersonated, so only permissions of "`+home.GlobalName("bot")+`" count`),
			ContainSubstring("  name: "+home.GlobalName("bot")+"\n"),
			Not(ContainSubstring("unknown")),
		))
	}, SpecTimeout(specTimeout))

	It("has an owner without permissions in other workspaces, and without those of the local name", func(ctx SpecContext) {
		home, third := newPlace(ctx), newPlace(ctx)
		home.ServiceAccount(ctx, "bot")
		global := authenticationv1.UserInfo{Username: home.GlobalName("bot"), Groups: []string{"system:authenticated"}}
		third.User(ctx, global.Username) // the tool must not get these permissions by impersonation at home
		suite.CreateWorkspace(ctx, home.gitOps(ctx), "child", home.heldType(ctx))
		owner := home.recordedOwner(ctx, "child")
		child, err := kcptest.GetWorkspace(ctx, home.Admin(), "child")
		Expect(err).NotTo(HaveOccurred())

		before := authenticationv1.UserInfo{
			Username: "system:serviceaccount:default:bot",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
			Extra:    scopedTo(home.Cluster),
		}
		Expect(owner).To(Equal(authenticationv1.UserInfo{
			Username: global.Username, Groups: before.Groups,
			Extra: map[string]authenticationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:" + home.Cluster + ",cluster:" + child.Spec.Cluster}},
		}))
		Expect(permissionsOf(ctx, third.Cluster, global)).NotTo(BeEmpty())
		Expect(permissionsOf(ctx, third.Cluster, before)).To(BeEmpty())
		Expect(permissionsOf(ctx, third.Cluster, owner)).To(BeEmpty())
		Expect(permissionsOf(ctx, home.Cluster, before)).NotTo(BeEmpty())
		Expect(permissionsOf(ctx, home.Cluster, owner)).To(BeEmpty())
		Expect(permissionsOf(ctx, "root", owner)).To(ConsistOf(permissionsOf(ctx, "root", before)))
	}, SpecTimeout(specTimeout))

	// A cluster-admin of a workspace may impersonate every name there, with any extra fields. kcp adds the scope of its workspace.
	DescribeTable("is not rewritten if a cluster-admin of the parent forges the home of another tenant's service account",
		func(ctx SpecContext, forged func(victim, own string) string) {
			victim, own := newPlace(ctx), newPlace(ctx)
			victim.ServiceAccount(ctx, "bot")
			third := newPlace(ctx)
			third.User(ctx, victim.GlobalName("bot"))
			mallory := own.clusterAdmin(ctx, "mallory")
			mallory.Impersonate = rest.ImpersonationConfig{
				UserName: "system:serviceaccount:default:bot",
				Extra:    map[string][]string{"authentication.kcp.io/scopes": {forged(victim.Cluster, own.Cluster)}},
			}
			own.ServiceAccount(ctx, "bot")
			own.everybodyMay(ctx)
			ws := suite.CreateWorkspace(ctx, mallory, "child", own.heldType(ctx))
			owner := own.recordedOwner(ctx, "child")

			Expect(owner.Username).To(Equal("system:serviceaccount:default:bot"))
			for _, cluster := range []string{victim.Cluster, third.Cluster} {
				Expect(permissionsOf(ctx, cluster, owner)).To(BeEmpty())
			}
			Eventually(ctx, own.Reasons).WithArguments(ws).Should(ContainElement("Warning OwnerNotRewritten"))
		},
		Entry("with the cluster of the other tenant", func(victim, _ string) string { return "cluster:" + victim }, SpecTimeout(specTimeout)),
		Entry("with the clusters of both", func(victim, own string) string { return "cluster:" + victim + ",cluster:" + own }, SpecTimeout(specTimeout)),
	)
})

// gitOps returns a tool of this workspace that impersonates its service account bot. It may do nothing else.
func (p place) gitOps(ctx context.Context) *rest.Config {
	GinkgoHelper()
	tool, err := kcptest.ServiceAccount(ctx, p.Admin(), "default", "gitops")
	Expect(err).NotTo(HaveOccurred())
	impersonate := kcptest.Rule("", []string{"serviceaccounts"}, []string{"impersonate"})
	impersonate.ResourceNames = []string{"bot"}
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.ServiceAccountSubject("default", "gitops"), kcptest.AccessRule(), impersonate)).To(Succeed())
	tool.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:bot"}
	return tool
}

// clusterAdmin returns a user with all permissions here.
func (p place) clusterAdmin(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	everything := kcptest.Rule("*", []string{"*"}, []string{"*"})
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User(name), kcptest.AccessRule(), everything)).To(Succeed())
	return p.User(ctx, name)
}
