//go:build e2e

package replicas_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// loadTimeout is how long all admissions may take. On a machine with nothing else to do it is two minutes and a half: as long as
	// it takes to drain, and a little.
	loadTimeout = 20 * time.Minute
	// turns is how often all replicas are replaced, one crashes, and all get another certificate.
	turns = 3
)

var _ = Describe("Three replicas", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, 3, 0) }, NodeTimeout(startTimeout))

	It("judge every admission as it has to be while they end, crash, come back and change their certificates", func(ctx SpecContext) {
		load := w.newLoad(ctx)
		done := make(chan struct{})
		var leaving []*replica
		go func() {
			defer GinkgoRecover()
			defer close(done)
			for turn := range turns {
				for i := range w.replicas {
					leaving = append(leaving, w.replace(ctx, i))
					load.awaitMore(ctx)
				}
				crashed := w.replicas[turn]
				// What is under way on a replica that is killed is lost: the API server does not ask again when a connection breaks
				// under a review. So no admission is under way here; another story is about one that is.
				load.between(func() { crashed.kill(ctx) })
				crashed.serve(ctx)
				load.awaitMore(ctx)
				if turn == 1 {
					w.certify(ctx, newPair(w.authority))
				} else {
					w.changeAuthority(ctx)
				}
				load.awaitMore(ctx)
			}
			for _, r := range leaving {
				r.awaitEnd(ctx)
			}
		}()
		began := time.Now()
		load.run(ctx, done)
		AddReportEntry("load", fmt.Sprintf("%d admissions in %s; %d replicas ended in order, and %d crashed", load.made.Load(), time.Since(began), len(leaving), turns))
		Expect(load.wrong).To(BeEmpty())
		Expect(load.made.Load()).To(BeNumerically(">=", admissions))
		for _, r := range append(leaving, w.replicas...) {
			_, accepted := w.balancer.connections(r.backend)
			Expect(accepted).To(BeNumerically(">", 0), "each replica was asked")
		}
	}, SpecTimeout(loadTimeout))
})

// replace has another replica serve in place of one, which is told to end and returned, as in a rolling update.
func (w *world) replace(ctx context.Context, i int) *replica {
	GinkgoHelper()
	leaving := w.replicas[i]
	other := w.newReplica(ctx)
	other.serve(ctx)
	Expect(leaving.process.Signal(syscall.SIGTERM)).To(Succeed())
	Eventually(leaving.isReady).WithContext(ctx).Should(BeFalse())
	w.replicas[i] = other
	return leaving
}
