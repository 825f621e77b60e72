//go:build e2e

package stories_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cloud controller manager gets the identity of its cluster, and no other.
var _ = Describe("Controller manager", func() {
	It("gets the identity of its cluster, with credentials by reference only", func(ctx SpecContext) {
		t := begin(ctx)
		Expect(kube.giveCredentials(ctx, t.namespace)).To(Succeed())
		manager := newManager(t.namespace, clusterName, "")
		Expect(t.client.Create(ctx, manager)).To(Succeed())
		env := map[string]string{}
		for _, variable := range manager.Spec.Template.Spec.Containers[0].Env {
			if env[variable.Name] = variable.Value; variable.ValueFrom != nil {
				env[variable.Name] = variable.ValueFrom.SecretKeyRef.Name + "/" + variable.ValueFrom.SecretKeyRef.Key
			}
		}
		Expect(env).To(Equal(map[string]string{
			"CLOUDSIGMA_IMPERSONATION_ENABLED": "true", "CLOUDSIGMA_USER_EMAIL": t.user.Email, "CLOUDSIGMA_REGION": region,
			"CLOUDSIGMA_OAUTH_URL": credentials + "/oauth-url", "CLOUDSIGMA_CLIENT_ID": credentials + "/client-id",
			"CLOUDSIGMA_CLIENT_SECRET": credentials + "/client-secret",
		}))
	}, SpecTimeout(specTimeout))

	It("cannot act as another user, and kubectl describe shows it", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		Expect(kube.giveCredentials(ctx, t.namespace)).To(Succeed())
		err := t.client.Create(ctx, newManager(t.namespace, clusterName, other.user.Email))
		Expect(apierrors.HasStatusCause(err, "UserEmailMismatch")).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring(t.user.Email), ContainSubstring("CLOUDSIGMA_USER_EMAIL"))))

		manager := newManager(t.namespace, clusterName, "")
		Expect(t.client.Create(ctx, manager)).To(Succeed())
		changed := newManager(t.namespace, clusterName, other.user.Email)
		changed.UID, changed.ResourceVersion = manager.UID, manager.ResourceVersion
		Expect(apierrors.IsForbidden(t.client.Update(ctx, changed))).To(BeTrue())
		Eventually(describeObject).WithArguments(newManager(t.namespace, clusterName, "")).Should(MatchRegexp(`(?m)^ +Warning +UserEmailMismatch .*` + t.user.Email))
	}, SpecTimeout(specTimeout))

	It("cannot have the global credentials", func(ctx SpecContext) {
		t := begin(ctx)
		Expect(kube.giveCredentials(ctx, t.namespace)).To(Succeed())
		manager := newManager(t.namespace, clusterName, "")
		manager.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CLOUDSIGMA_USERNAME", Value: "operator@example.com"}}
		err := t.client.Create(ctx, manager)
		Expect(apierrors.HasStatusCause(err, "GlobalCredentials")).To(BeTrue(), "%v", err)
	}, SpecTimeout(specTimeout))

	It("is denied as long as its cluster does not exist", func(ctx SpecContext) {
		t := begin(ctx)
		err := t.client.Create(ctx, newManager(t.namespace, "lost", ""))
		Expect(apierrors.HasStatusCause(err, "ClusterMissing")).To(BeTrue(), "%v", err)
		Expect(apierrors.IsNotFound(kube.admin.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: "ccm"}, &appsv1.Deployment{}))).To(BeTrue())
	}, SpecTimeout(specTimeout))
})
