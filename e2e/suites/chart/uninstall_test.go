//go:build e2e

package chart_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
)

// helm uninstall removes the webhooks while warrantgate still runs, and leaves no object of the chart.
var _ = Describe("helm uninstall", func() {
	It("removes the webhooks first, and then all other objects", func(ctx SpecContext) {
		w := newWorld(ctx)
		serve := w.pod.startReady(ctx, w.admin)
		Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
		Eventually(func() error { return w.admin.Get(ctx, lease, &coordinationv1.Lease{}) }).Should(Succeed())
		deletions := w.watchDeletions(ctx, &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &corev1.ServiceList{}, &appsv1.DeploymentList{})
		_, err := charttest.Helm(ctx, "", "uninstall", release, "--namespace="+namespace, "--kubeconfig="+api.AdminKubeconfig(), "--wait")
		Expect(err).NotTo(HaveOccurred())
		// The first deletion is the configuration with the webhooks. The second is its replacement without webhooks.
		Eventually(deletions.inOrder).Should(HaveExactElements("webhooks", "no webhooks", "service", "deployment"))
		Expect(serve.Alive()).To(Succeed())

		By("listing the remaining objects")
		Expect(w.left(ctx)).To(BeEmpty())
		Expect(w.author.Create(ctx, policy(w.newNamespace(ctx), "policy", broken))).To(Succeed())
	}, SpecTimeout(timeout))
})

// To continue without warrantgate, an operator removes the gates as the README describes, and restores them later.
var _ = Describe("Without its gates", func() {
	It("every write is admitted, until helm upgrade restores them", func(ctx SpecContext) {
		w := newWorld(ctx) // no warrantgate runs in it
		Eventually(func() error {
			return w.admin.Create(ctx, policy(metav1.NamespaceDefault, "policy", sound), client.DryRunAll)
		}).
			Should(MatchError(ContainSubstring("failed calling webhook")))
		Expect(w.admin.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: release}})).To(Succeed())
		Eventually(func() error {
			return w.admin.Create(ctx, policy(metav1.NamespaceDefault, "policy", broken), client.DryRunAll)
		}).Should(Succeed())

		w.upgrade(ctx)
		w.pod.startReady(ctx, w.admin)
		Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(timeout))
})

// left are the remaining objects of the chart, helm or warrantgate, by their kinds. It does not contain other objects: the namespace,
// objects that Kubernetes creates in each namespace, and Events on evaluated objects.
func (w *world) left(ctx context.Context) []string {
	GinkgoHelper()
	var left []string
	for kind, list := range map[string]client.ObjectList{
		"MutatingWebhookConfiguration":   &admissionregistrationv1.MutatingWebhookConfigurationList{},
		"ValidatingWebhookConfiguration": &admissionregistrationv1.ValidatingWebhookConfigurationList{},
		"ClusterRole":                    &rbacv1.ClusterRoleList{}, "ClusterRoleBinding": &rbacv1.ClusterRoleBindingList{},
	} {
		for _, name := range w.names(ctx, list) {
			if strings.HasPrefix(name, release) || strings.HasSuffix(name, ".warrantgate.dev") {
				left = append(left, kind)
			}
		}
	}
	for kind, list := range map[string]client.ObjectList{
		"ServiceAccount": &corev1.ServiceAccountList{}, "ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{},
		"Service": &corev1.ServiceList{}, "Deployment": &appsv1.DeploymentList{}, "Role": &rbacv1.RoleList{},
		"RoleBinding": &rbacv1.RoleBindingList{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
		"NetworkPolicy": &networkingv1.NetworkPolicyList{}, "Lease": &coordinationv1.LeaseList{},
	} {
		for _, name := range w.names(ctx, list, client.InNamespace(namespace)) {
			if name == rootCA {
				continue
			}
			left = append(left, kind+"/"+name)
		}
	}
	return left
}

func (w *world) names(ctx context.Context, list client.ObjectList, options ...client.ListOption) []string {
	GinkgoHelper()
	Expect(w.admin.List(ctx, list, options...)).To(Succeed())
	var names []string
	Expect(meta.EachListItem(list, func(object runtime.Object) error {
		named, err := meta.Accessor(object)
		if err == nil {
			names = append(names, named.GetName())
		}
		return err
	})).To(Succeed())
	return names
}
