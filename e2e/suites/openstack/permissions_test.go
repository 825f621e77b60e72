//go:build e2e

package openstack_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/e2e/env/kubetest"
)

// Permissions for OpenStack are granted only if OpenStack is configured, and all of them are needed.
var _ = Describe("The permissions that install grants", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, "") }, NodeTimeout(setupTimeout))

	It("allow warrantgate to read, and to change nothing", func(ctx SpecContext) {
		for _, resource := range []string{"openstackclusters", "openstackmachines"} {
			Expect(w.mayDo(ctx, infrastructure.Group, resource)).To(ConsistOf("get", "list", "watch"), resource)
		}
		Expect(w.mayDo(ctx, "", "secrets")).To(ConsistOf("get"))
	}, SpecTimeout(timeout))

	It("are removed with the webhooks when OpenStack is no longer configured", func(ctx SpecContext) {
		Expect(w.hooks(ctx)).To(ContainElements("openstackclusters.delegation.warrantgate.dev",
			"openstackmachines.delegation.warrantgate.dev", "openstackmachines.machine.warrantgate.dev"))
		bare, err := kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = bare.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.hooks(ctx)).To(And(Not(BeEmpty()), Not(ContainElement(HavePrefix("openstack")))))
		for _, resource := range []string{"openstackclusters", "openstackmachines"} {
			Eventually(w.mayDo).WithContext(ctx).WithArguments(infrastructure.Group, resource).Should(BeEmpty(), resource)
		}
		_, err = w.gate.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.hooks(ctx)).To(ContainElement("openstackclusters.delegation.warrantgate.dev"))
	}, SpecTimeout(timeout))
})

// mayDo are the verbs on a resource that warrantgate may use.
func (w *world) mayDo(ctx context.Context, group, resource string) []string {
	GinkgoHelper()
	var may []string
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: kubetest.WarrantgateUser, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: metav1.NamespaceDefault},
		}}
		Expect(w.client.Create(ctx, review)).To(Succeed())
		if review.Status.Allowed {
			may = append(may, verb)
		}
	}
	return may
}
