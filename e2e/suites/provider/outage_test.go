//go:build e2e

package provider_test

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Nothing is watched on kcp: the audit compares the claims of two lists.
var _ = Describe("a first claim in an outage", func() {
	It("is admitted, and reported in its workspace after it, without waiting for a run of the audit", func(ctx SpecContext) {
		thief := customer("thief@example.com")
		config := consumer(ctx, thief.Email)
		foreign := cloud.AddServer(incident.Region, customer("robbed@example.com"), "worker")
		unanswered := cloud.AddServer(incident.Region, customer("robbed-late@example.com"), "late")
		another := cloud.AddServer(incident.Region, customer("robbed-too@example.com"), "unseen")
		made := func(name string) *unstructured.Unstructured {
			GinkgoHelper()
			machine := object("CloudSigmaMachine", name, "pool", map[string]any{})
			Expect(suite.UnstructuredClient(config).Create(ctx, machine)).To(Succeed())
			return machine
		}
		machine, late, unseen := made("worker"), made("late"), made("unseen")
		const admissions, runs = "warrantgate_admissions_total", "warrantgate_audit_runs_total"

		By("replacing the gate by one whose audit runs once an hour")
		former, withAudit := gate, options
		withAudit.Configuration += "audit: {interval: 1h, requestsPerSecond: 1000, providers: [{workspace: root:provider, apiExport: " + exportName + "}]}\n"
		auditing, err := kcptest.NewWarrantgate(ctx, kcp, withAudit)
		Expect(err).NotTo(HaveOccurred())
		_, err = former.InstallOnly(ctx, "--config="+auditing.ConfigFile()) // the permissions that the audit needs
		Expect(err).NotTo(HaveOccurred())
		Expect(auditing.Start(ctx)).To(Succeed())
		DeferCleanup(auditing.Stop)
		gate = auditing
		installProvider(ctx, auditing.ConfigFile())
		called := func(ctx context.Context, of *kcptest.Warrantgate) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				before, err := of.Metric(ctx, admissions, nil)
				g.Expect(err).NotTo(HaveOccurred())
				canary := object("CloudSigmaMachine", "canary", "pool", map[string]any{"providerID": "cloudsigma://no-uuid"})
				g.Expect(suite.UnstructuredClient(config).Create(ctx, canary, client.DryRunAll)).To(MatchError(ContainSubstring("machine.warrantgate.dev")))
				g.Expect(of.Metric(ctx, admissions, nil)).To(BeNumerically(">", before))
			}).Should(Succeed())
		}
		DeferCleanup(func(ctx SpecContext) {
			gate = former
			installProvider(ctx, former.ConfigFile())
			called(ctx, former)
		}, NodeTimeout(specTimeout))
		called(ctx, auditing)
		Eventually(func() (float64, error) { return auditing.Metric(ctx, runs, nil) }).Should(BeEquivalentTo(1))

		By("an outage of the cloud")
		down := cloud.Fail(cloudsigmatest.Status(http.StatusServiceUnavailable), 0, cloudsigmatest.GetServer)
		DeferCleanup(down.Release)
		Expect(setInstanceID(ctx, config, machine, foreign.UUID)).To(Succeed())

		By("a cloud that does not answer")
		silent := cloud.Fail(cloudsigmatest.Hang(), 0, cloudsigmatest.GetServer)
		down.Release()
		DeferCleanup(silent.Release)
		Expect(setInstanceID(ctx, config, late, unanswered.UUID)).To(Succeed())
		Expect(audited(ctx, config)).To(BeEmpty())
		silent.Release()
		Eventually(func() ([]string, error) { return audited(ctx, config) }).WithTimeout(2 * time.Minute).Should(ConsistOf(
			HavePrefix("InstanceNotOwned CloudSigmaMachine/worker: instance "+foreign.UUID+" exists, but is not one of user"),
			HavePrefix("InstanceNotOwned CloudSigmaMachine/late: instance "+unanswered.UUID+" exists, but is not one of user")))

		By("kcp no longer calls the gate")
		Expect(suite.KCPClient(provider).DeleteAllOf(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{})).To(Succeed())
		Eventually(setInstanceID).WithArguments(ctx, config, unseen, another.UUID).Should(Succeed())
		Eventually(func() ([]string, error) { return audited(ctx, config) }).WithTimeout(2 * time.Minute).Should(ContainElement(
			HavePrefix("InstanceNotOwned CloudSigmaMachine/unseen: instance " + another.UUID + " exists, but is not one of user")))
		Expect(auditing.Metric(ctx, runs, nil)).To(BeEquivalentTo(1), "there was no second run")
	}, SpecTimeout(specTimeout+time.Minute))
})
