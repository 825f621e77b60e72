//go:build e2e

package sharded_test

import (
	"context"
	"time"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// lag is the time without the cache server, in which kcp's shards do not observe each other's objects.
const lag = 5 * time.Second

var _ = Describe("On several shards, without the webhook", Ordered, ContinueOnFailure, func() {
	var writing string

	BeforeAll(func(ctx SpecContext) {
		_, err := gate.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		withoutGates, err := kcptest.NewWarrantgate(ctx, kcp.Server, kcptest.WarrantgateOptions{Configuration: onlyRepair})
		Expect(err).NotTo(HaveOccurred())
		_, err = withoutGates.InstallOnly(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			_, err := gate.Install(ctx)
			Expect(err).NotTo(HaveOccurred())
		})
		writing, err = kcp.KubeconfigFile("writing", kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(startTimeout))

	// serve runs a serve that repairs, until the spec ends.
	serve := func(ctx context.Context) *kcptest.Warrantgate {
		GinkgoHelper()
		w, err := kcptest.NewWarrantgate(ctx, kcp.Server, kcptest.WarrantgateOptions{
			Configuration: onlyRepair, Args: []string{"--logical-cluster-kubeconfig=" + writing},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Start(ctx)).To(Succeed())
		DeferCleanup(func() error { return w.Stop() })
		return w
	}

	DescribeTable("stuck workspaces are explained and repaired, on the shard of the service account and on the other",
		func(ctx SpecContext, own, other string) {
			home := newPlace(ctx, own)
			create(ctx, home.bot, "near", own)
			create(ctx, home.bot, "far", other)
			for _, name := range []string{"near", "far"} {
				Eventually(ctx, explain).WithArguments(ctx, home.Path+":"+name).Should(And(
					HaveField("Status", 1), HaveField("Stdout", ContainSubstring("OwnerForeign")),
					HaveField("Stdout", ContainSubstring("service account default/bot of "+home.Path+", foreign in the workspace"))))
			}
			serve(ctx)
			for name, shard := range map[string]string{"near": own, "far": other} {
				home.expectWorking(ctx, home.WaitReady(ctx, name), shard)
				Eventually(ctx, explain).WithArguments(ctx, home.Path+":"+name).Should(HaveField("Status", 0))
			}
		},
		Entry("from the root shard", kcptest.RootShard, kcptest.SecondShard, SpecTimeout(specTimeout)),
		Entry("from another shard", kcptest.SecondShard, kcptest.RootShard, SpecTimeout(specTimeout)),
	)

	It("workspaces of a type that extends warranted wait until their owner is valid, on the shard of the service account and on the other", func(ctx SpecContext) {
		home := newPlace(ctx, kcptest.SecondShard)
		extending := home.extendingType(ctx)
		serve(ctx)
		for name, shard := range map[string]string{"near": kcptest.SecondShard, "far": kcptest.RootShard} {
			create(ctx, home.bot, name, shard, extending)
			home.expectWorking(ctx, home.WaitReady(ctx, name), shard)
		}
	}, SpecTimeout(specTimeout))

	It("a shard that is down when serve starts delays its own workspaces only, and is watched once it is up", func(ctx SpecContext) {
		home := newPlace(ctx, kcptest.RootShard)
		extending := home.extendingType(ctx)
		create(ctx, home.bot, "near", kcptest.RootShard)
		create(ctx, home.bot, "far", kcptest.SecondShard)
		impersonated := home.Admin()
		impersonated.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:bot"}
		create(ctx, impersonated, "near-impersonated", kcptest.RootShard)
		Eventually(ctx, explain).WithArguments(ctx, home.Path+":far").Should(And(HaveField("Status", 1), HaveField("Stdout", ContainSubstring("Initializing"))))
		kcp.KillShard(kcptest.SecondShard)
		DeferCleanup(func(ctx SpecContext) { // for the other specs, if this one fails
			Expect(kcp.StartShard(ctx, kcptest.SecondShard)).To(Succeed())
		}, NodeTimeout(startTimeout))

		w := serve(ctx)
		home.expectWorking(ctx, home.WaitReady(ctx, "near"), kcptest.RootShard)
		home.expectWorking(ctx, home.WaitReady(ctx, "near-impersonated"), kcptest.RootShard)
		create(ctx, home.bot, "near-warranted", kcptest.RootShard, extending)
		home.expectWorking(ctx, home.WaitReady(ctx, "near-warranted"), kcptest.RootShard)
		// The Workspace is on the shard that is up, and has all the information. The front-proxy denies requests to a logical cluster that it has
		// not observed, and answers with 502 to others.
		Expect(explain(ctx, home.Path+":far")).To(And(HaveField("Status", 1), HaveField("Stdout", And(
			ContainSubstring("OwnerForeign"), ContainSubstring("Undetermined"), MatchRegexp(`the shard that has \S+ is down`)))))

		Expect(kcp.StartShard(ctx, kcptest.SecondShard)).To(Succeed())
		home.expectWorking(ctx, home.WaitReady(ctx, "far"), kcptest.SecondShard)
		create(ctx, home.bot, "far-warranted", kcptest.SecondShard, extending)
		home.expectWorking(ctx, home.WaitReady(ctx, "far-warranted"), kcptest.SecondShard)
		Expect(w.Stop()).To(Succeed(), "serve was not restarted, and stops gracefully")
	}, SpecTimeout(specTimeout))

	It("the repair waits for objects that a shard has not observed yet, and does not decide without them", func(ctx SpecContext) {
		home := newPlace(ctx, kcptest.SecondShard)
		extending := home.extendingType(ctx)
		w := serve(ctx)
		resume := kcp.SuspendCacheServer()
		create(ctx, home.bot, "plain", kcptest.RootShard)
		create(ctx, home.bot, "warranted", kcptest.RootShard, extending)
		time.AfterFunc(lag, resume)
		for _, name := range []string{"plain", "warranted"} {
			ws := home.WaitReady(ctx, name)
			home.expectWorking(ctx, ws, kcptest.RootShard)
			events, err := kcptest.Events(ctx, home.Admin(), ws)
			Expect(err).NotTo(HaveOccurred())
			for i := range events {
				Expect(events[i].Type).To(Equal("Normal"), "%s: %s", events[i].Reason, events[i].Message)
			}
		}
		for _, metric := range []string{"warrantgate_repairs_total", "warrantgate_initializations_total"} {
			for _, outcome := range []string{"failed", "not-correctable"} {
				Expect(w.Metric(ctx, metric, map[string]string{"outcome": outcome})).To(BeZero(), metric+" "+outcome)
			}
		}
	}, SpecTimeout(specTimeout))
})

// onlyRepair enables only the repair and the initializer.
const onlyRepair = `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
workspace:
  ownerRewrite: {mode: "Off"}
  ownerIntegrity: {mode: "Off"}
repair: {after: 2s}
`

// extendingType creates a WorkspaceType that extends warranted, and waits until kcp observes it.
func (p place) extendingType(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	ofType, err := kcptest.CreateWorkspaceType(ctx, p.Admin(), p.Path, &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "extending"},
		Spec: tenancyv1alpha1.WorkspaceTypeSpec{Extend: tenancyv1alpha1.WorkspaceTypeExtension{
			With: []tenancyv1alpha1.WorkspaceTypeReference{{Path: "root", Name: "universal"}, {Path: "root", Name: "warranted"}},
		}},
	})
	Expect(err).NotTo(HaveOccurred())
	return ofType
}

func explain(ctx context.Context, path string) suite.Output {
	GinkgoHelper()
	return asAdmin(ctx, "explain", "workspace", path)
}

// asAdmin runs a command of warrantgate as an administrator of root.
func asAdmin(ctx context.Context, args ...string) suite.Output {
	GinkgoHelper()
	return suite.Warrantgate(ctx, append(args, "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")...)
}
