//go:build e2e

package replicas_test

import (
	"context"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// stopsAuditing is the log message of a replica that no longer holds the Lease of the audit.
	stopsAuditing = "this replica does not hold the Lease"
	// leaseSeconds is the duration of a Lease. It is free after that time without a renewal.
	leaseSeconds = 15
)

func leases() {
	It("may be deleted: one replica runs the audit", func(ctx SpecContext) {
		chaos.awaitAuditor(ctx)
		Expect(chaos.admin.Delete(ctx, chaos.lease(ctx))).To(Succeed())
		Expect(chaos.begin(ctx).checkVerdicts(ctx)).To(Succeed())
		Eventually(func() error { return chaos.admin.Get(ctx, leaseKey, &coordinationv1.Lease{}) }).WithContext(ctx).Should(Succeed())
		chaos.awaitAuditor(ctx)
	}, SpecTimeout(timeout))

	It("may have another holder: no replica runs the audit until the Lease of that holder expires, and admissions continue", func(ctx SpecContext) {
		leader := chaos.replicas[chaos.awaitAuditor(ctx)]
		stopped := strings.Count(leader.log(), stopsAuditing)
		Eventually(func() error {
			lease := chaos.lease(ctx)
			lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("somebody-else"), ptr.To(metav1.NowMicro())
			lease.Spec.LeaseDurationSeconds = ptr.To[int32](leaseSeconds)
			return chaos.admin.Update(ctx, lease) // a conflict if it was renewed
		}).WithContext(ctx).Should(Succeed())
		Eventually(func() int { return strings.Count(leader.log(), stopsAuditing) }).WithContext(ctx).Should(BeNumerically(">", stopped))
		Expect(chaos.begin(ctx).checkVerdicts(ctx)).To(Succeed())
		chaos.awaitAuditor(ctx)
	}, SpecTimeout(timeout))

	It("may be lost by a suspended replica: the other runs the audit, and still does after the first is resumed", func(ctx SpecContext) {
		i := chaos.awaitAuditor(ctx)
		leader, other := chaos.replicas[i], chaos.replicas[1-i]
		stopped := strings.Count(leader.log(), stopsAuditing)
		Expect(leader.process.Signal(syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(func() { _ = leader.process.Signal(syscall.SIGCONT) }) // it can have ended
		before, err := other.runs(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(other.runs).WithContext(ctx).Should(BeNumerically(">", before))
		Expect(leader.process.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(func() int { return strings.Count(leader.log(), stopsAuditing) }).WithContext(ctx).Should(BeNumerically(">", stopped))
		Eventually(leader.isReady).WithContext(ctx).Should(BeTrue())
		Expect(chaos.awaitAuditor(ctx)).To(Equal(1 - i))
	}, SpecTimeout(timeout))
}

// leaseKey is the Lease of the replica that runs the audit.
var leaseKey = client.ObjectKey{Namespace: namespace, Name: "warrantgate-audit"}

func (w *world) lease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(w.admin.Get(ctx, leaseKey, lease)).To(Succeed())
	return lease
}

// awaitAuditor returns the replica that runs the audit: it has made two more runs, and the others none.
func (w *world) awaitAuditor(ctx context.Context) int {
	GinkgoHelper()
	var leading int
	var before []float64
	Eventually(func(g Gomega) {
		now := w.runs(ctx, g)
		var active []int
		for i := range before {
			if now[i] != before[i] {
				active = append(active, i)
			}
		}
		if before == nil || len(active) > 1 {
			before = now // count from now
		}
		g.Expect(active).To(HaveLen(1))
		leading = active[0]
		g.Expect(now[leading]).To(BeNumerically(">=", before[leading]+2))
	}).WithContext(ctx).Should(Succeed())
	return leading
}

// runs are the numbers of audits of each replica since its start.
func (w *world) runs(ctx context.Context, g Gomega) []float64 {
	runs := make([]float64, len(w.replicas))
	for i, r := range w.replicas {
		var err error
		runs[i], err = r.runs(ctx)
		g.Expect(err).NotTo(HaveOccurred())
	}
	return runs
}
