//go:build e2e

package openstack_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Secret is checked even if no cluster refers to it: otherwise a cluster could be admitted with the former content of a Secret.
var _ = Describe("A Secret with a clouds.yaml", Ordered, ContinueOnFailure, first, func() {
	const field = "data[clouds.yaml]"
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "") }, NodeTimeout(setupTimeout))

	secretWith := func(s story, name string, auth entry) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
			StringData: map[string]string{"clouds.yaml": cloudsYAML(auth.with("auth_url", s.front.Endpoint()))},
		}
	}

	It("is denied with credentials that no cluster may act with, and admitted with others", func(ctx SpecContext) {
		s := w.begin(ctx, member, loadBalancer)
		poor := s.password(s.newUser(ctx, "poor", member))
		expectDenial(s.client.Create(ctx, secretWith(s, "own", poor)), "RoleMissing", field,
			`cloud "openstack" of Secret "own": user "poor" in project "project"`)
		Expect(s.client.Create(ctx, secretWith(s, "own", s.password(s.user)))).To(Succeed())

		By("also on an update, which leaves the content unchanged")
		expectDenial(s.client.Update(ctx, secretWith(s, "own", poor)), "RoleMissing", field, `user "poor"`)
		Expect(held(ctx, s, "own")).To(ContainSubstring(s.user.ID))
	}, SpecTimeout(timeout))
})

func held(ctx context.Context, s story, name string) string {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, secret)).To(Succeed())
	return string(secret.Data["clouds.yaml"])
}
