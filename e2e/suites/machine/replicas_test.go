//go:build e2e

package machine_test

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
)

var _ = Describe("two replicas of warrantgate", Ordered, func() {
	var (
		w      *world
		second *kubetest.Warrantgate
		// left is a machine that the audit reports.
		left string
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: oftenAudited, before: func(w *world) {
			user := w.user("replicas@example.com")
			left = w.namespace(ctx)
			Expect(w.client.Create(ctx, newCluster(left, clusterName, user.Email))).To(Succeed())
			w.leaveMachine(ctx, left, "left", "00000000-9a47-4b6e-8f21-7c9d0e1f2a3b")
		}})
		awaitAuditing(ctx, w.gate)
		second = w.replica(ctx)
		Expect(second.Start(ctx)).To(Succeed())
		DeferCleanup(second.Stop)
	}, NodeTimeout(setupTimeout))

	It("run the audit in one of them", func(ctx SpecContext) {
		w.awaitAudits(ctx, 3)
		Expect(auditsOf(ctx, second)).To(BeZero())
		Expect(second.Metric(ctx, "warrantgate_audit_findings", nil)).To(BeZero(), "findings would be counted twice")
	}, SpecTimeout(timeout))

	It("run it in the other when the first is killed", func(ctx SpecContext) {
		w.gate.Kill()
		awaitAuditing(ctx, second) // once the Lease has expired, after 15 seconds
		Eventually(second.Metric).WithContext(ctx).WithArguments("warrantgate_audit_findings", map[string]string{"reason": "InstanceNotFound"}).
			Should(BeEquivalentTo(1))

		By("and keep it there after the first is started again")
		Expect(w.gate.Start(ctx)).To(Succeed())
		before, err := auditsOf(ctx, second)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (float64, error) { return auditsOf(ctx, second) }).Should(BeNumerically(">", before+2))
		Expect(auditsOf(ctx, w.gate)).To(BeZero())
	}, SpecTimeout(timeout))

	It("release the Lease at once when the first is terminated", func(ctx SpecContext) {
		lease := auditLease()
		Expect(w.client.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		Expect(holder).NotTo(BeEmpty())
		Expect(second.Stop()).To(Succeed())
		Expect(w.client.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(ptr.Deref(lease.Spec.HolderIdentity, "")).NotTo(Equal(holder), "the others would wait until the Lease expires")
		awaitAuditing(ctx, w.gate)
		Eventually(w.findings).WithContext(ctx).WithArguments("InstanceNotFound").Should(BeEquivalentTo(1))
	}, SpecTimeout(timeout))
})

// replica prepares another warrantgate with the configuration of the first. The API server still calls only the first.
func (w *world) replica(ctx context.Context) *kubetest.Warrantgate {
	GinkgoHelper()
	configuration, err := os.ReadFile(w.gate.ConfigFile())
	Expect(err).NotTo(HaveOccurred())
	second, err := kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{
		Configuration: string(configuration),
		Args:          []string{"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		log, err := os.ReadFile(second.LogFile())
		Expect(err).NotTo(HaveOccurred())
		for _, secret := range w.cloud.Secrets() {
			Expect(strings.Contains(string(log), secret)).To(BeFalse(), "a secret in the log of the second replica")
		}
	})
	return second
}

// awaitAuditing returns once a replica runs the audit.
func awaitAuditing(ctx context.Context, gate *kubetest.Warrantgate) {
	GinkgoHelper()
	Eventually(func() (float64, error) { return auditsOf(ctx, gate) }).Should(BeNumerically(">", 0))
}

// runsOf is the number of audits of a replica since its start.
func auditsOf(ctx context.Context, gate *kubetest.Warrantgate) (float64, error) {
	return gate.Metric(ctx, "warrantgate_audit_runs_total", nil)
}
