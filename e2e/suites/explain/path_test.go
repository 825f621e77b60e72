//go:build e2e

package explain_test

import (
	"context"
	"errors"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

var _ = Describe("explain workspace, where the administrator of a workspace has written the path of another one", func() {
	It("reports the path, and does not take it for the workspace's", func(ctx SpecContext) {
		victim, home := newPlace(ctx), newPlace(ctx)
		exported := victim.export(ctx, "widgets")
		attacker, inside := home.claiming(ctx, victim.Path)
		attacker.export(ctx, "widgets")
		export := &apisv1alpha2.APIExport{}
		Expect(inside.Get(ctx, client.ObjectKey{Name: exported.Export}, export)).To(Succeed())
		Expect(export.Annotations).To(HaveKeyWithValue("kcp.io/path", victim.Path), "kcp believes it")

		for _, path := range []string{attacker.Path, attacker.Cluster} {
			text, _ := explainAsAdmin(ctx, path)
			Expect(text.out).To(ContainSubstring("the annotation kcp.io/path of the LogicalCluster is %q, which is not the path of this workspace", victim.Path))
			Expect(text.out).To(MatchRegexp(`(?m)^Workspace: +%s$`, path))
		}
	}, SpecTimeout(specTimeout))

	// kcp then finds two APIExports of that path, and two logical clusters. kcp v0.33 denies the creation for that reason (kcp-dev/kcp#4311).
	It("says why kcp does not bind an APIExport of that one, and not that its users lack a permission", func(ctx SpecContext) {
		victim, home := newPlace(ctx), newPlace(ctx)
		ofType := victim.WorkspaceType(ctx, "widgets", tenancyv1alpha1.WorkspaceTypeSpec{
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{victim.export(ctx, "widgets")},
		})
		alice := victim.User(ctx, "alice")
		Expect(kcptest.Grant(ctx, victim.Admin(), kcptest.User("alice"), kcptest.BindRule("widgets.example.io"))).To(Succeed())
		attacker, _ := home.claiming(ctx, victim.Path)
		attacker.export(ctx, "widgets")
		Eventually(ctx, func() string { // kcp activates permissions with a delay
			return explain(ctx, kcp.AdminKubeconfig(), victim.Path+":child", "--context=root", "--creator=alice", "--type="+victim.Path+":widgets").out
		}).Should(ContainSubstring("The creator lacks no permission for it."))

		if _, err := kcptest.TryCreateWorkspace(ctx, alice, "child", ofType); err != nil {
			Expect(err).To(MatchError(ContainSubstring("no permission to bind one or more of the default API bindings")))
		} else {
			cluster := victim.placed(ctx, "child")
			Eventually(ctx, kcp.InitializationError).WithArguments(cluster).ShouldNot(BeEmpty())
			lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(cluster))
			Expect(err).NotTo(HaveOccurred())
			pending := "nothing that it needs is missing"
			if conditions.GetMessage(lc, tenancyv1alpha1.WorkspaceAPIBindingsInitialized) != "" { // kcp v0.30 writes it into its log only
				pending += "; kcp's last error: "
			}
			_, report := explainAsAdmin(ctx, victim.Path+":child")
			Expect(report.Findings).To(ContainElement(And(HaveField("Reason", "InitializerPending"), HaveField("Message", ContainSubstring(pending)))))
		}

		By("finding the workspace with that path, as the README says")
		list := &corev1alpha1.LogicalClusterList{}
		Expect(suite.KCPClient(kcp.ShardAdmin("*")).List(ctx, list)).To(Succeed())
		var of []string
		for i := range list.Items {
			if list.Items[i].Annotations["kcp.io/path"] == victim.Path {
				of = append(of, list.Items[i].Annotations["kcp.io/cluster"])
			}
		}
		Expect(of).To(ConsistOf(victim.Cluster, attacker.Cluster))
	}, SpecTimeout(specTimeout))
})

// claiming returns a workspace in this one whose creator, who is cluster-admin there, has written the path of another one, and a client of that user.
func (p place) claiming(ctx context.Context, path string) (place, client.Client) {
	GinkgoHelper()
	suite.CreateWorkspace(ctx, p.User(ctx, "alice"), "child")
	ws := p.WaitReady(ctx, "child")
	attacker := place{suite.Place{Server: kcp, Path: p.Path + ":child", Cluster: ws.Spec.Cluster}}
	inside := suite.KCPClient(kcp.User(attacker.Path, "alice"))
	lc := &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: corev1alpha1.LogicalClusterName}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"kcp.io/path":"`+path+`"}}}`))
	Eventually(ctx, func() error { return inside.Patch(ctx, lc, patch) }).Should(Succeed())
	return attacker, inside
}

// placed waits until a workspace has a logical cluster, and returns its name.
func (p place) placed(ctx context.Context, name string) string {
	GinkgoHelper()
	ws, err := kcptest.WaitWorkspace(ctx, p.Admin(), name, func(ws *tenancyv1alpha1.Workspace) error {
		if ws.Spec.Cluster == "" {
			return errors.New("it has no logical cluster")
		}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
	return ws.Spec.Cluster
}
