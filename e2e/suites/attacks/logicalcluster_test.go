//go:build e2e

package attacks_test

import (
	"encoding/json"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// The creator of a workspace may patch its LogicalCluster while it is Initializing, and a WorkspaceType of the creator keeps it so. Before
// v0.32, kcp acts as the owner in an annotation there; later, as spec.createdBy, which is immutable. No webhook of root is called for a
// LogicalCluster, so warrantgate can only report the change.
var _ = Describe("the owner in a LogicalCluster, against the creator of its WorkspaceType", func() {
	DescribeTable("changes only before kcp v0.32, and explain reports it", func(ctx SpecContext, spec func(attacker owner) tenancyv1alpha1.WorkspaceTypeSpec) {
		w := kcp(ctx)
		attacker := w.newOwner(ctx, "mallory")
		trap, err := kcptest.CreateWorkspaceType(ctx, attacker.config, attacker.path, &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: "trap"}, Spec: spec(attacker),
		})
		Expect(err).NotTo(HaveOccurred())
		suite.CreateWorkspace(ctx, attacker.config, "child", trap)
		cluster := attacker.placed(ctx, "child")
		recorded := recordedOwner(ctx, w, cluster)

		By("patching the annotation and spec.createdBy as the creator")
		boss := map[string]any{"username": "root-boss", "groups": []string{"system:masters"}}
		text, err := json.Marshal(boss)
		Expect(err).NotTo(HaveOccurred())
		inside := suite.KCPClient(w.kcp.User(cluster, attacker.name, tenantsGroup))
		patch := func(change map[string]any) error {
			body, err := json.Marshal(change)
			Expect(err).NotTo(HaveOccurred())
			lc := &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: corev1alpha1.LogicalClusterName}}
			return inside.Patch(ctx, lc, client.RawPatch(types.MergePatchType, body))
		}
		Eventually(ctx, patch).WithArguments(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			kcptest.OwnerAnnotation: string(text),
		}}}).Should(Succeed())
		if suite.ByPolicy(w.kcp) { // spec.createdBy is immutable since v0.32, too
			Expect(patch(map[string]any{"spec": map[string]any{"createdBy": boss}})).To(Satisfy(apierrors.IsForbidden))
		}

		By("explaining the workspace")
		explained := suite.Warrantgate(ctx, "explain", "workspace", attacker.path+":child", "--kubeconfig="+w.kcp.AdminKubeconfig(), "--context=root")
		if suite.ByPolicy(w.kcp) {
			Expect(recordedOwner(ctx, w, cluster)).To(Equal(recorded))
			Expect(explained.Stdout).NotTo(ContainSubstring("OwnerDiffers"))
			return
		}
		Expect(recordedOwner(ctx, w, cluster)).To(Equal(string(text)))
		Expect(explained.Stdout).To(And(ContainSubstring("OwnerDiffers"),
			ContainSubstring(`user "`+attacker.name+`" as the owner on the Workspace, but acts as user "root-boss"`)))
	},
		Entry("with an initializer that does not finish", func(owner) tenancyv1alpha1.WorkspaceTypeSpec {
			return tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true}
		}, SpecTimeout(startTimeout)),
		Entry("with an APIExport that does not exist", func(attacker owner) tenancyv1alpha1.WorkspaceTypeSpec {
			return tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: attacker.path, Export: "missing"}}}
		}, SpecTimeout(startTimeout)),
	)
})
