//go:build e2e

package workspace_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/asset"
	"warrantgate.dev/e2e/kcptest"
)

// Where both the webhook and the initializer run, the webhook comes first.
var _ = Describe("A service account's workspace of a type that extends warranted", func() {
	It("is left to the webhook, and the initializer finds nothing to do", func(ctx SpecContext) {
		home := newPlace(ctx, guarded)
		writing, err := guarded.KubeconfigFile("writing", guarded.Person("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
		Expect(err).NotTo(HaveOccurred())
		binary, err := asset.Path(asset.Warrantgate)
		Expect(err).NotTo(HaveOccurred())
		// A replica that kcp does not call: its webhooks are registered nowhere.
		initializing, err := kcptest.NewWarrantgate(ctx, guarded, kcptest.WarrantgateOptions{
			Binary: binary, Args: []string{"--logical-cluster-kubeconfig=" + writing},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(initializing.Start(ctx)).To(Succeed())
		DeferCleanup(func() error { return initializing.Stop() })

		extending := home.extendingType(ctx, "extending", "universal", "warranted")
		bot := home.serviceAccount(ctx, "bot")
		create(ctx, bot, "child", extending)
		child := waitReady(ctx, home.admin(), "child")
		expectAtHome(ctx, bot, child.Spec.Cluster)

		Expect(initializations(ctx, initializing, "fine")).To(BeNumerically(">=", 1))
		for _, outcome := range []string{"healed", "unhealable", "failed"} {
			Expect(initializations(ctx, initializing, outcome)).To(BeZero(), outcome)
		}
		Eventually(ctx, home.reasonsOf).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten"}))
		events, err := kcptest.Events(ctx, home.admin(), child)
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
