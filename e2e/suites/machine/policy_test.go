//go:build e2e

package machine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// editor is a user with all permissions in the namespace of the story, and none to impersonate.
func (s story) editor(ctx context.Context) author {
	GinkgoHelper()
	who := s.newUser(ctx)
	s.grant(ctx, who, permission{namespace: s.namespace, rule: rule("*", "*", "*")})
	return who
}

// An admission policy is enforced while no warrantgate runs.
var _ = Describe("the policy on a cluster's user", Ordered, func() {
	const policy = "cloudsigmaclusters.cluster.warrantgate.dev"
	var w *world
	var byWebhook string
	name := func(s story, name, email string) client.Object { return newCluster(s.namespace, name, email) }

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "audit: {mode: Off}\n"})
	}, NodeTimeout(setupTimeout))

	It("has the message of the webhook, and replaces it without a gap", func(ctx SpecContext) {
		s := w.begin(ctx)
		who := s.editor(ctx)
		email := "named-" + s.namespace + "@example.com"
		w.installWithoutPolicy(ctx, policy)
		var err error
		Eventually(func() error {
			err = who.client.Create(ctx, name(s, "early", email))
			return err
		}).Should(MatchError(HavePrefix("admission webhook %q denied the request: ", policy)))
		expectClusterDenial(err, policy, "ImpersonationNotAllowed", "spec.userEmail")
		byWebhook = messageOf(err)

		By("an upgrade during continuous attempts")
		ctxUpgrade, upgraded := context.WithCancel(ctx)
		admitted := make(chan error, 1)
		go func() {
			defer close(admitted)
			for i := 0; ctxUpgrade.Err() == nil; i++ {
				if err := who.client.Create(ctx, newObject(clusterKind, s.namespace, fmt.Sprintf("try-%d", i), with("spec.userEmail", email))); err == nil {
					admitted <- fmt.Errorf("write %d was admitted", i)
					return
				}
			}
		}()
		_, err = w.gate.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			err = who.client.Create(ctx, name(s, "early", email))
			return err
		}).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))
		upgraded()
		Expect(<-admitted).NotTo(HaveOccurred())
		expectPolicyDenial(err, policy, metav1.StatusReasonForbidden)
		Expect(messageOf(err)).To(Equal(byWebhook))
	}, SpecTimeout(2*timeout))

	It("is enforced while no warrantgate runs, and denies no other requests", func(ctx SpecContext) {
		s := w.withoutWarrantgate(ctx)
		who := s.editor(ctx)
		email := "named-" + s.namespace + "@example.com"

		By("to create")
		cluster := newCluster(s.namespace, "metal", email)
		// Until the API server has observed the webhooks with failurePolicy Ignore.
		Eventually(func() error { return s.client.Create(ctx, newCluster(s.namespace, "admins", email)) }).Should(Succeed())
		for _, spelling := range []string{email, strings.ToUpper(email)} {
			expectPolicyDenial(who.client.Create(ctx, newCluster(s.namespace, "metal", spelling)), policy, metav1.StatusReasonForbidden)
		}
		expectMalformed(who.client.Create(ctx, newCluster(s.namespace, "metal", email+"\n")), userEmailField, cluster)
		for _, odd := range oddRegions {
			expectRegionDenied(who.client.Create(ctx, regionField.naming(s.namespace, "metal", odd)), "metal", s.namespace, odd)
		}
		err := who.client.Create(ctx, cluster.DeepCopy(), client.DryRunAll)
		expectNotAllowed(err, userEmailField, cluster, who, email)

		By("to change, in every way")
		empty := newObject(clusterKind, s.namespace, "empty", with("spec.region", region))
		Expect(who.client.Create(ctx, empty)).To(Succeed())
		for _, way := range requests {
			if way.creates {
				continue
			}
			object := newCluster(s.namespace, "empty", email)
			expectNotAllowed(way.send(ctx, who.client, userEmailField, object), userEmailField, object, who, email)
		}

		By("but other writes are admitted")
		Expect(who.client.Patch(ctx, newObject(clusterKind, s.namespace, "admins"),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2,"userEmail":"`+strings.ToUpper(email)+`"}}`)))).To(Succeed())

		By("until the permission is granted by the commands of the denial")
		w.kubectl(ctx, printed(err))
		Eventually(func() error { return who.client.Create(ctx, cluster.DeepCopy()) }).Should(Succeed())
		other := newCluster(s.namespace, "other", "other-"+email)
		expectNotAllowed(who.client.Create(ctx, other.DeepCopy()), userEmailField, other, who, "other-"+email)
	}, SpecTimeout(2*timeout))

	It("is removed by uninstall", func(ctx SpecContext) {
		_, err := w.gate.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
		Expect(errors.Join(w.client.List(ctx, &policies), w.client.List(ctx, &bindings))).To(Succeed())
		Expect(policies.Items).To(BeEmpty())
		Expect(bindings.Items).To(BeEmpty())
	}, SpecTimeout(timeout))
})

// withoutWarrantgate stops warrantgate until the end of the spec, with webhooks that then admit all requests.
func (w *world) withoutWarrantgate(ctx context.Context) story {
	GinkgoHelper()
	_, err := w.gate.Install(ctx, "--failure-policy=Ignore")
	Expect(err).NotTo(HaveOccurred())
	Expect(w.gate.Stop()).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // the context of the spec has ended by then
		Expect(w.gate.Start(ctx)).To(Succeed())
	})
	return story{world: w, namespace: w.namespace(ctx)}
}

// installWithoutPolicy installs the objects of an earlier release, which had only webhooks.
func (w *world) installWithoutPolicy(ctx context.Context, policy string) {
	GinkgoHelper()
	binding, definition := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, &admissionregistrationv1.ValidatingAdmissionPolicy{}
	binding.Name, definition.Name = policy, policy
	Expect(w.client.Delete(ctx, binding)).To(Succeed())
	Expect(w.client.Delete(ctx, definition)).To(Succeed())
}
