//go:build e2e

package attacks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

const (
	recordKey = "warrantgate.dev/user-named-by"
	// anAdministrator is a record that would pass each audit.
	anAdministrator = `{"username":"root","groups":["system:masters"]}`
)

// recordOn returns who is recorded on an object.
func recordOn(ctx context.Context, c client.Client, object client.Object) string {
	GinkgoHelper()
	Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	var user authenticationv1.UserInfo
	Expect(json.Unmarshal([]byte(object.GetAnnotations()[recordKey]), &user)).To(Succeed())
	Expect(user.Groups).NotTo(ContainElement("system:masters"))
	return user.Username
}

// forgedPatch sets the record, and with it more of the object.
func forgedPatch(more string) client.Patch {
	record, err := json.Marshal(anAdministrator)
	Expect(err).NotTo(HaveOccurred())
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}%s}`, recordKey, record, more))
}

// The audit trusts the record of who named a user.
var _ = Describe("the record of who named a user, against who may write the object", func() {
	// attack forges the record in each way as a tenant who may name the user, and expects the tenant in it.
	attack := func(ctx context.Context, who tenant, email, other string) {
		GinkgoHelper()
		Eventually(func(g Gomega) { // until the API server observes the permission and the webhook
			first := newCluster(who.namespace, "first", email)
			g.Expect(who.client.Create(ctx, first, client.DryRunAll)).To(Succeed())
			g.Expect(first.GetAnnotations()).To(HaveKey(recordKey))
		}).Should(Succeed())
		By("with the creation")
		forged := func(name string) *unstructured.Unstructured {
			cluster := newCluster(who.namespace, name, email)
			cluster.SetAnnotations(map[string]string{recordKey: anAdministrator})
			return cluster
		}
		Expect(who.client.Create(ctx, forged("pool"))).To(Succeed())
		Expect(recordOn(ctx, who.client, newCluster(who.namespace, "pool", ""))).To(Equal(who.name))
		applied := client.ApplyConfigurationFromUnstructured(forged("applied"))
		Expect(who.client.Apply(ctx, applied, client.FieldOwner("x"), client.ForceOwnership)).To(Succeed())
		Expect(recordOn(ctx, who.client, newCluster(who.namespace, "applied", ""))).To(Equal(who.name))

		for what, patch := range map[string]client.Patch{
			"alone":                          forgedPatch(""),
			"with another user":              forgedPatch(`,"spec":{"userEmail":"` + other + `"}`),
			"with the user removed":          forgedPatch(`,"spec":{"userEmail":null}`),
			"with the user set again":        forgedPatch(`,"spec":{"userEmail":"` + email + `"}`),
			"with metadata in other letters": client.RawPatch(types.MergePatchType, []byte(`{"Metadata":{"annotations":{"`+recordKey+`":"{\"username\":\"root\"}"}}}`)),
			"as JSON patch": client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
				`[{"op":"add","path":"/metadata/annotations","value":{%q:"{\"username\":\"root\",\"groups\":[\"system:masters\"]}"}}]`, recordKey)),
			"by its removal": client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/annotations/warrantgate.dev~1user-named-by"}]`)),
		} {
			By("with a change, " + what)
			cluster := newCluster(who.namespace, "pool", "")
			Expect(who.client.Patch(ctx, cluster, patch)).To(Or(Succeed(), MatchError(ContainSubstring("strict decoding"))))
			Expect(recordOn(ctx, who.client, newCluster(who.namespace, "pool", ""))).To(Equal(who.name))
		}
		By("with the status")
		Expect(who.client.Status().Patch(ctx, newCluster(who.namespace, "pool", ""), forgedPatch(`,"status":{"ready":true}`))).To(Succeed())
		Expect(recordOn(ctx, who.client, newCluster(who.namespace, "pool", ""))).To(Equal(who.name))
	}

	It("the editor of a namespace cannot write another one than its own", func(ctx SpecContext) {
		w := kube(ctx)
		attacker := w.editor(ctx, w.namespace(ctx))
		email, other := w.user(attacker.name+"@example.com").Email, w.user("other-"+attacker.name+"@example.com").Email
		w.permit(ctx, attacker.name, email, other)
		attack(ctx, attacker, email, other)

		By("in a Secret")
		secret := userSecret(attacker.namespace, email)
		secret.Annotations = map[string]string{recordKey: anAdministrator}
		Expect(attacker.client.Create(ctx, secret.DeepCopy())).To(Succeed())
		Expect(recordOn(ctx, attacker.client, userSecret(attacker.namespace, ""))).To(Equal(attacker.name))
		for _, patch := range []client.Patch{forgedPatch(""), emailIs(other), forgedPatch(`,"data":null`), forgedPatch(`,"stringData":{"userEmail":"` + email + `"}`)} {
			Expect(attacker.client.Patch(ctx, userSecret(attacker.namespace, ""), patch)).To(Succeed())
			Expect(recordOn(ctx, attacker.client, userSecret(attacker.namespace, ""))).To(Equal(attacker.name))
		}
	}, SpecTimeout(startTimeout))

	It("the editor of a namespace cannot take the record of a user that it may not name", func(ctx SpecContext) {
		w := kube(ctx)
		attacker := w.editor(ctx, w.namespace(ctx))
		cluster := newCluster(attacker.namespace, "pool", w.user("victim-of-"+attacker.name+"@example.com").Email)
		Expect(w.admin.Create(ctx, cluster.DeepCopy())).To(Succeed())
		for _, record := range []string{anAdministrator, "me", `{"username":"` + attacker.name + `"}`} {
			text, err := json.Marshal(record)
			Expect(err).NotTo(HaveOccurred())
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, recordKey, text))
			expectDenied(attacker.client.Patch(ctx, newCluster(attacker.namespace, "pool", ""), patch), http.StatusForbidden, "ImpersonationNotAllowed")
		}
	}, SpecTimeout(startTimeout))

	It("the owner of a workspace cannot write another one than its own, nor with an admission policy there", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker := w.owner(ctx, "mallory")
		email, other := w.user(attacker.name+"@example.com").Email, w.user("other-"+attacker.name+"@example.com").Email
		w.permit(ctx, attacker.name, email, other)
		attack(ctx, attacker.tenant, email, other)

		mutating, err := w.kcp.HasMutatingPolicies()
		Expect(err).NotTo(HaveOccurred())
		if !mutating {
			return
		}
		By("with a policy of the owner, that changes each cluster")
		policy := &admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "forger"},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				FailurePolicy:      ptr.To(admissionregistrationv1.Fail),
				ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{infrastructure.Group, ""}, APIVersions: []string{"*"}, Resources: []string{"cloudsigmaclusters", "configmaps"},
						},
					},
				}}},
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: fmt.Sprintf(
						`[JSONPatch{op: "add", path: "/metadata/annotations/warrantgate.dev~1user-named-by", value: %q}]`, anAdministrator)},
				}},
			},
		}
		binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "forger"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "forger"},
		}
		inside, err := kcptest.NewClient(attacker.config)
		Expect(err).NotTo(HaveOccurred())
		Expect(inside.Create(ctx, policy)).To(Succeed())
		Expect(inside.Create(ctx, binding)).To(Succeed())
		Eventually(ctx, func(g Gomega) { // until kcp observes the policy
			changed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: attacker.namespace, Name: "changed", Annotations: map[string]string{"any": "x"},
			}}
			g.Expect(attacker.client.Create(ctx, changed, client.DryRunAll)).To(Succeed())
			g.Expect(changed.Annotations).To(HaveKeyWithValue(recordKey, anAdministrator))
		}).Should(Succeed())
		cluster := newCluster(attacker.namespace, "policy", email)
		cluster.SetAnnotations(map[string]string{"any": "x"})
		if err := attacker.client.Create(ctx, cluster); err != nil {
			Expect(err).To(MatchError(ContainSubstring("it is not the record of the requester")))
			return
		}
		Expect(cluster.GetAnnotations()[recordKey]).NotTo(ContainSubstring("system:masters"))
	}, SpecTimeout(startTimeout))
})
