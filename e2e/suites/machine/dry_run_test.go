//go:build e2e

package machine_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// A dry run has the same verdict, and no side effects.
var _ = Describe("A dry run", sharing, func() {
	for _, field := range []string{providerIDPath, instanceIDPath} {
		It("of another's server in "+field+" is denied, without an Event", func(ctx SpecContext) {
			s := begin(ctx)
			machine := s.createMachine(ctx, "machine")
			id := s.othersServer("others").UUID
			value := valueOf(field, id)
			for range 3 {
				expectDenial(write(ctx, s.client, machine, field, value, client.DryRunAll), "InstanceNotOwned", field)
			}
			// A denial is cached for 9 seconds, so that dry runs do not overload the cloud.
			Expect(s.betweenLookups(id)).To(Or(BeEmpty(), HaveEach(BeNumerically(">", 8900*time.Millisecond))))
			expectDenial(s.client.Create(ctx, newMachine(s.namespace, "trial", clusterName, providerID(s.othersServer("x").UUID)), client.DryRunAll),
				"InstanceNotOwned", providerIDPath)

			By("without dry run, with the only Event")
			expectDenial(write(ctx, s.client, machine, field, value), "InstanceNotOwned", field)
			Expect(s.finalEvents(ctx)).To(HaveExactElements(And(HaveField("Reason", "InstanceNotOwned"), HaveField("Count", BeEquivalentTo(1)))))
		}, SpecTimeout(timeout))

		It("of the user's own server in "+field+" is admitted, and has no side effects", func(ctx SpecContext) {
			s := begin(ctx)
			machine := s.createMachine(ctx, "machine")
			server := s.server("own")
			value := valueOf(field, server.UUID)
			for i := range 2 {
				Expect(write(ctx, s.client, machine, field, value, client.DryRunAll)).To(Succeed())
				Expect(s.lookups()).To(Equal(i + 1))
			}
			Expect(s.holds(ctx, machine, field)).To(BeEmpty())
			s.giveAway(server)
			expectDenial(write(ctx, s.client, machine, field, value), "InstanceNotOwned", field)
			for _, operation := range []cloudsigmatest.Operation{cloudsigmatest.CreateServer, cloudsigmatest.DeleteServer} {
				Expect(s.cloud.Count(operation, s.user.Email)).To(BeZero())
			}
		}, SpecTimeout(timeout))
	}
})

// lookups is the number of requests to the cloud for a server as the story's user.
func (s story) lookups() int { return s.cloud.Count(cloudsigmatest.GetServer, s.user.Email) }
