//go:build e2e

package repair_test

import (
	"context"
	"fmt"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A user lacks "bind" on a default APIExport. From v0.31 on, kcp does not try again when the permission is granted.
var _ = Describe("a workspace whose owner lacks a permission, while serve runs", Ordered, ContinueOnFailure, func() {
	var w *kcptest.Warrantgate
	var local, foreign lacking

	BeforeAll(func(ctx SpecContext) {
		w = serveSlowly(ctx) // both are checked for the first time after ten seconds
		local, foreign = newLacking(ctx, ofCarol), newLacking(ctx, ofBot)
	}, NodeTimeout(specTimeout))

	It("is reported before it counts as stuck, and becomes Ready once the permission is granted", func(ctx SpecContext) {
		Eventually(ctx, local.describe).Should(ContainSubstring("BindPermissionMissing"))

		local.grant(ctx, "carol")
		child := local.WaitReady(ctx, "child")
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		if lc.Spec.CreatedBy != nil {
			// kcp v0.30 may retry before warrantgate does.
			Eventually(ctx, local.describe).Should(ContainSubstring("InitializationRetriggered"))
		}
		// The count of repairs includes workspaces that other specs left behind.
		Expect(local.describe(ctx)).NotTo(ContainSubstring("OwnerRewritten"), "the owner was not foreign")
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.OwnerAnnotation, ContainSubstring(`"carol"`)))
	}, SpecTimeout(specTimeout))

	It("is reported before it counts as stuck also if the owner is foreign, and before the owner is rewritten", func(ctx SpecContext) {
		Eventually(ctx, foreign.describe).Should(ContainSubstring("BindPermissionMissing"))
		Expect(adminsOf(ctx, foreign.child)).To(ConsistOf("system:serviceaccount:default:bot"))

		foreign.grant(ctx, foreign.GlobalName("bot"))
		Expect(w.Stop()).To(Succeed())
		serve(ctx, "Enforce")
		foreign.WaitReady(ctx, "child")
		Eventually(ctx, foreign.describe).Should(ContainSubstring("OwnerRewritten"))
		suite.ExpectAtHome(ctx, foreign.bot, foreign.child.Spec.Cluster)
	}, SpecTimeout(specTimeout))
})

// lacking is a place with a stuck workspace "child", whose owner lacks a permission.
type lacking struct {
	place
	child *tenancyv1alpha1.Workspace
}

// ofCarol and ofBot are owners who are in scope and foreign.
func ofCarol(place) string { return `{"username":"carol","groups":["system:authenticated"]}` }

func ofBot(p place) string {
	return fmt.Sprintf(`{"username":"system:serviceaccount:default:bot","groups":["system:serviceaccounts","system:authenticated"],`+
		`"extra":{"authentication.kcp.io/cluster-name":[%q]}}`, p.Cluster)
}

func newLacking(ctx context.Context, owner func(place) string) lacking {
	GinkgoHelper()
	p := newPlace(ctx)
	// An administrator creates it in the name of its owner: kcp v0.33 denies its creation for carol (kcp-dev/kcp#4311).
	suite.CreateWorkspace(ctx, kcp.ShardAdmin(p.Path), "child", p.binding(ctx),
		kcptest.WithAnnotation(kcptest.OwnerAnnotation, owner(p)))
	return lacking{place: p, child: p.waitDenied(ctx, "child")}
}

func (l lacking) grant(ctx context.Context, username string) {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, l.Admin(), kcptest.User(username), kcptest.AccessRule(), kcptest.BindRule("core.example.io"))).To(Succeed())
}

func (l lacking) describe(ctx context.Context) string {
	return kcptest.Describe(ctx, l.Admin(), "child")
}

// binding creates a WorkspaceType whose workspaces bind an APIExport of this workspace.
func (p place) binding(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	admin := suite.KCPClient(p.Admin())
	export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "core.example.io"}}
	Expect(admin.Create(ctx, export)).To(Succeed())
	return p.WorkspaceType(ctx, "binding", tenancyv1alpha1.WorkspaceTypeSpec{
		DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: p.Path, Export: "core.example.io"}},
	})
}
