//go:build e2e

package explain_test

import (
	"slices"
	"strings"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

var _ = Describe("explain workspace", func() {
	It("reports no problem of a Ready workspace", func(ctx SpecContext) {
		home := newPlace(ctx)
		suite.CreateWorkspace(ctx, home.User(ctx, "alice"), "fine")
		home.WaitReady(ctx, "fine")

		text, found := explainAsAdmin(ctx, home.Path+":fine")
		Expect(text.code).To(Equal(0), text.out)
		Expect(text.out).To(SatisfyAll(
			MatchRegexp(`Phase: +Ready`), MatchRegexp(`Type: +root:universal`), MatchRegexp(`Created by: +alice`),
			ContainSubstring(`Owner: user "alice", in scope in the workspace`),
			MatchRegexp(`root:tenancy\.kcp\.io +yes +bound`), ContainSubstring("Nothing is wrong with it."),
		))
		Expect(found.Findings).To(BeEmpty())
		Expect(found.waiting()).To(BeEmpty())
		Expect(found.answers()).To(Equal(map[string]string{"root:tenancy.kcp.io": "yes", "root:topology.kcp.io": "yes"}))
	}, SpecTimeout(specTimeout))

	It("reports a service account as foreign in the workspace that it created", func(ctx SpecContext) {
		home := newPlace(ctx)
		widgets := home.export(ctx, "widgets")
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{widgets}})
		bot := home.ServiceAccount(ctx, "bot")
		// A permission for the name that is valid at home only: the repaired owner has the permission by its warrant.
		Expect(kcptest.Grant(ctx, home.Admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.BindRule(widgets.Export))).To(Succeed())
		suite.CreateWorkspace(ctx, bot, "child", ofType)
		home.waitDenied(ctx, `User "system:serviceaccount:default:bot" cannot create`)

		text, found := explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(1), text.out)
		Expect(text.out).To(SatisfyAll(
			ContainSubstring("Owner: service account default/bot of "+home.Path+", foreign in the workspace"),
			ContainSubstring("in its home workspace "+home.Path+" kcp treats it as\n    system:serviceaccount:default:bot, in system:serviceaccounts"),
			MatchRegexp(`system:apibindings +waiting`),
			ContainSubstring("warrantgate repair --under="+home.Path+":child"),
			ContainSubstring("` as an administrator of kcp; with the gates installed"),
		))
		Expect(found.reasons()).To(ConsistOf("OwnerForeign"))
		Expect(found.waiting()).To(ConsistOf("system:apibindings"))
		Expect(found.Owner.InScope).To(BeFalse())
		Expect(found.answers()).To(Equal(map[string]string{home.Path + ":widgets.example.io": "yes"}))
	}, SpecTimeout(specTimeout))

	It("names an APIExport that does not exist, also if its workspace does not exist", func(ctx SpecContext) {
		home, lost := newPlace(ctx), newPlace(ctx)
		gone, goneToo := home.export(ctx, "widgets"), lost.export(ctx, "gadgets")
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{gone, goneToo},
		})
		export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: gone.Export}}
		Expect(suite.KCPClient(home.Admin()).Delete(ctx, export)).To(Succeed())
		home.createFor(ctx, alicesOwner, ofType)
		home.waitDenied(ctx, "unable to find at least 1 APIExport")
		root := suite.KCPClient(kcp.Admin("root"))
		lostWorkspace := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: strings.TrimPrefix(lost.Path, "root:")}}
		Expect(root.Delete(ctx, lostWorkspace)).To(Succeed())
		Eventually(ctx, func() error {
			return root.Get(ctx, client.ObjectKeyFromObject(lostWorkspace), &tenancyv1alpha1.Workspace{})
		}).Should(MatchError(apierrors.IsNotFound, "is gone"))

		text, found := explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(1), text.out)
		Expect(found.reasons()).To(ConsistOf("APIExportMissing", "APIExportMissing"), text.out)
		Expect(text.out).To(ContainSubstring(`there is no APIExport "widgets.example.io" in %s, which the type %s:team binds`, home.Path, home.Path))
		Expect(text.out).To(ContainSubstring(`there is no APIExport "gadgets.example.io" in %s, which the type %s:team binds`, lost.Path, home.Path))
	}, SpecTimeout(specTimeout))

	It("reports that kcp continues once a missing APIExport exists, and it does", func(ctx SpecContext) {
		home := newPlace(ctx)
		widgets := home.export(ctx, "widgets")
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{widgets}})
		alice := home.User(ctx, "alice")
		Expect(kcptest.Grant(ctx, home.Admin(), kcptest.User("alice"), kcptest.BindRule(widgets.Export))).To(Succeed())
		c := suite.KCPClient(home.Admin())
		export := &apisv1alpha2.APIExport{}
		Expect(c.Get(ctx, client.ObjectKey{Name: widgets.Export}, export)).To(Succeed())
		Expect(c.Delete(ctx, export)).To(Succeed())
		suite.CreateWorkspace(ctx, alice, "child", ofType)
		home.waitDenied(ctx, "unable to find at least 1 APIExport")
		Expect(explainAsJSON(ctx, home.Path+":child").Findings[0].Next).To(HaveSuffix("kcp continues by itself"))

		again := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: export.Name}, Spec: apisv1alpha2.APIExportSpec{Resources: export.Spec.Resources}}
		Expect(c.Create(ctx, again)).To(Succeed())
		home.WaitReady(ctx, "child")
	}, SpecTimeout(specTimeout))

	It("prints only the missing permissions for kubectl apply, and follows the workspace until it is Ready", func(ctx SpecContext) {
		home := newPlace(ctx)
		widgets := home.export(ctx, "widgets")
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{widgets}})
		home.createFor(ctx, alicesOwner, ofType)
		home.waitDenied(ctx, "no permission to bind to export")
		followed := make(chan explanation, 1)
		go func() {
			defer GinkgoRecover()
			followed <- explain(ctx, kcp.AdminKubeconfig(), home.Path+":child", "--context=root", "--watch")
		}()

		missing := explain(ctx, kcp.AdminKubeconfig(), home.Path+":child", "--context=root", "-o=objects")
		Expect(missing.code).To(Equal(1))
		Expect(missing.errText).To(Equal("Apply the objects of workspace " + home.Path + " with: kubectl --kubeconfig=" + kcp.AdminKubeconfig() +
			" --context=root --server=" + home.Admin().Host + " apply --filename=-\n"))
		apply(ctx, home.Admin(), missing.out)
		home.touch(ctx, "team")

		text := <-followed
		Expect(text.code).To(BeZero(), text.out)
		Expect(text.out).To(MatchRegexp(`(?s)\n  BindPermissionMissing\n.*\n---\nWorkspace: .*Nothing is wrong with it\.\n$`))
		Expect(explain(ctx, kcp.AdminKubeconfig(), home.Path+":child", "--context=root", "-o=objects")).To(
			Equal(explanation{errText: "No objects to apply: nothing is wrong\n"}))
	}, SpecTimeout(specTimeout))

	It("reports an initializer of another provider without advice for the owner", func(ctx SpecContext) {
		home := newPlace(ctx)
		ofType := home.WorkspaceType(ctx, "held", tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true})
		suite.CreateWorkspace(ctx, home.User(ctx, "alice"), "child", ofType)
		held := corev1alpha1.LogicalClusterInitializer(home.Cluster + ":held")
		home.WaitWorkspace(ctx, "child", func(ws *tenancyv1alpha1.Workspace) bool {
			return slices.Equal(ws.Status.Initializers, []corev1alpha1.LogicalClusterInitializer{held})
		})

		text, found := explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(1), text.out)
		Expect(found.reasons()).To(ConsistOf("InitializerPending"))
		Expect(found.waiting()).To(ConsistOf(home.Cluster + ":held"))
		Expect(text.out).To(ContainSubstring("initializer %s:held has not finished; that is for the provider of the WorkspaceType %s:held to do\n",
			home.Cluster, home.Path))
	}, SpecTimeout(specTimeout))

	It("reports the administrator's warrant of an owner that is in scope", func(ctx SpecContext) {
		home := newPlace(ctx)
		widgets := home.export(ctx, "widgets")
		bound := tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{widgets}}
		team := home.WorkspaceType(ctx, "team", bound)
		bound.Initializer = true
		held := home.WorkspaceType(ctx, "held", bound)
		through, err := kcp.Through(ctx, kcp.Admin("root"), "tenancy.kcp.io", home.Cluster, "alice")
		Expect(err).NotTo(HaveOccurred())
		suite.CreateWorkspace(ctx, through, "child", held)
		home.WaitWorkspace(ctx, "child", func(ws *tenancyv1alpha1.Workspace) bool { return len(ws.Status.Initializers) == 1 })

		text, found := explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(1), text.out)
		Expect(found.reasons()).To(ConsistOf("PrivilegedOwner", "InitializerPending"), text.out)
		Expect(text.out).To(And(ContainSubstring(`the owner, user "alice", has a warrant that must not be stored (system:kcp:admin)`),
			ContainSubstring("warrantgate repair --under="+home.Path+":child")))

		By("explaining one that is Ready: from v0.32 on, kcp records the whole owner")
		suite.CreateWorkspace(ctx, through, "done", team)
		done := home.WaitReady(ctx, "done")
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(done.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		if lc.Spec.CreatedBy == nil {
			return
		}
		text, found = explainAsAdmin(ctx, home.Path+":done")
		Expect(text.code).To(Equal(1), text.out)
		Expect(found.reasons()).To(ConsistOf("PrivilegedOwner"), text.out)
		Expect(text.out).To(ContainSubstring("the warrant of a Ready workspace stays recorded"))
	}, SpecTimeout(specTimeout))

	It("reports a user as foreign if its identity is scoped to another workspace", func(ctx SpecContext) {
		home := newPlace(ctx)
		home.User(ctx, "alice")
		asAlice := home.Admin() // kcp lets an administrator be alice in this workspace only
		asAlice.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
		suite.CreateWorkspace(ctx, asAlice, "child")
		home.waitDenied(ctx, `User "alice" cannot create`)

		text, found := explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(1), text.out)
		Expect(found.reasons()).To(ConsistOf("OwnerForeign"))
		Expect(text.out).To(ContainSubstring(`Owner: user "alice", foreign in the workspace`))
		Expect(text.out).To(ContainSubstring("in its home workspace %s kcp treats it as\n    alice", home.Path))
	}, SpecTimeout(specTimeout))

	It("reports a service account that was impersonated in its own workspace, and the global name to grant permissions to", func(ctx SpecContext) {
		home := newPlace(ctx)
		widgets := home.export(ctx, "widgets")
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{widgets}})
		home.ServiceAccount(ctx, "bot")
		Expect(kcptest.Grant(ctx, home.Admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.BindRule(widgets.Export))).To(Succeed())
		asBot := home.Admin()
		asBot.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:bot"}
		suite.CreateWorkspace(ctx, asBot, "child", ofType)
		home.waitDenied(ctx, `User "system:serviceaccount:default:bot" cannot create`)

		text, found := explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(1), text.out)
		Expect(found.reasons()).To(ConsistOf("OwnerForeign", "BindPermissionMissing"))
		global := "system:kcp:serviceaccount:" + home.Cluster + ":default:bot"
		Expect(text.out).To(And(
			ContainSubstring("Owner: service account default/bot of "+home.Path+", foreign in the workspace"),
			ContainSubstring("in its home workspace "+home.Path+" kcp treats it as\n    system:serviceaccount:default:bot, in system:serviceaccounts"),
			ContainSubstring(`it was impersonated, so only permissions of "`+global+`" count`),
			ContainSubstring("  name: "+global+"\n"), Not(ContainSubstring("unknown")),
		))
	}, SpecTimeout(specTimeout))

	It("gives no verdict without a permission to read, and names the missing permission", func(ctx SpecContext) {
		home := newPlace(ctx)
		widgets := home.export(ctx, "widgets")
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{widgets}})
		alice, err := kcp.KubeconfigFile("alice-"+home.Cluster, home.User(ctx, "alice"))
		Expect(err).NotTo(HaveOccurred())
		home.createFor(ctx, alicesOwner, ofType)
		home.waitDenied(ctx, "no permission to bind to export")

		asAlice := explain(ctx, alice, home.Path+":child")
		Expect(asAlice.code).To(Equal(2), asAlice.out)
		Expect(asAlice.out).To(SatisfyAll(
			ContainSubstring("Whether something is wrong with it could not be determined:"),
			ContainSubstring(`you lack "get" on workspacetypes.tenancy.kcp.io in %s`, home.Path),
			ContainSubstring(`kcp authenticates you as "alice"`),
		))

		By("running it as a user without permissions")
		stranger, err := kcp.KubeconfigFile("stranger", kcp.User("root", "stranger"))
		Expect(err).NotTo(HaveOccurred())
		asStranger := explain(ctx, stranger, home.Path+":child", "-o", "json")
		Expect(asStranger.code).To(Equal(2))
		Expect(asStranger.out).To(BeEmpty())
		Expect(asStranger.errText).To(SatisfyAll(
			HavePrefix("warrantgate: "), ContainSubstring(`you lack "get" on workspaces.tenancy.kcp.io in `+home.Path),
		))
	}, SpecTimeout(specTimeout))

	It("lists what a service account cannot read outside its home, and the users who can", func(ctx SpecContext) {
		home, elsewhere := newPlace(ctx), newPlace(ctx)
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true})
		suite.CreateWorkspace(ctx, home.User(ctx, "alice"), "child", ofType)
		ws := home.WaitInitializing(ctx, "child")
		// It has all permissions in both, by its global name.
		config := elsewhere.ServiceAccount(ctx, "bot")
		everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
		enter := rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}}
		global := kcptest.User("system:kcp:serviceaccount:" + elsewhere.Cluster + ":default:bot")
		Expect(kcptest.Grant(ctx, home.Admin(), global, everything, enter)).To(Succeed())
		Expect(kcptest.Grant(ctx, kcp.ShardAdmin(ws.Spec.Cluster), global, everything, enter)).To(Succeed())
		bot, err := kcp.KubeconfigFile("bot-"+elsewhere.Cluster, config)
		Expect(err).NotTo(HaveOccurred())

		for _, path := range []string{home.Path + ":child", ws.Spec.Cluster} {
			Eventually(ctx, func() string { // kcp activates permissions with a delay
				return explain(ctx, bot, path).out
			}).Should(ContainSubstring(
				`you lack "get" on workspacetypes.tenancy.kcp.io in %s, or access to that workspace, or the shard that has it is down; `+
					`kcp authenticates you as "system:serviceaccount:default:bot"; a service account cannot use `+
					`workspacetypes.tenancy.kcp.io outside its home, whatever its permissions: for that workspace, use the kubeconfig of a user with a client certificate`,
				home.Path), path)
		}
	}, SpecTimeout(specTimeout))
})
