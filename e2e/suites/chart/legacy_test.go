//go:build e2e

package chart_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operators whose provider still has one account for all clusters give its credentials to the chart, too.
var _ = Describe("A release with legacy credentials", func() {
	It("evaluates machines with that account, beside impersonation", func(ctx SpecContext) {
		const email, password = "operator@example.com", "legacy-password-of-the-chart"
		w := startWorld(ctx)
		w.addCloud(ctx)
		account := w.cloud.AddUser(email)
		w.cloud.AllowPassword(email, password)
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloudsigma-credentials"},
			StringData: map[string]string{"username": email, "password": password},
		}
		Expect(w.admin.Create(ctx, secret)).To(Succeed())
		DeferCleanup(w.admin.Delete, secret)
		w.values["cloudSigma"].(map[string]any)["legacySecret"] = secret.Name //nolint:errcheck,forcetypeassert // addCloud has put it there
		config := w.values["config"].(map[string]any)                         //nolint:errcheck,forcetypeassert // startWorld has put it there
		config["machine"] = map[string]any{"unknown": "Deny"}
		cloud := config["cloudSigma"].(map[string]any) //nolint:errcheck,forcetypeassert // addCloud has put it there
		cloud["legacyAPI"], cloud["defaultRegion"] = w.cloud.LegacyAPITemplate(), region
		w.install(ctx)
		w.pod.startReady(ctx, w.admin)

		tenancy := w.newNamespace(ctx)
		// naming is a machine of a cluster without a user, which names a server.
		naming := func(name, server string) *unstructured.Unstructured {
			machine := withoutCluster("CloudSigmaMachine", "cloudsigma://")
			machine.SetNamespace(tenancy)
			machine.SetName(name)
			machine.Object["spec"] = map[string]any{"providerID": "cloudsigma://" + server}
			return machine
		}
		own, foreign := w.cloud.AddServer(region, account, "own"), w.cloud.AddServer(region, w.cloud.AddUser(tenant), "foreign")
		var err error
		Eventually(func() bool { // until the API server calls the webhooks
			err = w.admin.Create(ctx, naming("foreign", foreign.UUID), client.DryRunAll)
			return apierrors.HasStatusCause(err, "InstanceNotOwned")
		}).WithContext(ctx).Should(BeTrue(), func() string { return err.Error() })
		Expect(err).To(MatchError(ContainSubstring("is not one of the shared account (legacy credentials)")))
		Expect(w.admin.Create(ctx, naming("own", own.UUID))).To(Succeed())
	}, SpecTimeout(storyTimeout))
})
