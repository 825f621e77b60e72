//go:build e2e

package machine_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// The incident of CAPCS in region next: a status update that lost a conflict left the UUID of a server in the machine that an
// earlier attempt had made under another identity.
var _ = Describe("the incident", Ordered, func() {
	var (
		w        *world
		incident cloudsigmatest.Incident
		s        story
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "audit: {interval: 2s}", before: func(w *world) {
			var err error
			incident, err = w.cloud.Incident()
			Expect(err).NotTo(HaveOccurred())
			w.giveCredentials(ctx, incident.Client)
		}})
		s = story{world: w, namespace: w.namespace(ctx), user: incident.User}
		Expect(w.client.Create(ctx, newCluster(s.namespace, clusterName, incident.User.Email))).To(Succeed())
	}, NodeTimeout(3*time.Minute))

	It("denies the stale UUID, and names the user and the correct UUID", func(ctx SpecContext) {
		machine := s.createMachine(ctx, incident.Created.Name)
		err := w.setInstanceID(ctx, machine, incident.Stale.UUID)
		Expect(err).To(MatchError(And(
			ContainSubstring(`status.instanceID "feaf4d9d-7cdc-4ecc-b2f7-bef11a0c7519"`),
			ContainSubstring(`CloudSigmaMachine "metal-worker-pool-1-hl9tl-qbrcf"`),
			ContainSubstring(`user "tsap@shalb.com" (4705fb9a-0591-4ead-9d42-b2e86493f9b4)`),
			ContainSubstring("403 permission, request id 00000000-0000-4000-8000-"),
			ContainSubstring("63dd227a-9502-4311-919e-cd49f3416753"),
		)))
		Expect(apierrors.IsForbidden(err)).To(BeTrue())
		Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue())
		Expect(err).NotTo(MatchError(ContainSubstring(incident.Other.Email)))
		Expect(w.instanceID(ctx, machine)).To(BeEmpty())

		By("and kubectl describe shows it")
		Eventually(w.describe).WithArguments(machine).Should(And(
			ContainSubstring("InstanceNotOwned"), ContainSubstring(incident.Stale.UUID),
			ContainSubstring(incident.User.Email), ContainSubstring(incident.Created.UUID),
		))
	}, SpecTimeout(timeout))

	It("accepts the UUID of the server that was created", func(ctx SpecContext) {
		machine := newMachine(s.namespace, incident.Created.Name, clusterName)
		Expect(w.setInstanceID(ctx, machine, incident.Created.UUID)).To(Succeed())
		Expect(w.instanceID(ctx, machine)).To(Equal(incident.Created.UUID))
	}, SpecTimeout(timeout))

	It("accepts the sibling's", func(ctx SpecContext) {
		machine := s.createMachine(ctx, incident.Sibling.Name)
		Expect(w.setInstanceID(ctx, machine, incident.Sibling.UUID)).To(Succeed())
	}, SpecTimeout(timeout))

	It("reports the stale server as an orphan, once a cluster names the identity that created it", func(ctx SpecContext) {
		earlier := newCluster(s.namespace, "earlier", incident.Other.Email)
		Expect(w.client.Create(ctx, earlier)).To(Succeed())
		Eventually(w.describe).WithArguments(earlier).Should(And(
			MatchRegexp(`Warning +InstanceOrphaned .*`+incident.Stale.UUID),
			Not(ContainSubstring(incident.User.Email)),
		))
	}, SpecTimeout(timeout))
})
