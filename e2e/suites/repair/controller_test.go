//go:build e2e

package repair_test

import (
	"context"
	"fmt"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// requiredGroups is the annotation with the groups that are required for access.
const requiredGroups = "authorization.kcp.io/required-groups"

// many is the number of stuck workspaces after an outage of the webhook.
var many = volume.Of(10, 50)

// A platform team runs serve, and stuck workspaces become Ready by themselves.
var _ = Describe("the repair that serve runs", func() {
	It("writes nothing in mode Warn, and reports", func(ctx SpecContext) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)
		before := atRest(ctx, p, child)
		w := serve(ctx, "Warn")
		Eventually(ctx, func() string {
			return kcptest.Describe(ctx, p.Admin(), "child")
		}).Should(And(ContainSubstring("OwnerNotRewritten"), ContainSubstring("the repair only warns")))
		Expect(versions(ctx, p, child)).To(Equal(before))
		Expect(repairedBy(ctx, w)).To(BeZero())
	}, SpecTimeout(specTimeout))

	It("never writes the workspace of a user who is in scope", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
		ws := suite.CreateWorkspace(ctx, kcp.User(p.Path, "alice"), "local")
		ws = p.WaitReady(ctx, ws.Name)
		before := atRest(ctx, p, ws)

		By("waiting until another workspace is repaired")
		p.stuck(ctx, p.bot)
		serve(ctx, "Enforce")
		p.WaitReady(ctx, "child")
		Expect(versions(ctx, p, ws)).To(Equal(before))
	}, SpecTimeout(specTimeout))

	It("repairs many workspaces, although serve is killed during the repair", func(ctx SpecContext) {
		p := newPlace(ctx)
		makeStuck(ctx, p, many)
		w := serve(ctx, "Enforce")
		Eventually(ctx, func() float64 { return repairedBy(ctx, w) }).Should(BeNumerically(">=", many/10))
		w.Kill()
		Expect(w.Restart(ctx)).To(Succeed())
		expectAllReady(ctx, p, many)
	}, SpecTimeout(2*specTimeout))

	It("runs in one replica, and in another after that has stopped", func(ctx SpecContext) {
		p := newPlace(ctx)
		first := serve(ctx, "Enforce")
		Eventually(ctx, suite.Log).WithArguments(first).Should(ContainSubstring("this replica holds the Lease"))
		second := serve(ctx, "Enforce")

		makeStuck(ctx, p, 3)
		expectAllReady(ctx, p, 3)
		Expect(repairedBy(ctx, first)).To(BeNumerically(">=", 3))
		Expect(repairedBy(ctx, second)).To(BeZero())
		Expect(suite.Log(second)).NotTo(ContainSubstring("this replica holds the Lease"))

		By("killing the replica that holds the Lease")
		first.Kill()
		q := newPlace(ctx)
		makeStuck(ctx, q, 3)
		expectAllReady(ctx, q, 3)
		Expect(repairedBy(ctx, second)).To(BeNumerically(">=", 3))
	}, SpecTimeout(specTimeout))

	It("continues after a restart of kcp", func(ctx SpecContext) {
		p := newPlace(ctx)
		extending := p.extending(ctx)
		w := serve(ctx, "Enforce")
		p.stuck(ctx, p.bot)
		p.WaitReady(ctx, "child")
		Expect(kcp.Restart(ctx)).To(Succeed())

		By("repairing workspaces that are stuck since then, also through the initializer")
		suite.CreateWorkspace(ctx, p.bot, "after")
		suite.CreateWorkspace(ctx, p.bot, "extending", extending)
		for _, name := range []string{"after", "extending"} {
			suite.ExpectAtHome(ctx, p.bot, p.WaitReady(ctx, name).Spec.Cluster)
		}
		Expect(w.Stop()).To(Succeed(), "serve was not restarted, and stops gracefully")
	}, SpecTimeout(2*specTimeout))

	// The two ways of webhooks/workspace/README.md: kcp exempts service accounts, and a user needs a group of its own in the clause.
	It("repairs and writes Events in a workspace that requires groups", func(ctx SpecContext) {
		groups, kubeconfig := "team-a", reading
		exempt, err := kcp.AdmitsServiceAccounts()
		Expect(err).NotTo(HaveOccurred())
		if !exempt {
			const own = "warrantgate-events"
			groups += ";" + own
			kubeconfig, err = kcp.KubeconfigFile(own, kcp.User("root", kcptest.WarrantgateUser, own))
			Expect(err).NotTo(HaveOccurred())
		}
		p := newPlace(ctx)
		p.RequireGroups(ctx, groups)
		admin := suite.KCPClient(kcp.ShardAdmin(p.Path))
		Eventually(ctx, func() map[string]string { // kcp copies the requirement to new workspaces after it has observed it
			probe := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
			kcptest.OfType("root", "universal")(probe)
			Expect(admin.Create(ctx, probe, client.DryRunAll)).To(Succeed())
			return probe.Annotations
		}).Should(HaveKey(requiredGroups))
		child := p.stuck(ctx, p.bot)
		Expect(child.Annotations).To(HaveKeyWithValue(requiredGroups, groups))
		startAs(ctx, kubeconfig, "repair: {mode: Enforce, after: 2s}\n", "--logical-cluster-kubeconfig="+writing)
		p.WaitReady(ctx, "child")
		Eventually(ctx, func() string { return kcptest.Describe(ctx, p.Admin(), "child") }).Should(ContainSubstring("OwnerRewritten"))
	}, SpecTimeout(specTimeout))

	It("names the group that it needs to write LogicalClusters", func(ctx SpecContext) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)
		before := atRest(ctx, p, child)
		start(ctx, "Enforce", "--logical-cluster-kubeconfig="+reading)
		Eventually(ctx, func() string {
			return kcptest.Describe(ctx, p.Admin(), "child")
		}).Should(And(ContainSubstring("RepairFailed"), ContainSubstring("as the group system:kcp:external-logical-cluster-admin")))
		Expect(versions(ctx, p, child)).To(Equal(before))
	}, SpecTimeout(specTimeout))
})

