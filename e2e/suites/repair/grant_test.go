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
)

// A user lacks "bind" on a default APIExport. From v0.31 on, kcp does not try again when the permission is granted.
var _ = Describe("a workspace whose owner lacks a permission", func() {
	const carol = `{"username":"carol","groups":["system:authenticated"]}`
	const bot = `{"username":"system:serviceaccount:default:bot","groups":["system:serviceaccounts","system:authenticated"],` +
		`"extra":{"authentication.kcp.io/cluster-name":["%s"]}}`
	var p place
	var child *tenancyv1alpha1.Workspace
	// setUp creates a stuck workspace "child" of an owner.
	setUp := func(ctx context.Context, owner string) {
		// An administrator creates it in the name of its owner: kcp v0.33 denies its creation for carol (kcp-dev/kcp#4311).
		_, err := kcptest.CreateWorkspace(ctx, kcp.ShardAdmin(p.path), "child", p.binding(ctx),
			kcptest.WithAnnotation(kcptest.OwnerAnnotation, owner))
		Expect(err).NotTo(HaveOccurred())
		child = p.waitInitializing(ctx, "child")
		Eventually(ctx, func() (string, error) {
			return kcp.InitializationError(ctx, child.Spec.Cluster)
		}).Should(Or(ContainSubstring("no permission to bind"), ContainSubstring("forbidden")))
	}
	grant := func(ctx context.Context, username string) {
		Expect(kcptest.Grant(ctx, p.admin(), kcptest.User(username), kcptest.AccessRule(), kcptest.BindRule("core.example.io"))).To(Succeed())
	}
	describe := func(ctx context.Context) string { return kcptest.Describe(ctx, p.admin(), "child") }

	BeforeEach(func(ctx SpecContext) { p = newPlace(ctx) }, NodeTimeout(specTimeout))

	It("is reported before it counts as stuck, and becomes Ready once the permission is granted", func(ctx SpecContext) {
		serveSlowly(ctx)
		setUp(ctx, carol)
		Eventually(ctx, describe).Should(ContainSubstring("BindPermissionMissing"))

		grant(ctx, "carol")
		child = waitReady(ctx, p.admin(), "child")
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		if lc.Spec.CreatedBy != nil {
			// kcp v0.30 may retry before warrantgate does.
			Eventually(ctx, describe).Should(ContainSubstring("InitializationRetriggered"))
		}
		// The count of repairs includes workspaces that other specs left behind.
		Expect(describe(ctx)).NotTo(ContainSubstring("OwnerRewritten"), "the owner was not foreign")
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.OwnerAnnotation, ContainSubstring(`"carol"`)))
	}, SpecTimeout(specTimeout))

	It("is reported before it counts as stuck also if the owner is foreign, and before the owner is rewritten", func(ctx SpecContext) {
		w := serveSlowly(ctx)
		setUp(ctx, fmt.Sprintf(bot, p.cluster))
		Eventually(ctx, describe).Should(ContainSubstring("BindPermissionMissing"))
		Expect(adminsOf(ctx, child)).To(ConsistOf("system:serviceaccount:default:bot"))

		grant(ctx, p.globalName())
		Expect(w.Stop()).To(Succeed())
		serve(ctx, "Enforce")
		waitReady(ctx, p.admin(), "child")
		Expect(describe(ctx)).To(ContainSubstring("OwnerRewritten"))
		expectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("becomes Ready by the command repair after the permission is granted, and not before", func(ctx SpecContext) {
		setUp(ctx, carol)
		before := atRest(ctx, p, child)
		out, notes, status := repair(ctx, "--under="+p.path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(HaveField("Outcome", "fine")))
		Expect(versions(ctx, p, child)).To(Equal(before))

		grant(ctx, "carol")
		out, notes, status = repair(ctx, "--under="+p.path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		if child = waitReady(ctx, p.admin(), "child"); len(lines(out)) > 0 { // kcp v0.30 may retry before warrantgate does
			Expect(lines(out)).To(HaveExactElements(HaveField("Outcome", "retriggered")))
		}
	}, SpecTimeout(specTimeout))
})

// binding creates a WorkspaceType whose workspaces bind an APIExport of this workspace.
func (p place) binding(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	admin, err := kcptest.NewClient(p.admin())
	Expect(err).NotTo(HaveOccurred())
	export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "core.example.io"}}
	Expect(admin.Create(ctx, export)).To(Succeed())
	return p.workspaceType(ctx, &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "binding"},
		Spec: tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{
			{Path: p.path, Export: "core.example.io"},
		}},
	})
}
