//go:build e2e

package attacks_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

// A denial only proves something if the attacker has the permission to write the object.
var _ = Describe("the attackers", func() {
	It("the editor of a namespace can write everything in it, and nothing elsewhere", func(ctx SpecContext) {
		w := kube(ctx)
		attacker, other := w.editor(ctx, w.namespace(ctx)), w.namespace(ctx)
		own := w.user(attacker.name + "@example.com")
		w.permit(ctx, attacker.name, own.Email)
		server := w.server(own, "worker")
		Expect(attacker.client.Create(ctx, newCluster(attacker.namespace, "pool", own.Email))).To(Succeed())
		Expect(attacker.client.Create(ctx, newMachine(attacker.namespace, "worker", "pool",
			map[string]any{"providerID": "cloudsigma://" + server.UUID}))).To(Succeed())
		Expect(attacker.client.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: attacker.namespace, Name: "any"}})).To(Succeed())
		Expect(apierrors.IsForbidden(attacker.client.List(ctx, &corev1.SecretList{}, client.InNamespace(other)))).To(BeTrue())
	}, SpecTimeout(startTimeout))

	It("the owner of a workspace is cluster-admin in it, and has no permission elsewhere", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, other := w.owner(ctx, "attacker"), w.victim(ctx)
		own := w.user(attacker.name + "@example.com")
		w.permit(ctx, attacker.name, own.Email)
		server := w.server(own, "worker")
		Eventually(func() error { // until kcp observes the permission
			return attacker.client.Create(ctx, newCluster(attacker.namespace, "pool", own.Email))
		}).Should(Succeed())
		Expect(attacker.client.Create(ctx, newMachine(attacker.namespace, "worker", "pool",
			map[string]any{"providerID": "cloudsigma://" + server.UUID}))).To(Succeed())
		Expect(attacker.as(attacker.name, nil, map[string][]string{"authorization.kcp.io/warrant": {"{}"}}).List(ctx, &corev1.SecretList{})).To(Succeed())
		elsewhere, err := client.New(kcptest.In(attacker.config, other.path), client.Options{})
		if err == nil {
			err = elsewhere.List(ctx, &corev1.SecretList{})
		}
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(startTimeout))
})
