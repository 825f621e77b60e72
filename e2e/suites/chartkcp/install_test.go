//go:build e2e

package chartkcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// The objects of the chart are sufficient for a kcp, and "helm test" reports whether warrantgate is called.
var _ = Describe("The chart beside a kcp", Ordered, func() {
	var w *world
	var serving *process.Process

	BeforeAll(func(ctx SpecContext) {
		w = begin()
		serving = w.install(ctx)
	}, NodeTimeout(startTimeout))

	AfterAll(func(ctx SpecContext) {
		Expect(w.helm(ctx, "uninstall", "--wait")).To(Succeed())
	}, NodeTimeout(specTimeout))

	It("installs the webhook configurations in root with a Job", func(ctx SpecContext) {
		Expect(w.kubelet.Output("warrantgate-kcp-install")).To(And(
			ContainSubstring(`root: MutatingWebhookConfiguration "warrantgate" created`),
			ContainSubstring(`root: ValidatingWebhookConfiguration "warrantgate" created`)))
	}, SpecTimeout(specTimeout))

	It("passes helm test, which leaves no objects", func(ctx SpecContext) {
		before := w.hostObjects(ctx)
		w.awaitCalled(ctx)
		Expect(w.helm(ctx, "test")).To(Succeed())
		Expect(w.kubelet.Output("warrantgate-test-kubernetes")).To(And(
			ContainSubstring("policies.keystone.warrantgate.dev: ok\n"), ContainSubstring("warrantgate denied the object: ")))
		Expect(w.kubelet.Output("warrantgate-test-kcp")).To(And(
			ContainSubstring("owner-rewrite.warrantgate.dev: ok\n"), ContainSubstring("the admission policy denied the object: ")))
		Expect(w.hostObjects(ctx)).To(Equal(before))
	}, SpecTimeout(specTimeout))

	It("changes the CA of both API servers in three upgrades", func(ctx SpecContext) {
		key := client.ObjectKey{Namespace: namespace, Name: release + "-certificate"}
		certificate := func() *corev1.Secret {
			secret := &corev1.Secret{}
			Expect(w.host.Get(ctx, key, secret)).To(Succeed())
			return secret
		}
		root := suite.KCPClient(w.kcp.Admin("root"))
		former := certificate().Data["ca.crt"]
		var next []byte
		for i, step := range []struct {
			change      func(secret *corev1.Secret)
			wantTrusted func() []byte
		}{
			{
				change:      func(secret *corev1.Secret) { delete(secret.Data, "ca.key") },
				wantTrusted: func() []byte { return slices.Concat(next, former) },
			},
			{
				change:      func(secret *corev1.Secret) { delete(secret.Annotations, "warrantgate.dev/renew-after") },
				wantTrusted: func() []byte { return slices.Concat(next, former) },
			},
			{
				change:      func(secret *corev1.Secret) { delete(secret.Data, "former-ca.crt") },
				wantTrusted: func() []byte { return next },
			},
		} {
			secret := certificate()
			step.change(secret)
			Expect(w.host.Update(ctx, secret)).To(Succeed())
			w.upgrade(ctx)
			next = certificate().Data["ca.crt"]
			Expect(next).NotTo(Equal(former))
			for _, c := range []client.Client{root, w.host} {
				configuration := registered()
				Expect(c.Get(ctx, client.ObjectKeyFromObject(configuration), configuration)).To(Succeed())
				Expect(configuration.Webhooks).To(HaveEach(HaveField("ClientConfig.CABundle", Equal(step.wantTrusted()))))
			}
			w.mount(ctx, "tls")
			Eventually(w.serves).WithContext(ctx).Should(Equal(certificate().Data[corev1.TLSCertKey]))
			w.awaitCalled(ctx)
			name := fmt.Sprintf("after-step-%d", i+1)
			suite.CreateWorkspace(ctx, bot, name)
			child := suite.WaitReady(ctx, w.kcp.Admin("root:provider"), name)
			Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, HaveSuffix(":default:bot")))
		}
	}, SpecTimeout(2*specTimeout))

	It("registers the former configuration in kcp after helm rollback", func(ctx SpecContext) {
		root := suite.KCPClient(w.kcp.Admin("root"))
		policies := func() []admissionregistrationv1.MutatingWebhook {
			mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
			Expect(root.Get(ctx, client.ObjectKey{Name: release}, mutating)).To(Succeed())
			return mutating.Webhooks
		}
		rewrite := func(policy admissionregistrationv1.FailurePolicyType) types.GomegaMatcher {
			return ContainElement(And(HaveField("Name", "owner-rewrite.warrantgate.dev"), HaveField("FailurePolicy", HaveValue(Equal(policy)))))
		}
		values := w.here()
		values["failurePolicy"] = admissionregistrationv1.Ignore
		changed, err := json.Marshal(values)
		Expect(err).NotTo(HaveOccurred())
		w.values = string(changed)
		w.upgrade(ctx)
		Expect(policies()).To(rewrite(admissionregistrationv1.Ignore))

		w.values = w.defaults
		w.rollback(ctx)
		Expect(policies()).To(rewrite(admissionregistrationv1.Fail))
	}, SpecTimeout(specTimeout))

	It("fails helm test if kcp does not call it, until helm upgrade restores the webhook configuration", func(ctx SpecContext) {
		root := suite.KCPClient(w.kcp.Admin("root"))
		mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: registered().Name}}
		Expect(root.Delete(ctx, mutating)).To(Succeed())
		Eventually(w.testing(ctx, "warrantgate-test-kcp")).WithContext(ctx).Should(And(
			ContainSubstring("owner-rewrite.warrantgate.dev: NOT REWRITTEN\n"),
			ContainSubstring(`webhook "owner-rewrite.warrantgate.dev" did not rewrite the object`),
			ContainSubstring("whether the webhook configuration is installed: kubectl get mutatingwebhookconfigurations warrantgate")))
		w.upgrade(ctx)
		w.awaitCalled(ctx)
		Expect(w.helm(ctx, "test")).To(Succeed())
	}, SpecTimeout(2*specTimeout))

	It("fails helm test if warrantgate does not respond, with that reason", func(ctx SpecContext) {
		Expect(serving.Stop()).To(Succeed())
		for _, pod := range []string{"warrantgate-test-kubernetes", "warrantgate-test-kcp"} {
			Expect(w.testing(ctx, pod)()).To(ContainSubstring("the API server cannot reach warrantgate: "))
		}
	}, SpecTimeout(specTimeout))
})

func registered() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: release}}
}

// bot creates the workspace root:provider, and returns a service account of it that may create workspaces there.
func (w *world) bot(ctx context.Context, options ...kcptest.WorkspaceOption) *rest.Config {
	GinkgoHelper()
	suite.ReadyWorkspace(ctx, w.kcp.Admin("root"), "provider", options...)
	admin := w.kcp.Admin("root:provider")
	config, err := kcptest.ServiceAccountOfAllShards(ctx, admin, "default", "bot")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, admin, kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
	return config
}
