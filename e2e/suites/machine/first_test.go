//go:build e2e

package machine_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// A provider that loses the first claim of a machine creates another server. So it is admitted by default while nobody can check it, and all
// other claims wait. incident_test.go has the denials of first claims.
var _ = Describe("With the defaults, the first claim of a machine", Ordered, ContinueOnFailure, func() {
	const (
		changedHook = `failed calling webhook "cloudsigmamachines.machine.warrantgate.dev"`
		checked     = "; the machine named none before, so this is admitted, and the audit checks it as soon as there is an answer"
	)
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "audit: {interval: 24h}\nmachine: {mode: Enforce}\n", firstClaims: true})
	}, NodeTimeout(setupTimeout))

	for what, operations := range map[string][]cloudsigmatest.Operation{
		"the cloud":             {cloudsigmatest.GetServer},
		"the identity provider": {cloudsigmatest.ClientCredentials, cloudsigmatest.UMATicket, cloudsigmatest.Impersonate},
	} {
		It("is admitted with a warning and an Event while "+what+" is away, and no other claim is", func(ctx SpecContext) {
			s := w.begin(ctx)
			machine, own, another := s.createMachine(ctx, "node"), s.server("node").UUID, s.server("another").UUID
			failure := w.cloud.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 0, operations...)
			DeferCleanup(failure.Release)
			w.forgetTokens(s.user)
			w.recorder.TakeWarnings()
			Expect(s.setInstanceID(ctx, machine, own)).To(Succeed())
			Expect(w.recorder.TakeWarnings()).To(ConsistOf(And(
				HavePrefix("OwnershipUnknown: status.instanceID "), ContainSubstring(own), ContainSubstring(s.user.Email), HaveSuffix(checked))))
			Expect(s.instanceID(ctx, machine)).To(Equal(own))
			Eventually(s.eventsAbout).WithContext(ctx).WithArguments(machine).Should(ContainElement(And(
				HavePrefix("OwnershipUnknown: Admitted with a warning: "), ContainSubstring(own), HaveSuffix(checked))))

			By("its second write")
			Expect(s.set(ctx, machine, providerIDPath, "cloudsigma://"+own)).To(Succeed())

			By("another ID, and a machine that is created with one")
			expectDenial(s.set(ctx, machine, instanceIDPath, another), "OwnershipUnknown", instanceIDPath)
			expectDenial(s.set(ctx, machine, providerIDPath, "cloudsigma://"+another), "OwnershipUnknown", providerIDPath)
			owner, outcome := s.createOwner(ctx, "created"), map[string]string{"reason": "OwnershipUnknown", "decision": "error"}
			before := s.admissions(ctx, outcome)
			expectDenial(s.client.Create(ctx, newMachine(s.namespace, "created", clusterName, ownedBy(owner), providerID(another))), "OwnershipUnknown", providerIDPath)
			Expect(s.admissions(ctx, outcome)).To(Equal(before + 1))
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(owner).Should(HaveExactElements(onceAbout(owner, "OwnershipUnknown", "Denied: ")))

			By("what can be denied without the cloud")
			second := s.createMachine(ctx, "second")
			expectDenial(s.set(ctx, second, instanceIDPath, "soon"), "InstanceIDInvalid", instanceIDPath)
			Eventually(func() error { // the holder of the server is known from a watch, a moment late
				return s.previewInstanceID(ctx, second, own)
			}).Should(HaveOccurred())
			expectDenial(s.set(ctx, second, instanceIDPath, own), "InstanceIDConflict", instanceIDPath)

			failure.Release()
			Eventually(func() error { return s.set(ctx, machine, instanceIDPath, another) }).Should(Succeed())
			Expect(s.set(ctx, machine, instanceIDPath, s.othersServer("others").UUID)).NotTo(Succeed())
		}, SpecTimeout(2*timeout))
	}

	It("is not admitted for a user that warrantgate may not impersonate", func(ctx SpecContext) {
		s := w.begin(ctx)
		Expect(s.cloud.DenyImpersonation(serviceAccount, s.user.Email)).To(Succeed())
		w.forgetTokens(s.user)
		expectDenial(s.set(ctx, s.createMachine(ctx, "node"), instanceIDPath, s.server("node").UUID), "OwnershipUnknown", instanceIDPath)
	}, SpecTimeout(timeout))

	It("is admitted while no warrantgate runs, and no other claim is", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine, held := s.createMachine(ctx, "new"), s.createMachine(ctx, "held")
		own, another := s.server("new").UUID, s.server("another").UUID
		Expect(s.set(ctx, held, instanceIDPath, s.server("held").UUID)).To(Succeed())
		Expect(w.gate.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(w.gate.Start(ctx)).To(Succeed()) })

		By("both writes of a provider")
		Expect(s.set(ctx, machine, instanceIDPath, own)).To(Succeed())
		Expect(s.set(ctx, machine, providerIDPath, "cloudsigma://"+own)).To(Succeed())
		for change, write := range map[string]func(ctx context.Context, machine *unstructured.Unstructured) error{
			"another ID": func(ctx context.Context, m *unstructured.Unstructured) error {
				return s.set(ctx, m, instanceIDPath, another)
			},
			"another provider ID": func(ctx context.Context, m *unstructured.Unstructured) error {
				return s.set(ctx, m, providerIDPath, "cloudsigma://"+another)
			},
			"another cluster": func(ctx context.Context, m *unstructured.Unstructured) error {
				return s.client.Patch(ctx, m.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"other"}}}`)))
			},
		} {
			By(change)
			err := write(ctx, held)
			Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring(changedHook)))
		}
	}, SpecTimeout(timeout))

	It("of another tenant, stored while no warrantgate runs, does not block the user whose server it names", func(ctx SpecContext) {
		eve, alice := w.begin(ctx), w.begin(ctx)
		server := alice.server("node").UUID
		machine, squatter := alice.createMachine(ctx, "node"), eve.createMachine(ctx, "node")
		Expect(w.gate.Stop()).To(Succeed())
		Expect(eve.set(ctx, squatter, instanceIDPath, server)).To(Succeed())
		Expect(w.gate.Start(ctx)).To(Succeed())

		By("unless the cloud is away: then nobody knows whose it is")
		failure := w.cloud.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 0, cloudsigmatest.GetServer)
		DeferCleanup(failure.Release)
		w.forgetTokens(alice.user)
		Eventually(func() bool {
			return apierrors.HasStatusCause(alice.set(ctx, machine, instanceIDPath, server), "InstanceIDConflict")
		}).Should(BeTrue())
		failure.Release()

		Eventually(func() error { return alice.set(ctx, machine, instanceIDPath, server) }).Should(Succeed())
		Expect(alice.set(ctx, machine, providerIDPath, "cloudsigma://"+server)).To(Succeed())
	}, SpecTimeout(2*timeout))
})
