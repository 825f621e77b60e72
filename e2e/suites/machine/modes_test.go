//go:build e2e

package machine_test

import (
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// In mode Warn nothing is denied, not even while warrantgate is down.
var _ = Describe("In the mode Warn", Ordered, ContinueOnFailure, func() {
	const warning = " (mode Warn, nothing was changed or denied): "
	var (
		w       *world
		account cloudsigmatest.Client
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "machine: {mode: Warn}\ncluster: {impersonation: {mode: Warn}}\n" +
			"controllerManager: {mode: Warn, allowCSIToken: true, " + selectManagers + "}\naudit: {mode: Off}\n"})
		account = w.cloud.AddClient("controller-managers")
		s := w.beginManaged(ctx, account)
		Eventually(func() []string { // the API server calls the webhook a moment after it is registered
			w.recorder.TakeWarnings()
			Expect(w.client.Create(ctx, newManager(s.namespace, "canary"), client.DryRunAll)).To(Succeed())
			return w.recorder.TakeWarnings()
		}).ShouldNot(BeEmpty())
	}, NodeTimeout(setupTimeout))

	DescribeTable("a machine is admitted with a warning and an Event", func(ctx SpecContext, reason, field string, id func(s story) string) {
		s := w.begin(ctx)
		machine, value := s.createMachine(ctx, "machine"), valueOf(field, id(s))
		outcome := map[string]string{"reason": reason, "decision": "warned"}
		before := s.admissions(ctx, outcome)
		w.recorder.TakeWarnings()
		Expect(s.set(ctx, machine, field, value)).To(Succeed())
		Expect(s.holds(ctx, machine, field)).To(Equal(value))
		Expect(w.recorder.TakeWarnings()).To(HaveExactElements(And(HavePrefix(reason+warning), essentials(s, field, value, reason))))
		Expect(s.admissions(ctx, outcome)).To(Equal(before + 1))
		Expect(s.finalEvents(ctx)).To(HaveExactElements(onceAbout(machine, reason, "Admitted with a warning: ")))
	},
		Entry("with another user's server", "InstanceNotOwned", instanceIDPath, func(s story) string { return s.othersServer("others").UUID }, SpecTimeout(timeout)),
		Entry("with what is no ID", "ProviderIDInvalid", providerIDPath, func(story) string { return "soon" }, SpecTimeout(timeout)),
	)

	It("a cluster's user is admitted with a warning, an Event and the same reason", func(ctx SpecContext) {
		s := w.begin(ctx)
		who := s.newUser(ctx)
		for i, p := range places {
			object := p.naming(s.namespace, fmt.Sprintf("warned-%d", i), s.user.Email)
			Expect(s.client.Create(ctx, object)).To(Succeed())
			email := "next-" + s.user.Email
			w.recorder.TakeWarnings()
			Expect(who.client.Patch(ctx, object, p.mergePatch(fmt.Sprintf("%q", email)))).To(Succeed())
			Expect(s.named(ctx, p, object)).To(Equal(email))
			text := denial(p, object, who, email)
			Expect(w.recorder.TakeWarnings()).To(HaveExactElements(HavePrefix("ImpersonationNotAllowed" + warning + text)))
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(object).Should(HaveExactElements(And(
				HaveField("Reason", "ImpersonationNotAllowed"), HaveField("Message", HavePrefix("Admitted with a warning: "+text)))))
		}
		Expect(w.admissions(ctx, map[string]string{
			"gate": "cluster-impersonation", "decision": "warned", "reason": "ImpersonationNotAllowed",
		})).To(BeEquivalentTo(len(places)))
	}, SpecTimeout(timeout))

	DescribeTable("a controller manager is not changed, and a warning contains the change",
		func(ctx SpecContext, env []corev1.EnvVar, reason, event, text string) {
			s := w.beginManaged(ctx, account)
			text = fmt.Sprintf("Deployment \"ccm\" of namespace %q: %s", s.namespace, text)
			w.recorder.TakeWarnings()
			Expect(w.client.Create(ctx, newManager(s.namespace, "ccm", withEnv(env...)))).To(Succeed())
			Expect(w.recorder.TakeWarnings()).To(ContainElement(HavePrefix(reason + warning + text)))
			Expect(s.env(ctx, "ccm")).To(Equal(env))

			Expect(s.restart(ctx, "ccm")).To(Succeed())
			Expect(s.env(ctx, "ccm")).To(Equal(env))
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(s.deployment(ctx, "ccm")).Should(ContainElement(And(
				HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", reason), HaveField("Message", HavePrefix(event+text)))))
			Expect(w.managerAdmissions(ctx, map[string]string{"decision": "warned", "reason": reason})).To(BeNumerically(">", 0))
		},
		Entry("without the identity", nil, "IdentityGiven", "Not changed, because the gate only warns: ",
			`container "manager" needs CLOUDSIGMA_IMPERSONATION_ENABLED, `, SpecTimeout(timeout)),
		Entry("with another user", []corev1.EnvVar{{Name: "CLOUDSIGMA_USER_EMAIL", Value: "somebody-else@example.com"}},
			"UserEmailMismatch", "Admitted with a warning: ",
			`CLOUDSIGMA_USER_EMAIL is "somebody-else@example.com"; it has to be "`, SpecTimeout(timeout)),
		Entry("with the global credentials", []corev1.EnvVar{fromKey("CLOUDSIGMA_PASSWORD", globalCredentials, "password")},
			"GlobalCredentials", "Admitted with a warning: ", "it has the global credentials (CLOUDSIGMA_PASSWORD)", SpecTimeout(timeout)),
	)

	It("everything is admitted while warrantgate does not run", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		who, machine, id := s.newUser(ctx), s.createMachine(ctx, "machine"), s.othersServer("others").UUID
		Expect(w.gate.Stop()).To(Succeed())
		Expect(s.set(ctx, machine, instanceIDPath, id)).To(Succeed())
		Expect(s.holds(ctx, machine, instanceIDPath)).To(Equal(id))
		Expect(who.client.Create(ctx, newCluster(s.namespace, "unseen", "next-"+s.user.Email))).To(Succeed())
		Expect(w.client.Create(ctx, newManager(s.namespace, "ccm"))).To(Succeed())
		Expect(s.env(ctx, "ccm")).To(BeEmpty())
		Expect(w.gate.Start(ctx)).To(Succeed())
	}, SpecTimeout(timeout))
})

// Operators who prefer a wrong machine to none that starts can admit requests while the owner is not known. All others are decided as before.
var _ = Describe("With unknown: Admit, the verdict on a machine", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "machine: {unknown: Admit}\naudit: {mode: Off}\n"})
	}, NodeTimeout(setupTimeout))

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
			outcome := map[string]string{"reason": "OwnershipUnknown", "decision": "warned"}
			before := s.admissions(ctx, outcome)
			w.recorder.TakeWarnings()
			Expect(s.setInstanceID(ctx, machine, id)).To(Succeed())
			Expect(w.recorder.TakeWarnings()).To(ConsistOf(And(
				HavePrefix("OwnershipUnknown: status.instanceID "), ContainSubstring(id), ContainSubstring(s.user.Email), ContainSubstring(advice))))
			Expect(s.admissions(ctx, outcome)).To(Equal(before + 1))
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
