//go:build e2e

package replicas_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/volume"
)

const (
	// loadTimeout limits the time of all admissions. On an idle machine, a large load takes two and a half minutes: a little longer than
	// the default drain.
	loadTimeout = 20 * time.Minute
	// longEnough, in seconds, is a drain time in which the balancer observes that a replica is not ready, also on a busy machine.
	longEnough = 10
)

var _ = Describe("Three replicas", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, 3, volume.Of(longEnough, 0)) }, NodeTimeout(startTimeout))

	It("give the expected verdict for every admission while they are terminated, crash, start and change their certificates", func(ctx SpecContext) {
		turns := volume.Of(1, 3) // in each, all replicas are replaced, one crashes, and all get another certificate
		load := w.newLoad(ctx)
		done := make(chan struct{})
		var leaving []*replica
		go func() {
			defer GinkgoRecover()
			defer close(done)
			for turn := range turns {
				for i, old := range w.replicas {
					load.goTo(ctx, old)
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
			for _, r := range w.replicas {
				load.goTo(ctx, r)
			}
			for _, r := range leaving {
				r.awaitEnd(ctx)
			}
		}()
		began := time.Now()
		load.run(ctx, done)
		AddReportEntry("load", fmt.Sprintf("%d admissions in %s; %d replicas were terminated, and %d crashed", load.made.Load(), time.Since(began), len(leaving), turns))
		Expect(load.wrong).To(BeEmpty())
		Expect(load.made.Load()).To(BeNumerically(">=", load.least))
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
