//go:build e2e

package machine_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// If the identity provider exchanges tokens by RFC 8693, warrantgate needs no service provider API. These specs configure it by the
// environment variables of CloudSigma's own controllers.
var _ = Describe("the gate with tokens by RFC 8693", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{cloud: "  flow: TokenExchange", credentials: func(w *world) (args, env []string) {
			return nil, []string{
				"CLOUDSIGMA_IMPERSONATION_ENABLED=true", "CLOUDSIGMA_OAUTH_URL=" + w.cloud.OAuthURL(),
				"CLOUDSIGMA_CLIENT_ID=" + serviceAccount, "CLOUDSIGMA_CLIENT_SECRET=" + w.cloud.AddClient(serviceAccount).Secret,
			}
		}})
	}, NodeTimeout(setupTimeout))
	AfterAll(func() {
		Expect(w.cloud.Count(cloudsigmatest.UMATicket)).To(BeZero())
		Expect(w.cloud.Count(cloudsigmatest.Impersonate)).To(BeZero())
	})

	It("accepts the user's own server, for one exchange", func(ctx SpecContext) {
		s := w.begin(ctx)
		own := w.cloud.AddServer(region, s.user, "node").UUID
		Expect(s.setInstanceID(ctx, s.createMachine(ctx, "node"), own)).To(Succeed())
		s.admits(ctx)
		Expect(w.cloud.Count(cloudsigmatest.TokenExchange, s.user.Email)).To(Equal(1))
	}, SpecTimeout(timeout))

	It("denies another user's, and names the user's own", func(ctx SpecContext) {
		s := w.begin(ctx)
		own := w.cloud.AddServer(region, s.user, "node").UUID
		foreign := w.cloud.AddServer(region, w.user("someone-else@example.com"), "node").UUID
		err := s.setInstanceID(ctx, s.createMachine(ctx, "node"), foreign)
		expectNotOwned(err)
		Expect(err).To(MatchError(And(ContainSubstring(s.user.UUID), ContainSubstring("403 permission"), ContainSubstring(own),
			Not(ContainSubstring("someone-else")))))
	}, SpecTimeout(timeout))

	It("names the reason if the service account may not act as the user", func(ctx SpecContext) {
		s := w.begin(ctx)
		Expect(w.cloud.DenyImpersonation(serviceAccount, s.user.Email)).To(Succeed())
		w.forgetTokens(s.user) // the audit may have had one
		machine, own := s.createMachine(ctx, "node"), w.cloud.AddServer(region, s.user, "node").UUID
		expectUnknown(s.setInstanceID(ctx, machine, own), own, s.user, "UserNotImpersonable", allowUser)
		Expect(w.cloud.AllowImpersonation(serviceAccount, s.user.Email)).To(Succeed())
		Eventually(s.setInstanceID).WithContext(ctx).WithArguments(machine, own).Should(Succeed())
	}, SpecTimeout(timeout))
})
