//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Guarantee 7: one tenant cannot exhaust a gate for others.
var _ = Describe("the editor of a namespace who names random instances", Serial, func() {
	It("does not block another namespace's machine, and gets 429", func(ctx SpecContext) {
		w := kube(ctx)
		attacker, victim := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		users := map[string]cloudsigmatest.User{}
		for _, who := range []tenant{attacker, victim} {
			own := w.user(who.name + "@example.com")
			users[who.name] = own
			w.permit(ctx, who.name, own.Email)
			Expect(who.client.Create(ctx, newCluster(who.namespace, "pool", own.Email))).To(Succeed())
		}
		server := w.server(users[victim.name], "worker-1")

		const slow = 500 * time.Millisecond // a lookup takes this long, or twice if it is denied
		w.cloud.SetLatency(slow, cloudsigmatest.GetServer, cloudsigmatest.ListServers)
		DeferCleanup(func() { w.cloud.SetLatency(0) })
		flooding, stop := context.WithCancel(ctx)
		var flood sync.WaitGroup
		DeferCleanup(flood.Wait)
		DeferCleanup(stop)
		for i := range volume.Of(60, 500) {
			flood.Go(func() {
				defer GinkgoRecover()
				for flooding.Err() == nil {
					var options []client.CreateOption
					if i%2 == 0 {
						options = append(options, client.DryRunAll)
					}
					machine := newMachine(attacker.namespace, fmt.Sprintf("random-%d", i), "pool",
						map[string]any{"providerID": "cloudsigma://" + uuid.NewString()})
					Expect(attacker.client.Create(flooding, machine, options...)).NotTo(Succeed())
				}
			})
		}
		Eventually(attacker.recorder.Texts).WithContext(ctx).Should(And(
			ContainSubstring(`"code":429`), ContainSubstring(`"retryAfterSeconds":2`),
			ContainSubstring("too many machines of this namespace (on kcp: of this workspace) are being checked already; "+
				"send fewer at the same time, and try again in a few seconds")))

		By("the other namespace, in a dry run and in a write")
		for range 3 {
			Expect(victim.client.Create(ctx, newMachine(victim.namespace, "worker-1", "pool",
				map[string]any{"providerID": "cloudsigma://" + server.UUID}), client.DryRunAll)).To(Succeed())
		}
		Expect(victim.client.Create(ctx, newMachine(victim.namespace, "worker-1", "pool",
			map[string]any{"providerID": "cloudsigma://" + server.UUID}))).To(Succeed())
		Expect(victim.recorder.Texts()).To(BeEmpty(), "no attempt was denied and retried")

		By("the attacker, after it has stopped")
		stop()
		flood.Wait()
		w.cloud.SetLatency(0)
		Eventually(func() error {
			return attacker.client.Create(ctx, newMachine(attacker.namespace, "worker", "pool",
				map[string]any{"providerID": "cloudsigma://" + uuid.NewString()}))
		}).Should(MatchError(ContainSubstring("there is no such instance")))
	}, SpecTimeout(startTimeout))
})