// serve runs a warrantgate that may repair, until the spec ends.
func serve(ctx context.Context, mode string) *kcptest.Warrantgate {
	GinkgoHelper()
	return start(ctx, mode, "--logical-cluster-kubeconfig="+writing)
}

// serveSlowly runs a warrantgate whose repair treats no workspace as stuck during a spec.
func serveSlowly(ctx context.Context) *kcptest.Warrantgate {
	GinkgoHelper()
	return startWith(ctx, "repair: {after: 1h}\n", "--logical-cluster-kubeconfig="+writing)
}

func start(ctx context.Context, mode string, args ...string) *kcptest.Warrantgate {
	GinkgoHelper()
	return startWith(ctx, fmt.Sprintf("repair: {mode: %s, after: 2s}\n", mode), args...)
}

func startWith(ctx context.Context, repair string, args ...string) *kcptest.Warrantgate {
	GinkgoHelper()
	return startAs(ctx, reading, repair, args...)
}

// startAs is startWith as the user of another kubeconfig than reading.
func startAs(ctx context.Context, kubeconfig, repair string, args ...string) *kcptest.Warrantgate {
	GinkgoHelper()
	w, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{
		Configuration: withoutGates + repair, Kubeconfig: kubeconfig, Args: args,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(w.Start(ctx)).To(Succeed())
	DeferCleanup(func() { _ = w.Stop() }) // the spec may have killed it
	return w
}

// makeStuck creates workspaces as the service account, and waits until all are stuck.
func makeStuck(ctx context.Context, p place, count int) {
	GinkgoHelper()
	createMany(ctx, p, count)
	for i := range count {
		p.waitScheduled(ctx, childName(i))
	}
}

// createMany creates workspaces as the service account, with limited concurrency.
func createMany(ctx context.Context, p place, count int) {
	GinkgoHelper()
	var creators errgroup.Group
	creators.SetLimit(8)
	for i := range count {
		creators.Go(func() error {
			_, err := kcptest.CreateWorkspace(ctx, p.bot, childName(i))
			return err
		})
	}
	Expect(creators.Wait()).To(Succeed())
}

func childName(i int) string { return fmt.Sprintf("child-%d", i) }

func expectAllReady(ctx context.Context, p place, count int) {
	GinkgoHelper()
	for i := range count {
		p.WaitReady(ctx, childName(i))
	}
}

func repairedBy(ctx context.Context, w *kcptest.Warrantgate) float64 {
	GinkgoHelper()
	repaired, err := w.Metric(ctx, "warrantgate_repairs_total", map[string]string{"outcome": "repaired"})
	Expect(err).NotTo(HaveOccurred())
	return repaired
}
