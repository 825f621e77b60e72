//go:build e2e

package attacks_test

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const clusterAnnotation = "kcp.io/cluster"

// moved is a merge patch that sets the annotation of the logical cluster (nil removes it) and another field.
func moved(to, also string) client.Patch {
	if to != "null" {
		to = fmt.Sprintf("%q", to)
	}
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}%s}`, clusterAnnotation, to, also))
}

// gateEvents returns the reasons and messages of warrantgate's Events in the workspace of a tenant.
func gateEvents(ctx SpecContext, of owner) []string {
	GinkgoHelper()
	c := suite.KCPClient(of.admin)
	list := &corev1.EventList{}
	Expect(c.List(ctx, list)).To(Succeed())
	var texts []string
	for i := range list.Items {
		if list.Items[i].Source.Component == "warrantgate" {
			texts = append(texts, list.Items[i].Reason+": "+list.Items[i].Message)
		}
	}
	return texts
}

// Guarantee 1: the requester cannot choose where a request is evaluated.
var _ = Describe("the requester cannot choose where a request is evaluated", func() {
	const changed = "LogicalClusterChanged"

	It("to use another tenant's cluster for a machine", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, victim := w.owner(ctx, "mallory"), w.victim(ctx)
		own, theirs := w.user(attacker.name+"@example.com"), victim.user
		server, secret := w.server(theirs, "worker-of-"+victim.name), w.server(theirs, "machine")
		w.permit(ctx, attacker.name, own.Email)
		Eventually(func() error { return attacker.client.Create(ctx, newCluster(attacker.namespace, "pool", own.Email)) }).Should(Succeed())
		machine := newMachine(attacker.namespace, "machine", "pool", map[string]any{})
		Expect(attacker.client.Create(ctx, machine.DeepCopy())).To(Succeed())
		victimsBefore := gateEvents(ctx, victim.owner)

		By("with a patch of the main resource")
		spec := fmt.Sprintf(`,"spec":{"providerID":"cloudsigma://%s"}`, server.UUID)
		expectDenied(attacker.client.Patch(ctx, machine.DeepCopy(), moved(victim.cluster, spec)), http.StatusUnprocessableEntity, changed)
		By("with server-side apply")
		applied := newMachine(attacker.namespace, "machine", "pool", map[string]any{"providerID": "cloudsigma://" + server.UUID})
		applied.SetAnnotations(map[string]string{clusterAnnotation: victim.cluster})
		expectDenied(attacker.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied.DeepCopy()), client.FieldOwner("x"), client.ForceOwnership),
			http.StatusUnprocessableEntity, changed)
		By("with PUT")
		put := machine.DeepCopy()
		Expect(attacker.client.Get(ctx, client.ObjectKeyFromObject(put), put)).To(Succeed())
		put.SetAnnotations(applied.GetAnnotations())
		Expect(unstructured.SetNestedField(put.Object, "cloudsigma://"+server.UUID, "spec", "providerID")).To(Succeed())
		expectDenied(attacker.client.Update(ctx, put), http.StatusUnprocessableEntity, changed)
		By("with the status, where kcp ignores the annotation")
		status := fmt.Sprintf(`,"status":{"instanceID":%q}`, server.UUID)
		Expect(attacker.client.Status().Patch(ctx, machine.DeepCopy(), moved(victim.cluster, status))).NotTo(Succeed())
		By("on creation, where kcp overwrites the annotation")
		created := applied.DeepCopy()
		created.SetName("created")
		expectDenied(attacker.client.Create(ctx, created), http.StatusForbidden, "InstanceNotOwned", "InstanceNotFound")

		current := machine.DeepCopy()
		Expect(attacker.client.Get(ctx, client.ObjectKeyFromObject(current), current)).To(Succeed())
		Expect(current.Object["spec"]).NotTo(HaveKey("providerID"))
		Expect(current.GetAnnotations()).To(HaveKeyWithValue(clusterAnnotation, attacker.cluster))

		By("the messages contain nothing about the other tenant")
		unknown := `,"spec":{"providerID":"cloudsigma://11111111-2222-4333-8444-555555555555"}`
		expectDenied(attacker.client.Patch(ctx, machine.DeepCopy(), moved(victim.cluster, unknown)), http.StatusUnprocessableEntity, changed)
		for _, text := range []string{theirs.Email, theirs.UUID, secret.UUID, server.Name} {
			Expect(attacker.recorder.Texts()).NotTo(ContainSubstring(text))
		}

		By("there is no Event in the other workspace")
		denied := newMachine(attacker.namespace, "denied", "pool", map[string]any{})
		Expect(attacker.client.Create(ctx, denied)).To(Succeed())
		Expect(attacker.client.Patch(ctx, denied.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"providerID":"cloudsigma://11111111-2222-4333-8444-555555555555"}}`)))).NotTo(Succeed())
		Eventually(func() []string { return gateEvents(ctx, attacker) }).Should(ContainElement(ContainSubstring(`"denied"`))) // Events are written in order
		Expect(gateEvents(ctx, victim.owner)).To(Equal(victimsBefore))
	}, SpecTimeout(startTimeout))

	It("to authorize a cluster's user by RBAC of its own workspace", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, victim := w.owner(ctx, "mallory"), w.victim(ctx)
		stranger := w.user("stranger-of-" + attacker.name + "@example.com")
		// The attacker is an editor in the victim's workspace, and cluster-admin in its own.
		Expect(kcptest.Grant(ctx, victim.config, kcptest.User(attacker.name), kcptest.AccessRule(),
			kcptest.Rule(infrastructure.Group, []string{"*"}, []string{"get", "update", "patch", "create"}))).To(Succeed())
		Expect(kcptest.Grant(ctx, attacker.config, kcptest.User(attacker.name), rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"},
		})).To(Succeed())
		editor := suite.UnstructuredClient(attacker.recorder.Listen(kcptest.In(attacker.config, victim.path)))
		pool := newCluster(victim.namespace, "pool", "")
		also := fmt.Sprintf(`,"spec":{"userEmail":%q}`, stranger.Email)
		expectDenied(editor.Patch(ctx, pool.DeepCopy(), moved(attacker.cluster, also)), http.StatusUnprocessableEntity, changed)
		By("without the annotation, RBAC of the object's workspace applies")
		expectDenied(editor.Patch(ctx, pool.DeepCopy(), moved("null", also)), http.StatusForbidden, "ImpersonationNotAllowed")
		Expect(victim.client.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		email, _, _ := unstructured.NestedString(pool.Object, "spec", "userEmail")
		Expect(email).To(Equal(victim.user.Email))
	}, SpecTimeout(startTimeout))

	It("to send requests with warrantgate's credentials to another path", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker := w.owner(ctx, "mallory")
		own := w.user(attacker.name + "@example.com")
		w.permit(ctx, attacker.name, own.Email)
		Eventually(func() error { return attacker.client.Create(ctx, newCluster(attacker.namespace, "pool", own.Email)) }).Should(Succeed())
		machine := newMachine(attacker.namespace, "machine", "pool", map[string]any{})
		Expect(attacker.client.Create(ctx, machine)).To(Succeed())
		also := `,"spec":{"providerID":"cloudsigma://11111111-2222-4333-8444-555555555555"}`
		for _, to := range []string{"../services/x", "*", "..", "system:admin", "system:../services/x", "root", providerPath, "a/b", "a%2fb", "a?b", strings.Repeat("a", 64)} {
			By(to)
			expectDenied(attacker.client.Patch(ctx, machine.DeepCopy(), moved(to, also)), http.StatusUnprocessableEntity, changed)
		}
		By("a client need not repeat the annotation")
		server := w.server(own, "machine")
		for _, to := range []string{"null", "", attacker.cluster} {
			Expect(attacker.client.Patch(ctx, machine.DeepCopy(), moved(to, `,"spec":{"providerID":"cloudsigma://`+server.UUID+`"}`))).To(Succeed())
			Expect(attacker.client.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
			Expect(machine.GetAnnotations()).To(HaveKeyWithValue(clusterAnnotation, attacker.cluster))
			Expect(attacker.client.Patch(ctx, machine.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerID":null}}`)))).To(Succeed())
		}
	}, SpecTimeout(startTimeout))
})
