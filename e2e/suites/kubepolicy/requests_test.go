//go:build e2e

package kubepolicy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The gate does not evaluate objects without a policy, and writes that do not change the policy.
var _ = Describe("The gate on policies", func() {
	// verdicts is the number of verdicts of the gate.
	verdicts := func(ctx context.Context) float64 {
		GinkgoHelper()
		count, err := shared.verdicts(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		return count
	}

	It("is not called for changes of metadata, writes without a change, and deletions", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		policy := newConfigMap(namespace, "policy", sound)
		Expect(shared.author.Create(ctx, policy)).To(Succeed())
		before := verdicts(ctx)
		policy.Annotations = map[string]string{"example.com/a": "b"}
		policy.Labels["another"] = "label"
		policy.Finalizers = []string{"example.com/finalizer"}
		policy.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}}
		Expect(shared.author.Update(ctx, policy)).To(Succeed())
		Expect(shared.author.Update(ctx, policy)).To(Succeed())
		Expect(shared.author.Delete(ctx, policy)).To(Succeed())
		Expect(shared.author.Patch(ctx, policy, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(verdicts(ctx)).To(Equal(before))

		By("changing the policy")
		Expect(shared.author.Create(ctx, newConfigMap(namespace, "policy", sound))).To(Succeed())
		Expect(verdicts(ctx)).To(Equal(before + 1))
		Expect(shared.verdicts(ctx, map[string]string{"decision": "allowed", "reason": "KeystonePolicySound"})).To(BeNumerically(">=", 1))
	}, SpecTimeout(timeout))

	It("needs no permission except that to write Events", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		config, err := shared.api.User("warrantgate")
		Expect(err).NotTo(HaveOccurred())
		gate, err := client.New(config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		Expect(gate.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace))).To(MatchError(ContainSubstring("forbidden")))
		Expect(gate.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace))).To(MatchError(ContainSubstring("forbidden")))
	}, SpecTimeout(timeout))
})
