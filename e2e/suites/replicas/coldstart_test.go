//go:build e2e

package replicas_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func coldStarts() {
	It("may be down: the objects that it needs to start are not gated, writes of all others are retried, and one replica is enough to continue", func(ctx SpecContext) {
		s := chaos.begin(ctx)
		for _, r := range chaos.replicas {
			r.kill(ctx)
		}
		Expect(s.checkVerdicts(ctx)).To(MatchError(ContainSubstring("failed calling webhook")))
		Expect(s.instanceID(ctx)).To(BeEmpty())

		By("the objects of warrantgate and of the API server are not gated")
		for _, excluded := range []string{namespace, metav1.NamespaceSystem} {
			for _, object := range needed(excluded) {
				Expect(chaos.admin.Create(ctx, object)).To(Succeed(), "%T in %s", object, excluded)
			}
		}
		By("objects without an identity are not gated")
		Expect(chaos.admin.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other"}})).To(Succeed())
		Expect(chaos.admin.Create(ctx, machine(s.namespace, "other", "pool"))).To(Succeed())
		Expect(chaos.admin.Delete(ctx, s.machine)).To(Succeed())

		By("one replica starts")
		chaos.replicas[0].serve(ctx)
		Expect(chaos.begin(ctx).checkVerdicts(ctx)).To(Succeed())
		chaos.replicas[1].serve(ctx)
	}, SpecTimeout(timeout))
}

// needed are objects of the kinds that warrantgate's own installation has, with labels that a gate would select in other namespaces.
func needed(namespace string) []client.Object {
	about := metav1.ObjectMeta{Namespace: namespace, Name: "needed", Labels: selected}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "warrantgate", Image: "warrantgate"}}}
	return []client.Object{
		&coordinationv1.Lease{ObjectMeta: about},
		&corev1.ServiceAccount{ObjectMeta: about},
		&corev1.Secret{ObjectMeta: about, StringData: map[string]string{"policy.yaml": broken, "userEmail": "somebody@example.com"}},
		policy(namespace, about.Name, broken),
		&corev1.Pod{ObjectMeta: about, Spec: pod},
		&appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selected},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: pod},
		}},
	}
}
