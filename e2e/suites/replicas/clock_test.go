//go:build e2e

package replicas_test

import (
	"crypto/x509"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// skew is the difference of the clocks.
const skew = 10 * time.Minute

func clocks() {
	DescribeTable("of the identity provider may differ", func(ctx SpecContext, ahead time.Duration) {
		Expect(chaos.begin(ctx).checkVerdicts(ctx)).To(Succeed())
		chaos.cloud.SetClock(ahead)
		DeferCleanup(chaos.cloud.SetClock, time.Duration(0))
		// Cached tokens were issued by the earlier clock. A cloud whose clock is set forward rejects them as expired.
		Eventually(func() error { return chaos.begin(ctx).checkVerdicts(ctx) }).WithContext(ctx).Should(Succeed())

		By("with new tokens only")
		chaos.restart(ctx)
		Expect(chaos.begin(ctx).checkVerdicts(ctx)).To(Succeed())
	},
		Entry("ahead", skew, SpecTimeout(timeout)),
		Entry("behind", -skew, SpecTimeout(timeout)),
	)

	DescribeTable("by which the serving certificate is invalid causes a log message, and no write is admitted without a verdict", func(
		ctx SpecContext, change func(*x509.Certificate), message string,
	) {
		s := chaos.begin(ctx)
		good := chaos.serving
		bad := newPair(chaos.ca, change)
		chaos.certify(ctx, bad)
		chaos.restart(ctx) // open connections continue to work
		for _, r := range chaos.replicas {
			Expect(r.log()).To(And(ContainSubstring("the serving certificate is not valid now"), ContainSubstring(message)))
		}
		Expect(s.checkVerdicts(ctx)).To(MatchError(ContainSubstring("certificate has expired or is not yet valid")))
		Expect(s.instanceID(ctx)).To(BeEmpty())

		By("admissions work again with the next certificate")
		chaos.certify(ctx, good)
		Expect(s.checkVerdicts(ctx)).To(Succeed())
	},
		Entry("not valid yet", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(skew) }, "notBefore", SpecTimeout(timeout)),
		Entry("expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-skew) }, "notAfter", SpecTimeout(timeout)),
	)
}
