//go:build e2e

package chart_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// tenant is the CloudSigma user of the clusters.
	tenant = "tenant@example.com"
	// identityWebhook sets the identity of a controller manager. integrityWebhook denies one without it.
	identityWebhook, integrityWebhook = "controller-manager-identity.warrantgate.dev", "controller-manager-integrity.warrantgate.dev"
)

// Two webhooks, one of them mutating, control the identity of a cloud controller manager. The webhook configurations and permissions
// of the chart are sufficient for both.
var _ = Describe("The Deployment of a controller manager, where the chart is installed,", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.startCalled(ctx)
	}, NodeTimeout(timeout))

	DescribeTable("gets the identity of its cluster", func(ctx SpecContext, clusterName string) {
		made := manager(clusterName)
		made.Namespace = w.newTenancy(ctx)
		Expect(w.author.Create(ctx, made)).To(Succeed())
		Expect(made.Spec.Template.Spec.Containers[0].Env).To(Equal(identity()))
	},
		Entry("whose user a Secret names", "by-secret", SpecTimeout(timeout)),
	)

	It("is denied without an identity if the mutating webhook has set none", func(ctx SpecContext) {
		namespace := w.newTenancy(ctx)
		Expect(w.tryManager(ctx, namespace, "metal")).To(Succeed())
		Expect(w.admin.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: release}})).To(Succeed())
		Eventually(w.tryManager).WithArguments(ctx, namespace, "metal").Should(MatchError(And(
			ContainSubstring(`admission webhook %q denied the request`, integrityWebhook), ContainSubstring("CLOUDSIGMA_USER_EMAIL"))))
	}, SpecTimeout(timeout))
})

// startCalled starts the pod, and waits until the API server calls both kinds of webhooks.
func (w *world) startCalled(ctx context.Context) {
	GinkgoHelper()
	w.pod.startReady(ctx, w.admin)
	Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
	Eventually(w.tryManager).WithArguments(ctx, metav1.NamespaceDefault, "missing").
		Should(MatchError(ContainSubstring(`admission webhook %q denied the request`, identityWebhook)))
}

// tryManager creates, as the author and in a dry run, the Deployment of a controller manager of a cluster.
func (w *world) tryManager(ctx context.Context, namespace, clusterName string) error {
	tried := manager(clusterName)
	tried.Namespace = namespace
	return w.author.Create(ctx, tried, client.DryRunAll)
}

// newTenancy creates a namespace with clusters that act as the tenant: "metal" names the tenant, and "by-secret" refers to the Secret
// "user", which names the tenant.
func (w *world) newTenancy(ctx context.Context) string {
	GinkgoHelper()
	namespace := w.newNamespace(ctx)
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"}, StringData: map[string]string{"userEmail": tenant}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloudsigma-impersonation"},
			StringData: map[string]string{"oauth-url": "https://oauth.example.com", "client-id": "managers", "client-secret": "any"},
		},
		cluster(namespace, "metal", map[string]any{"region": region, "userEmail": tenant}),
		cluster(namespace, "by-secret", map[string]any{"region": region, "userRef": map[string]any{"name": "user"}}),
	} {
		Expect(w.admin.Create(ctx, object)).To(Succeed())
	}
	return namespace
}

// identity is the environment of a controller manager that acts as the tenant.
func identity() []corev1.EnvVar {
	fromKey := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "cloudsigma-impersonation"}, Key: key,
		}}}
	}
	return []corev1.EnvVar{
		{Name: "CLOUDSIGMA_IMPERSONATION_ENABLED", Value: "true"},
		fromKey("CLOUDSIGMA_OAUTH_URL", "oauth-url"), fromKey("CLOUDSIGMA_CLIENT_ID", "client-id"),
		fromKey("CLOUDSIGMA_CLIENT_SECRET", "client-secret"),
		{Name: "CLOUDSIGMA_USER_EMAIL", Value: tenant},
		{Name: "CLOUDSIGMA_REGION", Value: region},
	}
}
