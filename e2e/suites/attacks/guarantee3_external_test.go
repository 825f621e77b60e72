//go:build e2e

package attacks_test

import (
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/volume"
)

// rentedKind is a kind of a provider whose cloud is not asked.
var rentedKind = schema.GroupVersionKind{Group: "rented.example.com", Version: "v1", Kind: "RentedServer"}

var rentedConfiguration = strings.Replace(kubeConfiguration, denyFirstClaims, "machine: {unknown: Deny, kinds: [{group: rented.example.com, version: v1, "+
	"kind: RentedServer, resource: rentedservers, provider: external}]}\n", 1)

// rentedServer is an object that names an ID, or none.
func rentedServer(who tenant, version, name, id string) *unstructured.Unstructured {
	object := newObject(rentedKind.GroupKind().WithVersion(version), who.namespace, name, nil)
	if id != "" {
		object.Object["spec"] = map[string]any{"providerID": id}
	}
	return object
}

// Guarantee 3, for kinds without a cloud: an ID belongs to the namespace that has it.
var _ = Describe("guarantee 3: an ID of a provider whose cloud is not asked", func() {
	It("cannot be taken from another namespace, nor tell whose it is", func(ctx SpecContext) {
		w := kube(ctx)
		Expect(w.api.ApplyCRDs(ctx, kubetest.OpenCRD(rentedKind, "v2"))).To(Succeed())
		w.configure(ctx, rentedConfiguration)
		victim, attacker := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		const id = "rented:///hall-1/0001"
		held := rentedServer(victim, "v1", "precious", id)
		Expect(victim.client.Create(ctx, held)).To(Succeed())
		denied := And(MatchError(ContainSubstring("rentedservers.machine.warrantgate.dev")), MatchError(ContainSubstring("it is held by an object of another namespace")),
			Not(MatchError(ContainSubstring(victim.namespace))), Not(MatchError(ContainSubstring("precious"))), Not(MatchError(ContainSubstring(victim.name))))
		Eventually(func() error {
			return attacker.client.Create(ctx, rentedServer(attacker, "v1", "canary", id), client.DryRunAll)
		}).Should(denied)

		By("with a new object, in each version and spelling")
		for _, version := range []string{"v1", "v2"} {
			for _, spelling := range []string{id, strings.ToUpper(id), " " + id + "\t", "rented://hall-1/0001", "rented:////hall-1//0001/"} {
				Expect(attacker.client.Create(ctx, rentedServer(attacker, version, "new", spelling))).To(denied, spelling)
			}
			for _, odd := range []any{"rented:///hall-1/000\u200b1", "rented:///hall-1/%30001", "rented:///hall-1/0001?", "rented:///hall-1/./0001", "rented:///hall-1/x/../0001", []any{id}, map[string]any{"": id}, strings.Repeat(id, 100)} {
				object := rentedServer(attacker, version, "new", "")
				object.Object["spec"] = map[string]any{"providerID": odd}
				Expect(attacker.client.Create(ctx, object)).To(MatchError(ContainSubstring("rentedservers.machine.warrantgate.dev")), "%v", odd)
			}
		}
		By("in each way to write an object that has none")
		Expect(attacker.client.Create(ctx, rentedServer(attacker, "v1", "mine", ""))).To(Succeed())
		name := func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"providerID": id} }
		for _, way := range waysToWrite {
			if way.name != "JSON patch" { // it writes metadata only
				Expect(way.metadata(ctx, attacker.client, rentedServer(attacker, "v1", "mine", ""), name)).To(denied, way.name)
			}
		}
		Expect(attacker.client.Patch(ctx, rentedServer(attacker, "v1", "mine", ""), client.RawPatch("application/json-patch+json",
			[]byte(`[{"op":"add","path":"/spec","value":{"providerID":"`+id+`"}}]`)))).To(denied)

		By("nor does the attacker stop the owner's other writes, or the deletion")
		Expect(mergePatch.metadata(ctx, victim.client, held, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/keep"}) })).To(Succeed())
		Expect(mergePatch.metadata(ctx, victim.client, held, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })).To(Succeed())

		By("an ID that the attacker names first: the owner is denied without its name, which the operator's log has")
		const squatted = "rented:///hall-1/0002"
		Expect(attacker.client.Create(ctx, rentedServer(attacker, "v1", "squatter", squatted))).To(Succeed())
		Eventually(func() error { return victim.client.Create(ctx, rentedServer(victim, "v1", "late", squatted)) }).Should(And(
			MatchError(ContainSubstring("ask your administrator")), Not(MatchError(ContainSubstring(attacker.namespace))), Not(MatchError(ContainSubstring("squatter")))))

		By("two namespaces at once: one is denied, or the audit reports both")
		for i := range volume.Of(5, 20) {
			both := fmt.Sprintf("rented:///hall-2/%d", i)
			at := fmt.Sprintf("at-once-%d", i)
			var errs [2]error
			var writes sync.WaitGroup
			for j, who := range []tenant{victim, attacker} {
				writes.Go(func() { errs[j] = who.client.Create(ctx, rentedServer(who, "v1", at, both)) })
			}
			writes.Wait()
			if errs[0] == nil && errs[1] == nil {
				w.expectReported(ctx, victim.namespace, at, "InstanceIDConflict")
				w.expectReported(ctx, attacker.namespace, at, "InstanceIDConflict")
			}
		}
	}, SpecTimeout(startTimeout))
})
