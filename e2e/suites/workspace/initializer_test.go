//go:build e2e

package workspace_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// Where both the webhook and the initializer run, the webhook rewrites the owner before the initializer runs.
var _ = Describe("A service account's workspace of a type that extends warranted", func() {
	It("is rewritten by the webhook, and the initializer changes nothing", func(ctx SpecContext) {
		home := newPlace(ctx)
		extending := home.ExtendingType(ctx, "extending", "universal", "warranted")
		bot := home.ServiceAccount(ctx, "bot")
		suite.CreateWorkspace(ctx, bot, "child", extending)

		By("waiting until only the initializer is left")
		held, err := kcptest.WaitWorkspace(ctx, home.Admin(), "child", func(ws *tenancyv1alpha1.Workspace) error {
			if !slices.Equal(ws.Status.Initializers, []corev1alpha1.LogicalClusterInitializer{"root:warranted"}) {
				return fmt.Errorf("it waits for %v", ws.Status.Initializers)
			}
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
		before, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(held.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		Expect(before.Annotations[kcptest.OwnerAnnotation]).To(And(ContainSubstring(home.GlobalName("bot")), ContainSubstring("authorization.kcp.io/warrant")), "the webhook has rewritten the owner")

		By("starting the initializer")
		writing, err := kcp.KubeconfigFile("writing", kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
		Expect(err).NotTo(HaveOccurred())
		// A replica that kcp does not call: its webhooks are registered nowhere.
		initializing, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{
			Args: []string{"--logical-cluster-kubeconfig=" + writing},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(initializing.Start(ctx)).To(Succeed())
		DeferCleanup(func() error { return initializing.Stop() })

		child := home.WaitReady(ctx, "child")
		expectAtHome(ctx, bot, child.Spec.Cluster)

		Expect(initializations(ctx, initializing, "fine")).To(BeNumerically(">=", 1))
		for _, outcome := range []string{"repaired", "not-correctable", "failed"} {
			Expect(initializations(ctx, initializing, outcome)).To(BeZero(), outcome)
		}
		after, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Spec).To(Equal(before.Spec))
		Expect(slices.Collect(maps.Keys(after.Annotations))).To(ConsistOf(slices.Collect(maps.Keys(before.Annotations))), "it has no annotation of the repair")
		Eventually(ctx, home.Reasons).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten"}))
		events, err := kcptest.Events(ctx, home.Admin(), child)
		Expect(err).NotTo(HaveOccurred())
		for i := range events {
			Expect(events[i].Message).NotTo(ContainSubstring("At initialization"))
		}
	}, SpecTimeout(specTimeout))
})

func initializations(ctx context.Context, w *kcptest.Warrantgate, outcome string) float64 {
	GinkgoHelper()
	count, err := w.Metric(ctx, "warrantgate_initializations_total", map[string]string{"outcome": outcome})
	Expect(err).NotTo(HaveOccurred())
	return count
}
