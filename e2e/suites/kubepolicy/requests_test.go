//go:build e2e

package kubepolicy_test

import (
	"context"
	"strings"

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

	It("is not called for objects without the label", func(ctx SpecContext) {
		namespace, before := shared.namespace(ctx), verdicts(ctx)
		policy, secret := newConfigMap(namespace, "policy", broken), newSecret(namespace, "policy", broken)
		policy.Labels, secret.Labels = map[string]string{"holds": "something"}, nil
		Expect(shared.author.Create(ctx, policy)).To(Succeed())
		Expect(shared.author.Create(ctx, secret)).To(Succeed())
		policy.Data["policy.yaml"] = "["
		Expect(shared.author.Update(ctx, policy)).To(Succeed())
		Expect(shared.author.Delete(ctx, secret)).To(Succeed())
		Expect(verdicts(ctx)).To(Equal(before))

		By("adding the label")
		err := shared.author.Patch(ctx, policy, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"holds":"keystone-policy"}}}`)))
		Expect(err).To(MatchError(ContainSubstring(about("ConfigMap", namespace, "1 error: policy.yaml:1: '[' has a special meaning in YAML"))))
		Expect(verdicts(ctx)).To(BeNumerically(">", before))
	}, SpecTimeout(timeout))

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

	It("denies a dry run without an Event", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		Expect(shared.author.Create(ctx, newConfigMap(namespace, "policy", sound))).To(Succeed())
		message := about("ConfigMap", namespace, saidOfBroken)
		expectDenial(shared.author.Update(ctx, newConfigMap(namespace, "policy", broken), client.DryRunAll), message)
		// Events are written in order: when this one exists, there are no further Events of earlier requests.
		last := newConfigMap(namespace, "last", doubtful)
		Expect(shared.author.Create(ctx, last)).To(Succeed())
		Expect(shared.recorder.TakeWarnings()).To(HaveLen(1))
		Eventually(shared.events).WithArguments(ctx, namespace).Should(ConsistOf(HaveField("InvolvedObject.UID", last.UID)))
	}, SpecTimeout(timeout))

	It("evaluates objects up to the size limit of the API server", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		policy := newConfigMap(namespace, "policy", strings.Repeat("# a comment\n", 85_000))
		Expect(shared.author.Create(ctx, policy)).To(MatchError(ContainSubstring("more than the 262144 bytes under 32 keys that are checked at once")))
		policy.Data["policy.yaml"] = strings.Repeat("# a comment\n", 21_000) + sound
		Expect(shared.author.Create(ctx, policy)).To(Succeed())

		By("adding binary data that is not UTF-8")
		policy.BinaryData = map[string][]byte{"binary": {0xff, 0xfe, 0}}
		Expect(shared.author.Update(ctx, policy)).To(MatchError(ContainSubstring("binary:1: it is not UTF-8")))
		policy.BinaryData = map[string][]byte{"binary": {0x1f, 0x8b, 0x08, 0}}
		Expect(shared.author.Update(ctx, policy)).To(MatchError(ContainSubstring("binary: it is compressed with gzip, so that Keystone cannot read it")))
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
