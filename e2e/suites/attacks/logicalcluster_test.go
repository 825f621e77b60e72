//go:build e2e

package attacks_test

import (
	"encoding/json"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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

	// kcp's own writes of a LogicalCluster pass the admission in its workspace, and may change spec.createdBy (v0.32.3).
	It("keeps a workspace of the type warranted in Initializing once the creator has changed it through admission in the workspace", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker := w.newOwner(ctx, "mallory")
		lender, _ := w.consumer(ctx)
		restricted, err := kcptest.CreateWorkspaceType(ctx, w.kcp.ShardAdmin(tenantsPath), tenantsPath, &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: "restricted"},
			Spec: tenancyv1alpha1.WorkspaceTypeSpec{
				Extend:             tenancyv1alpha1.WorkspaceTypeExtension{With: []tenancyv1alpha1.WorkspaceTypeReference{{Path: "root", Name: "warranted"}}},
				DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: lender.path, Export: gadgets}},
			},
		})
		Expect(err).NotTo(HaveOccurred())
		// In the name of an owner who may not bind the APIExport: kcp v0.33 denies its creation for the owner (kcp-dev/kcp#4311).
		suite.CreateWorkspace(ctx, w.kcp.ShardAdmin(tenantsPath), "restricted", restricted,
			kcptest.WithAnnotation(kcptest.OwnerAnnotation, impersonated(attacker.name, nil).String()))
		parent := owner{tenant: tenant{config: w.kcp.Admin(tenantsPath)}}
		cluster := parent.placed(ctx, "restricted")
		w.expectUnbound(ctx, cluster)

		By("changing the owner as the creator, who is cluster-admin there")
		const boss = `{"username":"root-boss","groups":["system:masters"]}`
		inside := suite.KCPClient(w.kcp.User(cluster, attacker.name))
		key, _ := initialization.InitializerToLabel(tenancyv1alpha1.WorkspaceAPIBindingsInitializer)
		metadata := map[string]any{"labels": map[string]any{key: nil}} // kcp sets the label again, and tries to initialize the workspace again
		if suite.ByPolicy(w.kcp) {
			Expect(inside.Create(ctx, asBoss())).To(Succeed())
			Expect(inside.Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "boss"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "boss"},
			})).To(Succeed())
		} else {
			metadata["annotations"] = map[string]any{kcptest.OwnerAnnotation: boss}
		}
		body, err := json.Marshal(map[string]any{"metadata": metadata})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() string { // until kcp observes the policy
			recorded := recordedOwner(ctx, w, cluster)
			if recorded != boss {
				lc := &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: corev1alpha1.LogicalClusterName}}
				_ = inside.Patch(ctx, lc, client.RawPatch(types.MergePatchType, body)) // kcp denies it to the creator as soon as the owner is another
			}
			return recorded
		}).Should(Equal(boss))
		waiting := func() []corev1alpha1.LogicalClusterInitializer {
			lc, err := kcptest.GetLogicalCluster(ctx, w.kcp.ShardAdmin(cluster))
			Expect(err).NotTo(HaveOccurred())
			return lc.Status.Initializers
		}
		Eventually(ctx, waiting).Should(HaveExactElements(BeEquivalentTo("root:warranted"))) // kcp has bound the APIExport

		By("starting the initializer of warranted")
		writing, err := w.kcp.KubeconfigFile("writing", w.kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
		Expect(err).NotTo(HaveOccurred())
		options := w.options
		options.Configuration += "repair: {after: 1h}\n"
		options.Args = []string{"--logical-cluster-kubeconfig=" + writing}
		initializing, err := kcptest.NewWarrantgate(ctx, w.kcp, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(initializing.Stop()).To(Succeed()) })
		Expect(initializing.Start(ctx)).To(Succeed())
		suite.ReadyWorkspace(ctx, w.kcp.User(tenantsPath, attacker.name, tenantsGroup), "unchanged", kcptest.OfType("root", "warranted"))
		Eventually(ctx, suite.DescribeWorkspace).WithArguments(parent.config, "restricted").Should(And(
			MatchRegexp(`(?m)^ +Warning +OwnerDiffers .*The workspace stays in Initializing`),
			ContainSubstring(`user "`+attacker.name+`" as the owner on the Workspace, but acts as user "root-boss"`)))
		Expect(waiting()).To(HaveExactElements(BeEquivalentTo("root:warranted")))
	}, SpecTimeout(startTimeout))
})

// asBoss returns a policy that makes an administrator the owner of a LogicalCluster in kcp's own updates.
func asBoss() *admissionregistrationv1.MutatingAdmissionPolicy {
	patch := func(expression string) admissionregistrationv1.Mutation {
		return admissionregistrationv1.Mutation{
			PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: expression},
		}
	}
	return &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "boss"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"core.kcp.io"}, APIVersions: []string{"*"}, Resources: []string{"logicalclusters"}},
				},
			}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "by-kcp", Expression: "'system:masters' in request.userInfo.groups"}},
			Mutations: []admissionregistrationv1.Mutation{
				patch(`[JSONPatch{op: "add", path: "/spec/createdBy/username", value: "root-boss"}]`),
				patch(`[JSONPatch{op: "add", path: "/spec/createdBy/groups", value: ["system:masters"]}]`),
			},
		},
	}
}
