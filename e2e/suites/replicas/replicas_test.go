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
	// loadTimeout limits the time of all admissions. On an idle machine they take two and a half minutes: a little longer than the
	// drain.
	loadTimeout = 20 * time.Minute
	// turns is the number of times that all replicas are replaced, one crashes, and all get another certificate.
	turns = 3
)

var _ = Describe("Three replicas", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, 3, 0) }, NodeTimeout(startTimeout))

	It("give the expected verdict for every admission while they are terminated, crash, start and change their certificates", func(ctx SpecContext) {
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
				// An admission on a killed replica is lost: the API server does not retry when a connection breaks during a review.
				// So there is no admission at that time here; another spec tests one.
				load.between(func() { crashed.kill(ctx) })
				crashed.serve(ctx)
				load.awaitMore(ctx)
				if turn == 1 {
					w.certify(ctx, newPair(w.ca))
				} else {
					w.changeCA(ctx)
				}
				load.awaitMore(ctx)
			}
			for _, r := range leaving {
				r.awaitEnd(ctx)
			}
		}()
		began := time.Now()
		load.run(ctx, done)
		AddReportEntry("load", fmt.Sprintf("%d admissions in %s; %d replicas were terminated, and %d crashed", load.made.Load(), time.Since(began), len(leaving), turns))
		Expect(load.wrong).To(BeEmpty())
		Expect(load.made.Load()).To(BeNumerically(">=", admissions))
		for _, r := range append(leaving, w.replicas...) {
			_, accepted := w.balancer.connections(r.backend)
			Expect(accepted).To(BeNumerically(">", 0), "each replica was called")
		}
	}, SpecTimeout(loadTimeout))
})

// replace starts another replica in place of one, which it terminates and returns, as in a rolling update.
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
