//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"warrantgate.dev/e2e/fakes/capcstest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// The incident of CAPCS in region next, with the token flow that it used then: a status update failed with a conflict, and the machine kept
// the UUID of a server that an earlier attempt had created under another identity.
var _ = Describe("the incident", Ordered, func() {
	var (
		w        *world
		incident cloudsigmatest.Incident
		s        story
	)
	BeforeAll(func(ctx SpecContext) {
		// It is configured by the environment variables of CloudSigma's own controllers.
		w = newWorld(ctx, setup{
			credentials: func(w *world) (args, env []string) {
				return nil, []string{
					"CLOUDSIGMA_IMPERSONATION_ENABLED=true", "CLOUDSIGMA_OAUTH_URL=" + w.cloud.OAuthURL(),
					"CLOUDSIGMA_CLIENT_ID=" + incident.Client.ID, "CLOUDSIGMA_CLIENT_SECRET=" + incident.Client.Secret,
				}
			},
			configuration: "audit: {interval: 1s, requestsPerSecond: 200}\nmachine: {mode: Enforce}\n", firstClaims: true,
			cloud: "  flow: TokenExchange\n  audience: cloudsigma-api\n",
			before: func(w *world) {
				var err error
				incident, err = w.cloud.Incident()
				Expect(err).NotTo(HaveOccurred())
			},
		})
		s = story{world: w, namespace: w.namespace(ctx), user: incident.User}
		Expect(w.client.Create(ctx, newCluster(s.namespace, clusterName, incident.User.Email))).To(Succeed())
	}, NodeTimeout(setupTimeout))

	It("denies the stale UUID, and names the user and the correct UUID", func(ctx SpecContext) {
		machine := s.createMachine(ctx, incident.Created.Name)
		err := w.setInstanceID(ctx, machine, incident.Stale.UUID)
		Expect(err).To(MatchError(And(
			ContainSubstring(`status.instanceID "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"`),
			ContainSubstring(`CloudSigmaMachine "metal-worker-pool-1-hl9tl-qbrcf"`),
			ContainSubstring(`user "tenant@example.com" (2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12)`),
			ContainSubstring("403 permission, request id 00000000-0000-4000-8000-"),
			ContainSubstring("5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"),
		)))
		Expect(apierrors.IsForbidden(err)).To(BeTrue())
		Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue())
		Expect(err).NotTo(MatchError(ContainSubstring(incident.Other.Email)))
		Expect(w.instanceID(ctx, machine)).To(BeEmpty())
		Expect(w.cloud.Count(cloudsigmatest.TokenExchange)).To(BeNumerically(">", 0))
		Expect(w.cloud.Count(cloudsigmatest.UMATicket) + w.cloud.Count(cloudsigmatest.Impersonate)).To(BeZero())

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

	// found returns the instances in the findings of the audit about a machine, by reason.
	found := func(ctx context.Context, machine *unstructured.Unstructured) (map[string][]string, error) {
		events, err := w.eventsOn(ctx, machine)
		instances := map[string][]string{}
		for i := range events {
			for _, server := range w.cloud.Servers() {
				if matched, _ := ContainSubstring("Audit: instance " + server.UUID).Match(events[i].Message); matched {
					instances[events[i].Reason] = append(instances[events[i].Reason], server.UUID)
				}
			}
		}
		return instances, err
	}

	DescribeTable("a status update that fails with a conflict",
		func(ctx SpecContext, name string, others, wantServers int) {
			for i := range others {
				s.server(fmt.Sprintf("other-%d", i))
			}
			machine := s.createOwned(ctx, name)
			var created []string
			annotating := func(o *capcstest.Options) {
				o.Account = incident.Client
				o.Created = func(machine client.ObjectKey, server string) {
					created = append(created, server)
					s.annotateOnce(ctx, machine)
				}
			}

			By("leaves the machine without an ID, and the audit reports the server in its second run")
			p := capcstest.New(w.client, s.providerOptions(annotating))
			_, err := p.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Denied(client.ObjectKeyFromObject(machine))).To(HaveExactElements(And(
				Satisfy(apierrors.IsConflict),
				MatchError(ContainSubstring("the object has been modified; please apply your changes to the latest version")))))
			Expect(w.instanceID(ctx, machine)).To(BeEmpty())
			first := created[0]
			Eventually(found).WithContext(ctx).WithArguments(machine).Should(Equal(map[string][]string{"InstanceNotNamed": {first}}))

			By("the next writes of the provider are admitted")
			p = s.startProvider(ctx, annotating)
			s.expectSettled(ctx, p, machine)
			Expect(p.Stop()).To(Succeed())
			Expect(created).To(HaveLen(wantServers))
			named := w.instanceID(ctx, machine)
			Expect(named).To(Equal(created[len(created)-1]))

			By("the audit reports each server that no machine names")
			orphans := slices.DeleteFunc(slices.Clone(created), func(id string) bool { return id == named })
			want := map[string][]string{"InstanceNotNamed": {first}}
			if len(orphans) > 0 {
				want["InstanceDuplicate"] = orphans
			}
			Eventually(found).WithContext(ctx).WithArguments(machine).Should(Equal(want))
			w.awaitAudits(ctx, 2)
			Expect(found(ctx, machine)).To(Equal(want))
			Expect(w.findings(ctx, "InstanceNotNamed")).To(BeZero())
			Expect(w.findings(ctx, "InstanceDuplicate")).To(BeEquivalentTo(len(orphans)))
			for _, orphan := range orphans {
				w.cloud.RemoveServer(orphan)
			}
			Eventually(w.findings).WithContext(ctx).WithArguments("InstanceDuplicate").Should(BeZero())
		},
		Entry("of a user with one page of servers: one server", "metal-worker-pool-1-hl9tl-adopt", 0, 1, SpecTimeout(timeout)),
		Entry("of a user with more: two servers", "metal-worker-pool-1-hl9tl-again", 25, 2, SpecTimeout(timeout)),
	)

	It("asks again about the first write of a UUID until the cloud shows the server", func(ctx SpecContext) {
		machine := s.createOwned(ctx, "metal-worker-pool-1-hl9tl-late")
		w.cloud.ShowAfter(2 * time.Second)
		DeferCleanup(w.cloud.ShowAfter, time.Duration(0))
		p := s.startProvider(ctx, func(o *capcstest.Options) { o.Account = incident.Client })
		s.expectSettled(ctx, p, machine)
		Expect(p.Stop()).To(Succeed())
		Expect(p.Denied(client.ObjectKeyFromObject(machine))).To(BeEmpty())
		servers := slices.DeleteFunc(w.cloud.Servers(), func(server cloudsigmatest.Server) bool { return server.Name != machine.GetName() })
		Expect(servers).To(HaveLen(1))
	}, SpecTimeout(timeout))

	DescribeTable("a first claim that is not the user's is asked about until the deadline, and then denied",
		func(ctx SpecContext, reason string, id func() string) {
			machine, claimed := s.createMachine(ctx, "metal-worker-"+uuid.NewString()[:8]), id()
			lookups := func() int { return w.cloud.Count(cloudsigmatest.GetServer) }
			own := w.cloud.AddServer(region, incident.User, machine.GetName())
			expectDenied := func(err error) {
				GinkgoHelper()
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
				Expect(apierrors.HasStatusCause(err, metav1.CauseType(reason))).To(BeTrue(), "%v", err)
			}

			By("a dry run asks once")
			patch := client.MergeFrom(machine.DeepCopy())
			changed := machine.DeepCopy()
			with("status.instanceID", claimed)(changed)
			expectDenied(w.client.Status().Patch(ctx, changed, patch, client.DryRunAll))
			Expect(w.eventsOn(ctx, machine)).NotTo(ContainElement(HaveField("Reason", reason)))

			By("without dry run")
			earlier := lookups()
			expectDenied(w.setInstanceID(ctx, machine, claimed))
			Expect(lookups()-earlier).To(BeNumerically(">", 1), "the cloud is asked again")
			Expect(w.instanceID(ctx, machine)).To(BeEmpty())
			Eventually(w.eventsOn).WithContext(ctx).WithArguments(machine).Should(ContainElement(
				And(HaveField("Reason", reason), HaveField("Message", HavePrefix(fmt.Sprintf("Denied: status.instanceID %q", claimed))))))

			By("a repeated claim is denied from memory")
			answered := w.answersFromMemory(ctx)
			expectDenied(w.setInstanceID(ctx, machine, claimed))
			Expect(w.answersFromMemory(ctx)).To(BeNumerically(">", answered))
			Expect(w.admissions(ctx, map[string]string{"decision": "error", "reason": "OwnershipUnknown"})).To(BeZero())

			By("a changed claim is denied by one answer")
			Expect(w.setInstanceID(ctx, machine, own.UUID)).To(Succeed())
			current := newObject(machineKind, s.namespace, machine.GetName())
			Expect(w.client.Get(ctx, client.ObjectKeyFromObject(machine), current)).To(Succeed())
			Expect(apierrors.IsForbidden(w.setInstanceID(ctx, current, uuid.NewString()))).To(BeTrue())
		},
		Entry("another user's", "InstanceNotOwned", func() string { return w.cloud.AddServer(region, incident.Other, "somebody-elses").UUID }, SpecTimeout(timeout)),
		Entry("one that does not exist", "InstanceNotFound", uuid.NewString, SpecTimeout(timeout)),
	)
})

// answersFromMemory is the number of claims that the gate has answered from its cache.
func (w *world) answersFromMemory(ctx context.Context) float64 {
	GinkgoHelper()
	answers, err := w.gate.Metric(ctx, "warrantgate_ownership_answers_total", map[string]string{"source": "cache"})
	Expect(err).NotTo(HaveOccurred())
	return answers
}
