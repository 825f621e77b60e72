//go:build e2e

package machine_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// In mode Warn nothing is denied, not even while warrantgate is down.
var _ = Describe("In the mode Warn the verdict on a machine", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "machine: {mode: Warn}\naudit: {mode: Off}\n"})
	}, NodeTimeout(setupTimeout))

	everyVerdict(func(context.Context) *world { return w }, policy{warn: true})

	It("is admitted while warrantgate does not run", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "machine")
		Expect(w.gate.Stop()).To(Succeed())
		id := s.othersServer("others").UUID
		Expect(write(ctx, s.client, machine, instanceIDPath, id)).To(Succeed())
		Expect(s.holds(ctx, machine, instanceIDPath)).To(Equal(id))
		Expect(w.gate.Start(ctx)).To(Succeed())
	}, SpecTimeout(timeout))
})

// Operators who prefer a wrong machine to none that starts can admit requests while the owner is not known. All others are decided as before.
var _ = Describe("With unknown: Admit, the verdict on a machine", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "machine: {unknown: Admit}\naudit: {mode: Off}\n"})
	}, NodeTimeout(setupTimeout))

	everyVerdict(func(context.Context) *world { return w }, policy{admitUnknown: true})

	DescribeTable("is an admission with a warning and an Event while there is no answer, and a denial again by itself",
		func(ctx SpecContext, operation cloudsigmatest.Operation, fault cloudsigmatest.Fault, advice string) {
			s := w.begin(ctx)
			machine := s.createMachine(ctx, "node")
			foreign := w.cloud.AddServer(region, w.user("someone-else@example.com"), "node").UUID
			own := w.cloud.AddServer(region, s.user, "node").UUID
			id := foreign
			failure := w.cloud.Fail(fault, 0, operation)
			DeferCleanup(failure.Release)
			w.forgetTokens(s.user)
			w.recorder.TakeWarnings()
			Expect(s.setInstanceID(ctx, machine, id)).To(Succeed())
			Expect(w.recorder.TakeWarnings()).To(ConsistOf(And(
				HavePrefix("OwnershipUnknown: status.instanceID "), ContainSubstring(id), ContainSubstring(s.user.Email), ContainSubstring(advice))))
			Expect(s.instanceID(ctx, machine)).To(Equal(id))
			Eventually(s.eventsAbout).WithContext(ctx).WithArguments(machine).Should(ConsistOf(And(
				HavePrefix("OwnershipUnknown: Admitted with a warning: "), ContainSubstring(id), HaveSuffix(advice))))

			By("requests that can be decided without the cloud are denied")
			expectDenial(s.setInstanceID(ctx, machine, "no-uuid"), "InstanceIDInvalid", instanceIDPath)

			By("the admission is not cached")
			failure.Release()
			Expect(s.setInstanceID(ctx, machine, "")).To(Succeed())
			Eventually(func() error {
				defer func() { Expect(s.setInstanceID(ctx, machine, "")).To(Succeed()) }()
				return s.setInstanceID(ctx, machine, foreign)
			}).WithContext(ctx).Should(MatchError(ContainSubstring("exists, but is not one of user")))
			expectNotOwned(s.setInstanceID(ctx, machine, foreign))
			w.recorder.TakeWarnings()
			Expect(s.setInstanceID(ctx, machine, own)).To(Succeed())
			Expect(w.recorder.TakeWarnings()).To(BeEmpty())
		},
		Entry("when the request for the server is not answered", cloudsigmatest.GetServer, cloudsigmatest.Hang(), noResponse, SpecTimeout(timeout)),
		Entry("when the identity provider rejects the client", cloudsigmatest.ClientCredentials, oauthError(http.StatusUnauthorized, "invalid_client"),
			renewCredentials, SpecTimeout(timeout)),
	)
})
