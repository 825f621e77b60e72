//go:build e2e

package attacks_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// auditedRun is in the line that the audit logs after each run.
const auditedRun = `"msg":"audited"`

// startUngated exports the kinds from another provider's workspace in which no gate is installed, so that tenants can write everything there,
// as before an installation. It starts a serve that audits them every second, and returns the path of the workspace.
func (w *kcpWorld) startUngated(ctx SpecContext) (path string, auditor *kcptest.Warrantgate) {
	GinkgoHelper()
	const name = "ungated"
	path = "root:" + name
	suite.ReadyWorkspace(ctx, w.kcp.Admin("root"), name)
	provider := w.kcp.Admin(path)
	exportKinds(ctx, provider)

	options := w.options
	options.Configuration += "machine: {mode: \"Off\"}\ncluster: {impersonation: {mode: \"Off\"}}\n" +
		"audit: {interval: 1s, requestsPerSecond: 1000, providers: [{workspace: \"" + path + "\", apiExport: " + exportName + "}]}\n"
	auditor, err := kcptest.NewWarrantgate(ctx, w.kcp, options)
	Expect(err).NotTo(HaveOccurred())
	_, err = w.gate.InstallOnly(ctx, "--config="+auditor.ConfigFile())
	Expect(err).NotTo(HaveOccurred())
	w.installProvider(ctx, provider, auditor.ConfigFile())
	Expect(auditor.Start(ctx)).To(Succeed())
	DeferCleanup(auditor.Stop)
	return path, auditor
}

// tenantOf creates the owner of a workspace who binds the kinds of the provider at path.
func (w *kcpWorld) tenantOf(ctx context.Context, path, name string) owner {
	GinkgoHelper()
	who := w.newOwner(ctx, name)
	Expect(kcptest.Bind(ctx, who.config, path, exportName, machineKind)).To(Succeed())
	who.client = suite.UnstructuredClient(who.recorder.Listen(who.config))
	return who
}

// The audit reads the objects of all workspaces together, and no gate has checked these.
var _ = Describe("the audit of a provider on kcp", func() {
	It("writes nothing about one workspace into another one, whatever is in the objects", func(ctx SpecContext) {
		w := kcp(ctx)
		path, auditor := w.startUngated(ctx)
		attacker, victim := w.tenantOf(ctx, path, "mallory"), w.tenantOf(ctx, path, "victim")
		own, theirs := w.user(attacker.name+"@example.com"), w.user(victim.name+"@example.com")
		server := w.server(theirs, "worker")
		orphan := w.cloud.AddServer(region, theirs, "orphan", cloudsigmatest.WithMeta("machine-uid", "11111111-2222-4333-8444-555555555555"))
		Expect(victim.client.Create(ctx, newCluster(victim.namespace, "pool", theirs.Email))).To(Succeed())
		Expect(victim.client.Create(ctx, newMachine(victim.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + server.UUID}))).To(Succeed())

		By("machines that name the server and the orphan of the other tenant, by names that exist there, and an annotation")
		Expect(attacker.client.Create(ctx, newCluster(attacker.namespace, "own", own.Email))).To(Succeed())
		for name, machine := range map[string]struct{ cluster, uuid string }{
			"worker":     {"pool", server.UUID}, // the cluster exists in the other workspace only
			"of-own":     {"own", server.UUID},
			"of-nothing": {"", server.UUID},
			"orphan":     {"own", orphan.UUID},
		} {
			created := newMachine(attacker.namespace, name, machine.cluster, map[string]any{"providerID": "cloudsigma://" + machine.uuid})
			created.SetAnnotations(map[string]string{clusterAnnotation: victim.cluster})
			Expect(attacker.client.Create(ctx, created)).To(Succeed())
			for _, to := range []string{"../services/x", "*", "null", victim.cluster} { // no gate denies it
				Expect(attacker.client.Patch(ctx, created.DeepCopy(), moved(to, ""))).To(Succeed())
			}
		}

		By("a machine whose cluster is of a kind that the attacker exports itself, and that names the other tenant")
		eve := w.newOwner(ctx, "eve")
		eve.exportOwn(ctx, clusterKind)
		Expect(kcptest.Bind(ctx, eve.config, path, exportName, machineKind)).To(Succeed())
		forger := suite.UnstructuredClient(eve.config)
		Expect(forger.Create(ctx, newCluster(eve.namespace, "pool", theirs.Email))).To(Succeed())
		Expect(forger.Create(ctx, newMachine(eve.namespace, "forged", "pool", map[string]any{"providerID": "cloudsigma://" + server.UUID}))).To(Succeed())
		Eventually(func() []string { return gateEvents(ctx, eve) }).Should(ConsistOf(
			HavePrefix(`ClusterMissing: Audit: it belongs to cluster "pool", which does not exist here, or does not come from the provider's APIExport`)))

		By("waiting for findings in the workspace of the attacker")
		Eventually(func() []string { return gateEvents(ctx, attacker) }).Should(ContainElements(
			ContainSubstring(`ClusterMissing: Audit: it belongs to cluster "pool", which does not exist here`),
			ContainSubstring("InstanceNotOwned: Audit: instance "+server.UUID), ContainSubstring("InstanceNotOwned: Audit: instance "+orphan.UUID),
			ContainSubstring("MachineWithoutCluster: Audit: ")))
		By("the other tenant gets only the finding about its own orphan, which the attacker cannot hide")
		runs := func() int { return strings.Count(suite.Log(auditor), auditedRun) }
		before := runs()
		Eventually(runs).Should(BeNumerically(">", before+1))
		Eventually(func() []string { return gateEvents(ctx, victim) }).Should(ConsistOf(HavePrefix("InstanceOrphaned: Audit: instance " + orphan.UUID)))
		for _, text := range gateEvents(ctx, attacker) {
			for _, secret := range []string{theirs.Email, theirs.UUID, victim.cluster, victim.name} {
				Expect(text).NotTo(ContainSubstring(secret))
			}
			Expect(text).NotTo(HavePrefix("InstanceIDConflict: Audit: 4"), "it counts the machine of the other workspace")
		}
	}, SpecTimeout(startTimeout+time.Minute))
})
