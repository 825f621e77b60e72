//go:build e2e

package attacks_test

import (
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refersTo sets the reference of a Machine of Cluster API to a machine of a provider, in the form of a version of Cluster API: v1beta1 has an
// apiVersion, v1beta2 an apiGroup.
func refersTo(form, kind string) func(*unstructured.Unstructured) {
	const group = "infrastructure.cluster.x-k8s.io"
	reference := map[string]any{"apiVersion": group + "/v1beta1", "kind": kind, "name": "worker"}
	if form == "v1beta2" {
		reference = map[string]any{"apiGroup": group, "kind": kind, "name": "worker"}
	}
	return func(object *unstructured.Unstructured) {
		spec, _, err := unstructured.NestedMap(object.Object, "spec")
		Expect(err).NotTo(HaveOccurred())
		spec = maps.Clone(spec)
		if spec == nil {
			spec = map[string]any{}
		}
		spec["infrastructureRef"] = reference
		object.Object["spec"] = spec
	}
}

// Guarantee 3, the part of the Machines of Cluster API, which all providers have in common. The gate denies that the label changes under a
// machine, and does not stand in the way of anything else.
var _ = Describe("guarantee 3: a Machine of Cluster API", func() {
	for _, form := range []string{"v1beta1", "v1beta2"} {
		It("keeps its label while the machine that it owns names a server, with a reference of "+form, func(ctx SpecContext) {
			a := startMove(ctx)
			gated, other := refersTo(form, "CloudSigmaMachine"), refersTo(form, "DockerMachine")
			toSecond := func(changes ...func(*unstructured.Unstructured)) func(*unstructured.Unstructured) {
				return func(object *unstructured.Unstructured) {
					inCluster("second")(object)
					for _, change := range changes {
						change(object)
					}
				}
			}
			owner := a.owner(ctx, "owner", "first", gated)
			a.machine(ctx, "worker", a.own, ownedBy("owner"))
			for what, change := range map[string]func(*unstructured.Unstructured){
				"alone":                              toSecond(),
				"with a reference to another kind":   toSecond(other),
				"with a reference of the other form": toSecond(refersTo("v1beta1", "CloudSigmaMachine")),
				"without a reference": toSecond(func(object *unstructured.Unstructured) {
					unstructured.RemoveNestedField(object.Object, "spec", "infrastructureRef")
				}),
			} {
				By("the label " + what)
				a.expectDenied(mergePatch.metadata(ctx, a.attacker.client, owner, change), "OwnerClusterMismatch", `CloudSigmaMachine "worker" of cluster "first"`)
			}
			By("the label with a reference that referred to another kind")
			Expect(mergePatch.metadata(ctx, a.attacker.client, owner, other)).To(Succeed())
			a.expectDenied(mergePatch.metadata(ctx, a.attacker.client, owner, toSecond(gated)), "OwnerClusterMismatch")
			Expect(a.current(ctx, owner).GetLabels()).To(Equal(labelsOf("first")))
		}, SpecTimeout(startTimeout))
	}

	It("is created, changed and deleted while warrantgate is down, but a gated one keeps its label", func(ctx SpecContext) {
		a := startMove(ctx)
		c := a.attacker.client
		Expect(a.w.gate.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(a.w.gate.Start(ctx)).To(Succeed()) })
		for _, form := range []string{"v1beta1", "v1beta2"} {
			for _, kind := range []string{"CloudSigmaMachine", "DockerMachine"} {
				By(kind + " in a reference of " + form)
				owner := a.owner(ctx, "owner", "first", refersTo(form, kind))
				Expect(mergePatch.metadata(ctx, c, owner, func(object *unstructured.Unstructured) {
					object.SetAnnotations(map[string]string{"example.com/a": "b"})
				})).To(Succeed())
				Expect(c.Status().Patch(ctx, owner, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`)))).To(Succeed())
				err := mergePatch.metadata(ctx, c, owner, inCluster("second"))
				if kind == "DockerMachine" {
					Expect(err).NotTo(HaveOccurred())
				} else {
					Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
					Expect(err).To(MatchError(ContainSubstring(`failed calling webhook "owner.machine.warrantgate.dev"`)))
				}
				Expect(c.Delete(ctx, owner)).To(Succeed())
			}
		}
	}, SpecTimeout(startTimeout))
})
