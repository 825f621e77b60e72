//go:build e2e

package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// audited returns the Events of the audit in a workspace, as "reason kind/name: message", without duplicates.
func audited(ctx context.Context, config *rest.Config) ([]string, error) {
	events := &corev1.EventList{}
	if err := unstructuredClient(config).List(ctx, events); err != nil {
		return nil, err
	}
	var found []string
	for i := range events.Items {
		event := &events.Items[i]
		if message, ok := strings.CutPrefix(event.Message, "Audit: "); ok {
			found = append(found, fmt.Sprintf("%s %s/%s: %s", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, message))
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// finding is a line of the log about a finding.
type finding struct {
	Msg, Cluster, Reason, Name, Instance, User string
}

// logged returns the findings in a log, without duplicates.
func logged(file string) ([]finding, error) {
	log, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found []finding
	for line := range strings.Lines(string(log)) {
		var f finding
		if json.Unmarshal([]byte(line), &f) == nil && f.Msg == "finding" && !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	return found, nil
}

// customer adds a user of the cloud that warrantgate may act as.
func customer(email string) cloudsigmatest.User {
	GinkgoHelper()
	user := cloud.AddUser(email)
	Expect(cloud.AllowImpersonation(incident.Client.ID, email)).To(Succeed())
	return user
}

var _ = Describe("the audit of a provider", func() {
	It("reports in each workspace only its own problems", func(ctx SpecContext) {
		tenant, other := customer("audit@example.com"), customer("other-audit@example.com")
		first, second, others := consumer(ctx, tenant.Email), consumer(ctx, tenant.Email), consumer(ctx, other.Email)
		stolen := cloud.AddServer(incident.Region, tenant, "stolen")
		shared := cloud.AddServer(incident.Region, tenant, "shared")
		orphan := cloud.AddServer(incident.Region, tenant, "worker-of-nobody", cloudsigmatest.WithMeta("machine-uid", "11111111-2222-4333-8444-555555555555"))
		left := cloud.AddServer(incident.Region, other, "left", cloudsigmatest.WithMeta("machine-uid", "66666666-2222-4333-8444-555555555555"))
		lost := cloud.AddServer(incident.Region, other, "lost")
		name := func(config *rest.Config, machine string, server cloudsigmatest.Server) {
			GinkgoHelper()
			Expect(unstructuredClient(config).Create(ctx, object("CloudSigmaMachine", machine, "pool", map[string]any{}))).To(Succeed())
			if server.UUID != "" {
				Expect(setInstanceID(ctx, config, object("CloudSigmaMachine", machine, "pool", nil), server.UUID)).To(Succeed())
			}
		}
		name(first, "stolen", stolen)
		name(first, "twin", shared)
		name(second, "twin", shared)
		name(others, "lost", cloudsigmatest.Server{})
		cloud.RemoveServer(stolen.UUID)
		cloud.AddServer(incident.Region, other, "taken", cloudsigmatest.WithUUID(stolen.UUID))

		auditor := startAuditor(ctx)
		in := func(config *rest.Config) func() ([]string, error) {
			return func() ([]string, error) { return audited(ctx, config) }
		}
		conflict := "InstanceIDConflict CloudSigmaMachine/twin: 2 machines name instance " + shared.UUID +
			", which can be that of one only; not all of them are in this workspace"
		Eventually(in(first)).Should(ConsistOf(
			conflict,
			fmt.Sprintf(`InstanceNotOwned CloudSigmaMachine/stolen: instance %s exists, but is not one of user %q in region %q, which cluster "pool" acts as; `+
				"clear the field, so that the provider adopts an instance of the user or creates one", stolen.UUID, tenant.Email, incident.Region)))
		Eventually(in(second)).Should(ConsistOf(conflict))
		Eventually(in(others)).Should(ConsistOf( // after the second run
			fmt.Sprintf("InstanceNotNamed CloudSigmaMachine/lost: instance %s (%q) of user %q in region %q was created for this machine, which names none; "+
				"if the provider does not adopt it, delete it", lost.UUID, "lost", other.Email, incident.Region),
			fmt.Sprintf("InstanceOrphaned CloudSigmaCluster/pool: instance %s (%q) of user %q in region %q was created for a machine that does not exist here; "+
				"delete it if nothing else uses it", left.UUID, "left", other.Email, incident.Region)))

		By("an orphan of a user of two workspaces is in the log and the metric only")
		Expect(logged(auditor.LogFile())).To(ContainElements(
			finding{Msg: "finding", Reason: "InstanceOrphaned", Instance: orphan.UUID, User: tenant.Email},
			finding{Msg: "finding", Cluster: clusterOf(ctx, others), Reason: "InstanceOrphaned", Name: "pool", Instance: left.UUID, User: other.Email},
			finding{Msg: "finding", Cluster: clusterOf(ctx, second), Reason: "InstanceIDConflict", Name: "twin", Instance: shared.UUID}))
		Expect(auditor.Metric(ctx, "warrantgate_audit_findings", map[string]string{"platform": "kcp", "reason": "InstanceIDConflict"})).To(BeNumerically(">=", 2))
		for _, config := range []*rest.Config{first, second, others} {
			events, err := audited(ctx, config)
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Join(events, "\n")).NotTo(ContainSubstring(orphan.UUID))
		}

		By("a conflict that is resolved is not reported again")
		Expect(setInstanceID(ctx, second, object("CloudSigmaMachine", "twin", "pool", nil), "")).To(Succeed())
		Eventually(func() (float64, error) {
			return auditor.Metric(ctx, "warrantgate_audit_findings", map[string]string{"platform": "kcp", "reason": "InstanceIDConflict"})
		}).Should(BeZero())
	}, SpecTimeout(specTimeout))
})

// startAuditor starts another serve, which audits every second, and installs its permissions.
func startAuditor(ctx context.Context) *kcptest.Warrantgate {
	GinkgoHelper()
	options := options
	options.Configuration += "audit: {interval: 1s, requestsPerSecond: 1000, providers: [{workspace: root:provider, apiExport: " + exportName + "}]}\n"
	auditor, err := kcptest.NewWarrantgate(ctx, kcp, options)
	Expect(err).NotTo(HaveOccurred())
	_, err = gate.InstallOnly(ctx, "--config="+auditor.ConfigFile())
	Expect(err).NotTo(HaveOccurred())
	installProvider(ctx, auditor.ConfigFile())
	Expect(auditor.Start(ctx)).To(Succeed())
	DeferCleanup(auditor.Stop)
	return auditor
}
