//go:build e2e

package explain_test

import (
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
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
		create(ctx, home.alice(ctx), "child")
		ws, err := kcptest.WaitReady(ctx, home.admin(), "child")
		Expect(err).NotTo(HaveOccurred())

		By("writing it as the creator, who is cluster-admin there, and exporting the same name")
		attacker := place{path: home.path + ":child", cluster: ws.Spec.Cluster}
		inside := suite.KCPClient(kcp.User(attacker.path, "alice"))
		lc := &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: corev1alpha1.LogicalClusterName}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"kcp.io/path":"`+victim.path+`"}}}`))
		Eventually(ctx, func() error { return inside.Patch(ctx, lc, patch) }).Should(Succeed())
		attacker.export(ctx, "widgets")
		export := &apisv1alpha2.APIExport{}
		Expect(inside.Get(ctx, client.ObjectKey{Name: exported.Export}, export)).To(Succeed())
		Expect(export.Annotations).To(HaveKeyWithValue("kcp.io/path", victim.path), "kcp believes it")

		for _, path := range []string{attacker.path, attacker.cluster} {
			text, _ := explainAsAdmin(ctx, path)
			Expect(text.out).To(ContainSubstring("the annotation kcp.io/path of the LogicalCluster is %q, which is not the path of this workspace", victim.path))
			Expect(text.out).To(MatchRegexp(`(?m)^Workspace: +%s$`, path))
		}
	}, SpecTimeout(specTimeout))
})
