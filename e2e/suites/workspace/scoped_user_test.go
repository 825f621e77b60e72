//go:build e2e

package workspace_test

import (
	"context"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// An administrator creates a workspace for a user by impersonation, as support staff and portals do. kcp limits the impersonated user to
// that one workspace, and so does warrantgate.
var _ = Describe("The workspace of a user that an administrator impersonated", func() {
	It("has an owner without more permissions elsewhere than the administrator had as that user", func(ctx SpecContext) {
		parent, third := newPlace(ctx), newPlace(ctx)
		asAlice := parent.Impersonated(ctx, "alice")
		third.User(ctx, "alice") // the administrator must get no access there by impersonating alice in parent
		suite.CreateWorkspace(ctx, asAlice, "child", parent.heldType(ctx))
		owner := parent.recordedOwner(ctx, "child")

		before := authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}, Extra: scopedTo(parent.Cluster)}
		alice := authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
		Expect(permissionsOf(ctx, third.Cluster, alice)).NotTo(BeEmpty(), "alice herself has permissions there")
		Expect(permissionsOf(ctx, third.Cluster, before)).To(BeEmpty())
		Expect(permissionsOf(ctx, third.Cluster, owner)).To(BeEmpty())
		Expect(permissionsOf(ctx, parent.Cluster, owner)).To(ConsistOf(permissionsOf(ctx, parent.Cluster, before)))
		Expect(permissionsOf(ctx, "root", owner)).To(ConsistOf(permissionsOf(ctx, "root", before)))
		child, err := kcptest.GetWorkspace(ctx, parent.Admin(), "child")
		Expect(err).NotTo(HaveOccurred())
		before.Extra = scopedTo(parent.Cluster + ",cluster:" + child.Spec.Cluster)
		Expect(owner).To(Equal(before), "it has no warrant")
	}, SpecTimeout(specTimeout))

	// kcp documents that a grant to the group of a workspace lets that workspace bind an APIExport of another one.
	It("has an API that only the group of the parent workspace may bind", func(ctx SpecContext) {
		provider, parent := newPlace(ctx), newPlace(ctx)
		provider.exportWidgets(ctx)
		asAlice := parent.Impersonated(ctx, "alice")
		// In the name of alice, because kcp v0.33 denies her that workspace (kcp-dev/kcp#4311).
		parent.createAs(ctx, authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}, Extra: scopedTo(parent.Cluster)},
			"refused", provider.bindingTypeIn(ctx, parent))
		parent.expectStuck(ctx, "refused", "no permission to bind to export "+provider.Path+":"+exportName)
		explained := suite.Warrantgate(ctx, "explain", "workspace", parent.Path+":refused", "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")
		Expect(explained.Status).To(Equal(1), explained.Stdout+explained.Stderr)
		Expect(explained.Stdout).To(ContainSubstring("  kind: Group\n  name: system:cluster:" + parent.Cluster + "\n"))

		ofParent := kcptest.Group("system:cluster:" + parent.Cluster)
		Expect(kcptest.Grant(ctx, provider.Admin(), ofParent, kcptest.AccessRule(), kcptest.BindRule(exportName))).To(Succeed())
		suite.CreateWorkspace(ctx, asAlice, "child", provider.bindingTypeIn(ctx, parent))
		child := parent.WaitReady(ctx, "child")
		bindings, err := listBindings(ctx, kcp.User("root", "alice"), child.Spec.Cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(exportsOf(bindings)).To(ContainElement(exportName))
	}, SpecTimeout(specTimeout))

	// A cluster-admin of a workspace may impersonate every name there, with any extra fields. kcp adds the scope of its workspace.
	It("has an owner without permissions of the user elsewhere if a cluster-admin of the parent forges the scopes", func(ctx SpecContext) {
		victim, own, third := newPlace(ctx), newPlace(ctx), newPlace(ctx)
		victim.exportWidgets(ctx)
		victim.User(ctx, "alice")
		third.User(ctx, "alice")
		Expect(kcptest.Grant(ctx, victim.Admin(), kcptest.Group("system:cluster:"+victim.Cluster), kcptest.AccessRule(), kcptest.BindRule(exportName))).To(Succeed())
		ofType, held := victim.bindingTypeIn(ctx, own), own.heldType(ctx)
		mallory := own.clusterAdmin(ctx, "mallory")
		own.User(ctx, "alice")
		own.everybodyMay(ctx)
		forge := func(scope string) {
			mallory.Impersonate = rest.ImpersonationConfig{UserName: "alice", Extra: map[string][]string{"authentication.kcp.io/scopes": {scope}}}
		}

		By("a scope that allows both workspaces")
		forge("cluster:" + victim.Cluster + ",cluster:" + own.Cluster)
		suite.CreateWorkspace(ctx, mallory, "held", held)
		owner := own.recordedOwner(ctx, "held")
		for _, cluster := range []string{victim.Cluster, third.Cluster} {
			Expect(permissionsOf(ctx, cluster, owner)).To(BeEmpty())
		}
		own.expectUnbindable(ctx, mallory, "binding", ofType, victim)

		By("a scope that excludes the own workspace, which kcp denies")
		forge("cluster:" + victim.Cluster)
		_, err := kcptest.TryCreateWorkspace(ctx, mallory, "foreign", held)
		Expect(err).To(beNotAllowed)
	}, SpecTimeout(specTimeout))
})

// bindingTypeIn creates a WorkspaceType in another workspace, whose workspaces bind the widgets of this one.
func (p place) bindingTypeIn(ctx context.Context, in place) kcptest.WorkspaceOption {
	GinkgoHelper()
	return in.WorkspaceType(ctx, "binding-"+rand.String(6), tenancyv1alpha1.WorkspaceTypeSpec{
		DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: p.Path, Export: exportName}},
	})
}

// everybodyMay lets all authenticated users create workspaces here: an identity with forged scopes is anonymous.
func (p place) everybodyMay(ctx context.Context) {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.Group("system:authenticated"), kcptest.CreatorRules()...)).To(Succeed())
}

// scopedTo is the scope that kcp adds to a user that is valid in one cluster only.
func scopedTo(cluster string) map[string]authenticationv1.ExtraValue {
	return map[string]authenticationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:" + cluster}}
}
