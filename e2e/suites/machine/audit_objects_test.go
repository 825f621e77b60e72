//go:build e2e

package machine_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects that were written before the gates were installed, or while they were off, can contradict each other.
var _ = Describe("the audit of objects", Ordered, func() {
	var (
		w *world
		// orphaned refers to a Secret that was deleted. The cluster label of owned differs from that of its owner Machine.
		orphaned, owned *unstructured.Unstructured
	)
	const unknownUser = "the user that its provider acts as is unknown: "
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{cloud: "  regions: [" + region + "]", configuration: oftenAudited, before: func(w *world) {
			namespace := w.namespace(ctx)
			user := w.user(namespace + "@example.com")
			Expect(w.client.Create(ctx, newCluster(namespace, clusterName, user.Email))).To(Succeed())
			orphaned = newObject(clusterKind, namespace, "orphaned", with("spec.region", region), with("spec.userRef.name", "gone"))
			owner := newObject(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}, namespace, "owner")
			owner.SetLabels(inCluster("another"))
			for _, object := range []*unstructured.Unstructured{orphaned, owner} {
				Expect(w.client.Create(ctx, object)).To(Succeed())
			}
			owned = w.leaveMachine(ctx, namespace, "owned", w.cloud.AddServer(region, user, "owned").UUID)
			owned.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
			}})
			Expect(w.client.Update(ctx, owned)).To(Succeed())
		}})
	}, NodeTimeout(setupTimeout))

	wanted := func() map[*unstructured.Unstructured][2]string {
		return map[*unstructured.Unstructured][2]string{
			orphaned: {"UserSecretMissing", unknownUser + `CloudSigmaCluster "orphaned": spec.userRef: there is no Secret "gone" in namespace "` + orphaned.GetNamespace() + `"`},
			owned: {"OwnerClusterMismatch", `its owner, Machine "owner", belongs to cluster "another" by its label cluster.x-k8s.io/cluster-name, ` +
				`which the provider uses, but the machine has the label of cluster "pool"; set the same label on both`},
		}
	}

	It("reports clusters that cannot be used, and owners of another cluster", func(ctx SpecContext) {
		for object, want := range wanted() {
			Eventually(w.eventsOn).WithContext(ctx).WithArguments(object).Should(ConsistOf(And(
				HaveField("Reason", want[0]), HaveField("Message", HavePrefix("Audit: "+want[1])))))
			Eventually(w.findings).WithContext(ctx).WithArguments(want[0]).Should(BeEquivalentTo(1), want[0])
		}
		Expect(w.gate.Metric(ctx, "warrantgate_audit_runs_total", map[string]string{"outcome": "incomplete"})).To(BeZero())
	}, SpecTimeout(timeout))

	It("does not report corrected problems any more", func(ctx SpecContext) {
		for _, object := range []*unstructured.Unstructured{orphaned, owned} {
			Expect(w.client.Delete(ctx, object)).To(Succeed())
		}
		for _, want := range wanted() {
			Eventually(func(ctx context.Context) (float64, error) { return w.findings(ctx, want[0]) }).WithContext(ctx).Should(BeZero(), want[0])
		}
	}, SpecTimeout(timeout))
})
