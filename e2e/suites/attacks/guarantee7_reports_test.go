//go:build e2e

package attacks_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// Guarantee 7, for reports and the IDs of providers whose cloud is not asked.
var _ = Describe("the editor of a namespace whose reports a quota forbids, with many objects of one ID", Serial, func() {
	It("keeps neither the report nor an ID of another namespace from being written", func(ctx SpecContext) {
		w := kube(ctx)
		crd, err := kubetest.ReportCRD(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.api.ApplyCRDs(ctx, crd, kubetest.OpenCRD(rentedKind, "v2"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(w.admin.Delete(ctx, crd)).To(Succeed()) })
		w.configure(ctx, strings.Replace(rentedConfiguration, "audit: {interval: 24h}", "audit: {interval: 1s, requestsPerSecond: 1000, reports: true}", 1))
		attacker, victim := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		report := func(who tenant) client.Object {
			return newObject(openreports.SchemeGroupVersion.WithKind("Report"), who.namespace, "warrantgate", nil)
		}

		By("a quota, whose status the controller manager copies")
		none := corev1.ResourceList{"count/reports.openreports.io": resource.MustParse("0")}
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: attacker.namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
		Expect(attacker.client.Create(ctx, quota)).To(Succeed())
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		Expect(w.admin.Status().Update(ctx, quota)).To(Succeed())
		Eventually(func() error { return attacker.client.Create(ctx, report(attacker), client.DryRunAll) }).Should(MatchError(ContainSubstring("exceeded quota")))

		By("objects with one ID, which the audit checks again after each change")
		const id = "rented:///hall-7/0001"
		var objects errgroup.Group
		objects.SetLimit(16)
		for i := range volume.Of(300, 5000) {
			objects.Go(func() error {
				return attacker.client.Create(ctx, rentedServer(attacker, "v1", fmt.Sprintf("server-%d", i), id))
			})
		}
		Expect(objects.Wait()).To(Succeed())

		for _, who := range []tenant{attacker, victim} {
			own := w.user(who.name + "@example.com")
			w.permit(ctx, who.name, own.Email)
			Expect(who.client.Create(ctx, newCluster(who.namespace, "pool", own.Email))).To(Succeed())
			Expect(who.client.Create(ctx, newMachine(who.namespace, "worker", "pool",
				map[string]any{"providerID": "cloudsigma://" + w.server(own, "worker").UUID}))).To(Succeed())
		}
		Eventually(func() error { return w.admin.Get(ctx, client.ObjectKeyFromObject(report(victim)), report(victim)) }).Should(Succeed())
		Expect(victim.client.Create(ctx, rentedServer(victim, "v1", "mine", "rented:///hall-8/0001"))).To(Succeed())
		Expect(victim.client.Create(ctx, rentedServer(victim, "v1", "taken", id))).To(MatchError(ContainSubstring("ask your administrator")))

		By("the operator, who sees whose report is missing")
		Eventually(func() (float64, error) {
			return w.gate.Metric(ctx, "warrantgate_audit_reports_total", map[string]string{"outcome": "failed"})
		}).Should(BeNumerically(">", 0))
		Eventually(suite.Log).WithArguments(w.gate).Should(And(ContainSubstring("reports could not be written; the next run tries again"), ContainSubstring("of the namespaces [\\\""+attacker.namespace+"\\\"]")))
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(report(attacker)), report(attacker))).To(MatchError(apierrors.IsNotFound, "not found"))

		By("the attacker, without the quota")
		Expect(attacker.client.Delete(ctx, quota)).To(Succeed())
		Eventually(func() error { return w.admin.Get(ctx, client.ObjectKeyFromObject(report(attacker)), report(attacker)) }).Should(Succeed())
	}, SpecTimeout(startTimeout))
})
