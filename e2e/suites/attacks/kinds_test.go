//go:build e2e

package attacks_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
)

// farmKind is a kind of cluster.impersonation.kinds in kubeConfiguration.
var farmKind = schema.GroupVersionKind{Group: "farms.example.com", Version: "v1", Kind: "Farm"}

// farmAnnotation names its user, as the field spec.owner.email does.
const farmAnnotation = "farms.example.com/owner"

// Further finding: the list of kinds that name a user was fixed.
var _ = Describe("the editor of a namespace who writes an object of a configured kind", func() {
	It("cannot make it name another user, in any field, version and way", func(ctx SpecContext) {
		w := kube(ctx)
		Expect(w.api.ApplyCRDs(ctx, kubetest.OpenCRD(farmKind, "v2"))).To(Succeed())
		attacker := w.editor(ctx, w.namespace(ctx))
		own, victim := w.user(attacker.name+"@example.com").Email, w.user("farm-victim@example.com").Email
		w.permit(ctx, attacker.name, own)
		farm := func(version, name, email, annotation string) *unstructured.Unstructured {
			object := newObject(farmKind.GroupKind().WithVersion(version), attacker.namespace, name, map[string]any{"owner": map[string]any{"email": email}})
			if annotation != "" {
				object.SetAnnotations(map[string]string{farmAnnotation: annotation})
			}
			return object
		}
		forbidden := MatchError(And(ContainSubstring("cluster.warrantgate.dev"), ContainSubstring(`may not impersonate "farm-victim@example.com"`)))
		Eventually(func() error { return attacker.client.Create(ctx, farm("v1", "canary", victim, ""), client.DryRunAll) }).Should(forbidden)

		By("with a new object")
		for _, version := range []string{"v1", "v2"} {
			Expect(attacker.client.Create(ctx, farm(version, "new", victim, ""))).To(forbidden)
			Expect(attacker.client.Create(ctx, farm(version, "new", own, victim))).To(forbidden)
		}
		By("with an object that names the own user")
		held := farm("v1", "held", own, own)
		Expect(attacker.client.Create(ctx, held)).To(Succeed())
		for _, patch := range []string{`{"spec":{"owner":{"email":"` + victim + `"}}}`, `{"metadata":{"annotations":{"` + farmAnnotation + `":"` + victim + `"}}}`} {
			for _, version := range []string{"v1", "v2"} {
				Expect(attacker.client.Patch(ctx, farm(version, "held", "", ""), client.RawPatch(types.MergePatchType, []byte(patch)))).To(forbidden)
			}
		}
		applied := farm("v1", "held", victim, own)
		Expect(attacker.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("attacker"), client.ForceOwnership)).To(forbidden)
		updated := held.DeepCopy()
		Expect(unstructured.SetNestedField(updated.Object, victim, "spec", "owner", "email")).To(Succeed())
		Expect(attacker.client.Update(ctx, updated)).To(forbidden)
		Expect(attacker.client.Delete(ctx, held)).To(Succeed())
	}, SpecTimeout(startTimeout))
})

// Further finding: a token was sent to a host that the region of a tenant's object is part of.
var _ = Describe("a warrantgate that would send tokens to the region of a tenant's cluster", func() {
	It("does not start", func(ctx SpecContext) {
		w := kube(ctx)
		settings := w.settings(w.api.Dir(), "")
		settings.Configuration = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"
		gate, err := kubetest.NewWarrantgate(ctx, w.api, settings)
		Expect(err).NotTo(HaveOccurred())
		Expect(gate.Start(ctx)).To(MatchError(ContainSubstring("cloudSigma.regions: Required value: the region of an object becomes part of the host that tokens are sent to")))
	}, SpecTimeout(startTimeout))
})
