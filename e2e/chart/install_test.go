//go:build e2e

package chart_test

import (
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What helm installs is enough to serve, and gates neither warrantgate nor the API server.
var _ = Describe("The chart", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(3*time.Minute))

	It("has a broken policy refused, and the refusal told", func(ctx SpecContext) {
		namespace := w.newNamespace(ctx)
		Expect(refusedByGate(w.author.Create(ctx, policy(namespace, "policy", broken)))).To(Succeed())
		Expect(w.author.Create(ctx, policy(namespace, "policy", sound))).To(Succeed())
		change := policy(namespace, "policy", broken)
		Expect(refusedByGate(w.admin.Update(ctx, change))).To(Succeed())
		Eventually(func() ([]corev1.Event, error) {
			events := &corev1.EventList{}
			err := w.admin.List(ctx, events, client.InNamespace(namespace))
			return events.Items, err
		}).Should(ContainElement(HaveField("Reason", "KeystonePolicyBroken")))
	}, SpecTimeout(timeout))

	DescribeTable("lets pass what it depends on itself", func(ctx SpecContext, namespace string) {
		Expect(w.admin.Create(ctx, policy(namespace, "ungated", broken), client.DryRunAll)).To(Succeed())
	},
		Entry("in its own namespace", namespace, SpecTimeout(timeout)),
		Entry("in the API server's", metav1.NamespaceSystem, SpecTimeout(timeout)),
	)

	It("has a cluster refused that would act as somebody else", func(ctx SpecContext) {
		namespace := w.newNamespace(ctx)
		err := w.author.Create(ctx, cluster(namespace, "metal", map[string]any{"userEmail": "tenant@example.com"}))
		Expect(apierrors.HasStatusCause(err, "ImpersonationNotAllowed")).To(BeTrue(), "%v", err)
	}, SpecTimeout(timeout))

	It("has its replicas agree in its own namespace on which one makes the audit", func(ctx SpecContext) {
		Eventually(func() error { return w.admin.Get(ctx, lease, &coordinationv1.Lease{}) }).Should(Succeed())
	}, SpecTimeout(timeout))

	It("answers the probe of liveness", func(ctx SpecContext) {
		Expect(w.pod.probe(ctx, "/healthz")).To(Equal(http.StatusOK))
	}, SpecTimeout(timeout))
})

// lease is the one by which one replica makes the audit.
var lease = client.ObjectKey{Namespace: namespace, Name: "warrantgate-audit"}
