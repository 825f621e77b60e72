//go:build e2e

package stories_test

import (
	"context"
	"fmt"
	"os"
	"time"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Each alert of the chart fires on a real Prometheus that reads the metrics of warrantgate and of the API server. It runs first, so that
// no other spec has caused an alert before. "make stories" leaves it out, because Prometheus takes minutes to build.
var _ = Describe("Alerts", Label("prometheus"), SpecPriority(1), func() {
	It("fire when something is wrong, and the dashboard shows it", func(ctx SpecContext) {
		since := time.Now()
		// Its controller manager gate has no selector. Its certificate is valid for a day, as that of all warrantgates here.
		caFile, err := kube.cloud.CAFile(kube.server.Dir())
		Expect(err).NotTo(HaveOccurred())
		inactive, err := kubetest.NewWarrantgate(ctx, kube.server, kubetest.WarrantgateOptions{
			Args: []string{"--impersonation-enabled", "--impersonation-secret=capcs-system/" + credentials},
			Configuration: fmt.Sprintf(`apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}
controllerManager: {allowCSIToken: true}
`, kube.cloud.APITemplate(), kube.cloud.ServiceProviderTemplate(), caFile),
		})
		Expect(err).NotTo(HaveOccurred())
		p := startPrometheus(ctx, kube.server.Config(), kcp.gate.MetricsAddress(), kube.gate.MetricsAddress(), inactive.MetricsAddress())
		Eventually(ctx, p.firing).Should(Equal([]string{"WarrantgateCertificateExpires"}))

		By("a gate that is not active")
		Expect(inactive.Start(ctx)).To(Succeed())
		DeferCleanup(inactive.Stop)
		Eventually(ctx, p.firing).Should(Equal([]string{"WarrantgateCertificateExpires", "WarrantgateGateInactive"}))
		Expect(inactive.Stop()).To(Succeed())
		Eventually(ctx, p.firing).Should(Equal([]string{"WarrantgateCertificateExpires"}))

		By("a workspace whose initializer never finishes")
		home := newPlace(ctx)
		home.create(ctx, home.bot, home.WorkspaceType(ctx, "waiting", tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true}))
		Eventually(ctx, p.firing).Should(ContainElement("WarrantgateStuckWorkspaces"))

		By("no permission to write Events any more")
		events := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate-events"}}
		shard := suite.KCPClient(kcp.server.ShardAdmin("system:admin"))
		Expect(shard.Get(ctx, client.ObjectKeyFromObject(events), events)).To(Succeed())
		Expect(shard.Delete(ctx, events)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			events.ObjectMeta = metav1.ObjectMeta{Name: events.Name, Labels: events.Labels, Annotations: events.Annotations}
			Expect(shard.Create(ctx, events)).To(Succeed())
		})
		attempts := 0
		Eventually(ctx, func(ctx context.Context) ([]string, error) { // kcp observes the deletion a moment later
			attempts++
			suite.CreateWorkspace(ctx, home.bot, fmt.Sprintf("silent-%d", attempts))
			return p.firing(ctx)
		}).WithPolling(3 * time.Second).Should(ContainElement("WarrantgateEventsFailed"))

		By("one claim, of a server of another user, while warrantgate is down")
		t, other := begin(ctx), begin(ctx)
		stale, own := other.server("worker"), t.server("worker")
		machine := t.machine(ctx)
		Expect(kube.gate.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kube.gate.Start(ctx)).To(Succeed()) })
		Expect(claim(ctx, t.client, machine, stale)).To(Succeed())
		Eventually(ctx, p.firing).Should(And(ContainElement("WarrantgateBypassedWhileUnavailable"), Not(ContainElement("WarrantgateCannotBeReached"))))
		trying := func(ctx context.Context) ([]string, error) { // as a provider does
			Expect(claim(ctx, t.client, machine, own)).NotTo(Succeed())
			return p.firing(ctx)
		}
		Eventually(ctx, trying).WithPolling(time.Second).Should(ContainElement("WarrantgateCannotBeReached"))
		Expect(kube.gate.Start(ctx)).To(Succeed())
		Eventually(ctx, p.firing).Should(ContainElement("WarrantgateAuditFindings"))

		By("a cloud that does not answer")
		failure := kube.cloud.Fail(cloudsigmatest.Hang(), 0, cloudsigmatest.GetServer)
		DeferCleanup(failure.Release)
		Eventually(ctx, trying).WithPolling(time.Second).Should(ContainElements("WarrantgateCannotDecide", "WarrantgateSlow"))
		failure.Release()

		By("the dashboard")
		var without []string
		for _, panel := range dashboard() {
			for _, query := range panel.Targets {
				if names, _ := p.query(ctx, query, since); len(names) == 0 {
					without = append(without, fmt.Sprintf("%s %q %s", panel.Type, panel.Title, query.RefID))
				}
			}
		}
		Expect(without).To(ConsistOf( // what did not happen here
			`timeseries "Ownership lookups" B`, `timeseries "Rejected callers" A`, `timeseries "Repair and initializer" B`))
		if file := os.Getenv(pictureEnv); file != "" {
			p.draw(ctx, file, since)
		}

		By("no warrantgate")
		Expect(kube.gate.Stop()).To(Succeed())
		Expect(kcp.gate.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kcp.gate.Start(ctx)).To(Succeed()) })
		Eventually(ctx, p.firing).Should(ContainElement("WarrantgateAbsent"))
	}, SpecTimeout(10*time.Minute))
})
