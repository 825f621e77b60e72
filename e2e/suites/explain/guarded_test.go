//go:build e2e

package explain_test

import (
	"bytes"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

var _ = Describe("explain workspace, where warrantgate runs", Ordered, ContinueOnFailure, func() {
	// group is a group that only warrantgate's user is in.
	const group = "warrantgate-events"
	var w *kcptest.Warrantgate

	BeforeAll(func(ctx SpecContext) {
		inGroup, err := kcp.KubeconfigFile("in-group", kcp.User("root", kcptest.WarrantgateUser, group))
		Expect(err).NotTo(HaveOccurred())
		w = guard(ctx, inGroup)
	}, NodeTimeout(specTimeout))

	It("prints the missing permissions of an owner, and the workspace becomes Ready once they are granted", func(ctx SpecContext) {
		home, elsewhere := newPlace(ctx), newPlace(ctx)
		local, remote := home.export(ctx, "widgets"), elsewhere.export(ctx, "gadgets")
		home.WorkspaceType(ctx, "base", tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{local}})
		ofType := home.WorkspaceType(ctx, "team", tenancyv1alpha1.WorkspaceTypeSpec{
			Extend:             tenancyv1alpha1.WorkspaceTypeExtension{With: []tenancyv1alpha1.WorkspaceTypeReference{{Name: "base", Path: home.Path}}},
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{remote},
		})
		home.ServiceAccount(ctx, "bot")
		home.createFor(ctx, home.botsOwner(), ofType)
		home.waitDenied(ctx, "no permission to bind to export")

		text, found := explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(1), text.out)
		Expect(found.reasons()).To(ConsistOf("BindPermissionMissing", "BindPermissionMissing"))
		Expect(found.Workspace.CreatedBy).To(Equal(home.Cluster + ":default:bot"))
		if suite.ByPolicy(kcp) {
			Expect(found.Workspace.RewrittenBy).To(Equal("policy"))
			Expect(text.out).To(MatchRegexp(`Rewritten by: +the admission policy warrantgate-owner-rewrite`))
		} else {
			Expect(found.Workspace.RewrittenBy).To(Equal("warrantgate"))
			Expect(text.out).To(MatchRegexp(`Rewritten by: +warrantgate: the webhook`))
		}
		Expect(found.answers()).To(Equal(map[string]string{
			home.Path + ":widgets.example.io": "no", elsewhere.Path + ":gadgets.example.io": "no",
		}))
		for _, where := range []place{home, elsewhere} {
			Expect(text.out).To(ContainSubstring("service account default/bot of %s lacks \"bind\" on the APIExport", home.Path))
			Expect(text.out).To(ContainSubstring("apply the objects below in %s; kcp", where.Path))
		}

		By("granting the printed permissions")
		for _, f := range found.Findings {
			c := suite.KCPClient(kcp.Admin(f.Grant.Workspace))
			for _, raw := range f.Grant.Objects {
				Expect(text.out).To(ContainSubstring("name: " + asObject(raw).GetName()))
				Expect(c.Create(ctx, asObject(raw))).To(Succeed())
			}
		}
		Eventually(ctx, func() []string { // kcp v0.30 retries
			return explainAsJSON(ctx, home.Path+":child").reasons()
		}).Should(Or(ConsistOf("InitializerPending"), BeEmpty()))

		By("touching the type")
		home.touch(ctx, "team")
		home.WaitReady(ctx, "child")
		text, found = explainAsAdmin(ctx, home.Path+":child")
		Expect(text.code).To(Equal(0), text.out)
		Expect(found.Findings).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("reports that a workspace waits for a warrantgate that is down", func(ctx SpecContext) {
		home := newPlace(ctx)
		Expect(w.Stop()).To(Succeed())
		home.User(ctx, "alice") // who may create workspaces
		asAlice := home.Admin() // no admission policy rewrites a scoped owner
		asAlice.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
		suite.CreateWorkspace(ctx, asAlice, "child")
		Eventually(ctx, func() []string { return explainAsJSON(ctx, home.Path+":child").reasons() }).Should(ConsistOf("NotReady"))

		text := explain(ctx, kcp.AdminKubeconfig(), home.Path+":child", "--context=root")
		Expect(text.code).To(Equal(1), text.out)
		Expect(text.out).To(SatisfyAll(
			MatchRegexp(`Logical cluster: +none yet`), ContainSubstring("kcp has not found a shard for the workspace yet"),
			ContainSubstring("check whether warrantgate runs"),
		))
		Expect(w.Start(ctx)).To(Succeed())
		home.WaitReady(ctx, "child")
	}, SpecTimeout(specTimeout))

	It("reports that required groups may prevent Events, and a group of warrantgate's user allows them", func(ctx SpecContext) {
		with, without := newPlace(ctx), newPlace(ctx)
		failed := func() (float64, error) {
			return w.Metric(ctx, "warrantgate_events_total", map[string]string{"outcome": "failed"})
		}
		before, err := failed()
		Expect(err).NotTo(HaveOccurred())
		for at, groups := range map[place]string{with: "team-a;" + group, without: "team-a"} {
			bot := at.ServiceAccount(ctx, "bot")
			at.requireGroups(ctx, groups)
			suite.CreateWorkspace(ctx, bot, "child")
			at.WaitReady(ctx, "child")
			text, _ := explainAsAdmin(ctx, at.Path+":child")
			Expect(text.code).To(Equal(0), text.out)
			Expect(text.out).To(ContainSubstring(`the workspace requires the groups %q, so there may be no Events of warrantgate about it`, groups))
		}
		Eventually(ctx, func() string { return kcptest.Describe(ctx, with.Admin(), "child") }).Should(ContainSubstring("event Normal OwnerRewritten"))
		Eventually(ctx, failed).Should(BeNumerically(">", before))
		Expect(kcptest.Describe(ctx, without.Admin(), "child")).NotTo(ContainSubstring("event Normal OwnerRewritten"))
	}, SpecTimeout(specTimeout))
})

// guard installs warrantgate, as the user of a kubeconfig, until the end of the container or spec.
func guard(ctx SpecContext, kubeconfig string) *kcptest.Warrantgate {
	GinkgoHelper()
	w, err := kcptest.StartWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Kubeconfig: kubeconfig})
	Expect(err).NotTo(HaveOccurred())
	suite.UninstallAtEnd(w, specTimeout)
	return w
}

// asObject reads an object that was printed.
func asObject(raw []byte) client.Object {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw)).Decode(object)).To(Succeed())
	return object
}
