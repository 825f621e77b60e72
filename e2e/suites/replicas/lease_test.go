//go:build e2e

package replicas_test

import (
	"context"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// stopsAuditing is the log message of a replica that no longer holds the Lease of the audit.
	stopsAuditing = "this replica does not hold the Lease"
)

func leases() {
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
