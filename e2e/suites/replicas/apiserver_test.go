//go:build e2e

package replicas_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func apiServers() {
	It("may restart: no other process restarts, and a replica that starts during that time waits for it", func(ctx SpecContext) {
		s := chaos.begin(ctx)
		Expect(s.checkVerdicts(ctx)).To(Succeed())
		pids := []int{chaos.replicas[0].process.PID(), chaos.replicas[1].process.PID()}
		late := chaos.newReplica(ctx)

		Expect(chaos.api.KillAPIServer(ctx)).To(Succeed())
		late.start()
		Eventually(late.live).WithContext(ctx).WithArguments(ctx).Should(BeTrue())
		for _, r := range chaos.replicas {
			Expect(r.live(ctx)).To(BeTrue())
			Expect(r.isReady()).To(BeTrue(), "its caches have synced")
		}
		Consistently(late.isReady).WithContext(ctx).Should(BeFalse(), "its caches have not synced")
		Expect(chaos.api.StartAPIServer(ctx)).To(Succeed())
		late.awaitServing(ctx)

		By("watches work again: a replica observes a change of the cluster")
		Expect(s.setInstanceID(ctx, s.machine, "")).To(Succeed()) // a cluster with an instance cannot change its user
		heir := chaos.user("heir-of-" + s.user.Email)
		pool := cluster(s.namespace, "pool", s.user.Email)
		Expect(s.admin.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		Expect(unstructured.SetNestedField(pool.Object, heir.Email, "spec", "userEmail")).To(Succeed())
		Expect(s.admin.Update(ctx, pool)).To(Succeed())
		for i, r := range append(chaos.replicas, late) {
			chaos.only(ctx, r, func() {
				Eventually(func() error {
					return verdict{reason: "InstanceNotOwned"}.check(s.setInstanceID(ctx, s.machine, chaos.cloud.AddServer(region, s.user, "before").UUID))
				}).WithContext(ctx).Should(Succeed(), "replica %d", i)
				Expect(s.setInstanceID(ctx, s.machine, chaos.cloud.AddServer(region, heir, "after").UUID)).To(Succeed(), "replica %d", i)
			})
		}
		late.terminate(ctx)
		for i, r := range chaos.replicas {
			Expect(r.process.PID()).To(Equal(pids[i]), "the replica was not restarted")
		}
	}, SpecTimeout(timeout))
}
