//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// noServer is a UUID that no server has.
const noServer = "00000000-9a47-4b6e-8f21-7c9d0e1f2a3b"

// Users find the reason why a machine is not Ready in its Events.
var _ = Describe("kubectl describe of a machine", sharing, func() {
	// request sends a request that is denied. It returns the texts that the denial contains besides the reason.
	type request func(ctx context.Context, s story, machine *unstructured.Unstructured) (wants []string, err error)
	named := func(s story) string { return fmt.Sprintf("user %q", s.user.Email) }
	const clearIt = "clear the field, so that the provider adopts an instance of the user or creates one"

	DescribeTable("shows why it was denied, and what to do", func(ctx SpecContext, reason string, denied request) {
		s := begin(ctx)
		machine := s.createMachine(ctx, "worker")
		wants, err := denied(ctx, s, machine)
		Expect(apierrors.HasStatusCause(err, metav1.CauseType(reason))).To(BeTrue(), "%v", err)
		switch reason {
		case "OwnershipUnknown":
			Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		default:
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		}

		Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).Should(ConsistOf(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", reason), HaveField("Count", BeEquivalentTo(1)),
			HaveField("Message", HavePrefix("Denied: ")))))
		described, err := s.describe(machine)
		Expect(err).NotTo(HaveOccurred())
		Expect(described).To(MatchRegexp(`(?m)^ +Warning +` + reason + ` .*Denied: .*CloudSigmaMachine "worker" of namespace "` + s.namespace + `": `))
		for _, want := range wants {
			Expect(described).To(ContainSubstring(want))
		}
	},
		Entry("a server of another user", "InstanceNotOwned", request(func(ctx context.Context, s story, machine *unstructured.Unstructured) ([]string, error) {
			foreign := s.cloud.AddServer(region, s.cloud.AddUser("somebody@example.com"), "worker")
			own := s.cloud.AddServer(region, s.user, "worker")
			return []string{foreign.UUID, own.UUID, named(s) + " (" + s.user.UUID + ")", clearIt}, s.setInstanceID(ctx, machine, foreign.UUID)
		}), SpecTimeout(timeout)),
		Entry("a server that does not exist", "InstanceNotFound", request(func(ctx context.Context, s story, machine *unstructured.Unstructured) ([]string, error) {
			return []string{noServer, named(s), clearIt}, s.setInstanceID(ctx, machine, noServer)
		}), SpecTimeout(timeout)),
		Entry("a server of another machine", "InstanceIDConflict", request(func(ctx context.Context, s story, machine *unstructured.Unstructured) ([]string, error) {
			server := s.cloud.AddServer(region, s.user, "holder")
			Expect(s.setInstanceID(ctx, s.createMachine(ctx, "holder"), server.UUID)).To(Succeed())
			// The holder of the server is known from a watch, a moment late.
			Eventually(s.previewInstanceID).WithContext(ctx).WithArguments(machine, server.UUID).ShouldNot(Succeed())
			return []string{
				server.UUID, `CloudSigmaMachine "holder" names this instance already`, "clear the field of the machine that it does not belong to",
			}, s.setInstanceID(ctx, machine, server.UUID)
		}), SpecTimeout(timeout)),
		Entry("a server whose owner cannot be checked", "OwnershipUnknown", request(func(ctx context.Context, s story, machine *unstructured.Unstructured) ([]string, error) {
			Expect(s.cloud.DenyImpersonation(serviceAccount, s.user.Email)).To(Succeed())
			return []string{noServer, named(s), "allow it there, or correct the user of the cluster"}, s.setInstanceID(ctx, machine, noServer)
		}), SpecTimeout(timeout)),
	)
})

var _ = Describe("Events", sharing, func() {
	It("has one Event with a count for a controller's hot loop, which causes few requests to the cloud", func(ctx SpecContext) {
		attempts := volume.Of(100, 1000)
		s := begin(ctx)
		machine := s.createMachine(ctx, "worker")
		Expect(s.setInstanceID(ctx, machine, s.server("worker").UUID)).To(Succeed())
		before, began := s.cloud.Count(cloudsigmatest.GetServer, s.user.Email), time.Now()
		var loop errgroup.Group
		loop.SetLimit(10)
		for range attempts {
			loop.Go(func() error {
				err := s.setInstanceID(ctx, machine, noServer)
				if !apierrors.HasStatusCause(err, "InstanceNotFound") {
					return fmt.Errorf("want a denial, got %w", err)
				}
				return nil
			})
		}
		Expect(loop.Wait()).To(Succeed())
		took := time.Since(began)

		Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).Should(ConsistOf(And(
			HaveField("Reason", "InstanceNotFound"), HaveField("Count", BeNumerically(">", 1)))))
		events, err := s.eventsOn(ctx, machine)
		Expect(err).NotTo(HaveOccurred())
		Expect(events[0].Count).To(BeNumerically("<=", 25), "each count is one write")
		// A denial is cached for 9 seconds.
		Expect(s.cloud.Count(cloudsigmatest.GetServer, s.user.Email) - before).To(BeNumerically("<=", 1+int(took/(9*time.Second))))

		By("another reason has an Event of its own")
		Expect(s.setInstanceID(ctx, machine, s.othersServer("others").UUID)).NotTo(Succeed())
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).Should(ContainElement(HaveField("Reason", "InstanceNotOwned")))
	}, SpecTimeout(timeout))

	It("has the Event on the owner if the machine was denied at creation", func(ctx SpecContext) {
		s := begin(ctx)
		owner := newObject(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}, s.namespace, "worker")
		owner.SetLabels(inCluster(clusterName))
		Expect(s.client.Create(ctx, owner)).To(Succeed())
		foreign := s.cloud.AddServer(region, s.cloud.AddUser("somebody@example.com"), "worker")
		create := func(modify ...func(*unstructured.Unstructured)) error {
			return s.client.Create(ctx, newMachine(s.namespace, "worker", clusterName, append(modify, providerID(foreign.UUID))...))
		}
		owned := func(machine *unstructured.Unstructured) {
			machine.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Name: owner.GetName(), UID: owner.GetUID()},
			})
		}
		expectNotOwned := func(err error) {
			GinkgoHelper()
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%v", err)
		}
		expectNotOwned(create()) // it has no owner whose Event could report this
		expectNotOwned(create(owned))
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(owner).Should(ConsistOf(And(
			HaveField("Reason", "InstanceNotOwned"), HaveField("Count", BeEquivalentTo(1)), HaveField("Message", And(
				HavePrefix(`Denied: spec.providerID "cloudsigma://`+foreign.UUID+`" of CloudSigmaMachine "worker"`),
				ContainSubstring(s.user.Email))))))
		Expect(s.describe(owner)).To(MatchRegexp(`(?m)^ +Warning +InstanceNotOwned .*` + foreign.UUID))

		By("one Event with a count, although each attempt has another UID")
		expectNotOwned(create(owned))
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(owner).Should(ConsistOf(HaveField("Count", BeEquivalentTo(2))))

		By("on no other object")
		Expect(s.allEvents(ctx)).To(HaveLen(1))
	}, SpecTimeout(timeout))

	It("has an Event within two seconds after a denial", Label(volume.Label), func(ctx SpecContext) {
		s := begin(ctx)
		machine := s.createMachine(ctx, "worker")
		Expect(s.setInstanceID(ctx, machine, noServer)).NotTo(Succeed())
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).WithTimeout(2 * time.Second).Should(HaveLen(1))
	}, SpecTimeout(timeout))

	It("has no Event of a dry run", func(ctx SpecContext) {
		s := begin(ctx)
		machine := s.createMachine(ctx, "worker")
		Expect(s.previewInstanceID(ctx, machine, noServer)).NotTo(Succeed())
		// Events are written in order, so after this one there are no earlier ones.
		last := s.createMachine(ctx, "last")
		Expect(s.setInstanceID(ctx, last, noServer)).NotTo(Succeed())
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(last).Should(HaveLen(1))
		Expect(s.allEvents(ctx)).To(HaveLen(1))
	}, SpecTimeout(timeout))

	It("discloses nothing about another tenant, and neither do denials", func(ctx SpecContext) {
		alpha, beta := begin(ctx), begin(ctx)
		server := alpha.cloud.AddServer(region, alpha.user, "secret-project-worker")
		theirs := alpha.createMachine(ctx, "secret-project-worker")
		spare := alpha.cloud.AddServer(region, alpha.user, "secret-project-spare")
		Expect(alpha.setInstanceID(ctx, theirs, server.UUID)).To(Succeed())

		machine := beta.createMachine(ctx, "worker")
		held := beta.setInstanceID(ctx, machine, server.UUID)
		Expect(apierrors.HasStatusCause(held, "InstanceNotOwned")).To(BeTrue(), "%v", held)
		foreign := beta.setInstanceID(ctx, machine, spare.UUID)
		Expect(apierrors.HasStatusCause(foreign, "InstanceNotOwned")).To(BeTrue(), "%v", foreign)

		By("nor about another namespace of the same user")
		gamma := begin(ctx)
		gamma.setCluster(ctx, clusterName, "spec.userEmail", alpha.user.Email)
		twin := gamma.createMachine(ctx, "worker")
		var conflict error
		Eventually(func() bool { // the holder of the server is known from a watch, a moment late
			conflict = gamma.previewInstanceID(ctx, twin, server.UUID)
			return apierrors.HasStatusCause(conflict, "InstanceIDConflict")
		}).Should(BeTrue())
		conflict = gamma.setInstanceID(ctx, twin, server.UUID)
		Expect(apierrors.HasStatusCause(conflict, "InstanceIDConflict")).To(BeTrue(), "%v", conflict)

		Eventually(beta.eventsOn).WithContext(ctx).WithArguments(machine).Should(ContainElement(HaveField("Reason", "InstanceNotOwned")))
		Eventually(gamma.eventsOn).WithContext(ctx).WithArguments(twin).Should(ContainElement(HaveField("Reason", "InstanceIDConflict")))
		described, err := beta.describe(machine)
		Expect(err).NotTo(HaveOccurred())
		describedTwin, err := gamma.describe(twin)
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{alpha.namespace, "secret-project"} {
			for _, text := range []string{conflict.Error(), describedTwin} {
				Expect(text).NotTo(ContainSubstring(name))
			}
		}
		for _, name := range []string{alpha.user.Email, alpha.user.UUID, alpha.namespace, "secret-project"} {
			for _, text := range []string{held.Error(), foreign.Error(), described} {
				Expect(text).NotTo(ContainSubstring(name))
			}
		}
		Expect(alpha.allEvents(ctx)).To(BeEmpty(), "Events and denials contain nothing about another tenant")

		By("only the operator's log names the other tenant's machine")
		Expect(gamma.log()).To(MatchRegexp(`"decision":"denied","reason":"InstanceIDConflict".*"namespace":"` + gamma.namespace +
			`".*"holder":"CloudSigmaMachine \\"secret-project-worker\\" of namespace \\"` + alpha.namespace + `\\""`))
	}, SpecTimeout(timeout))
})

// previewInstanceID is setInstanceID without any effect.
func (s story) previewInstanceID(ctx context.Context, machine *unstructured.Unstructured, uuid string) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"instanceID":%q}}`, uuid))
	return s.client.Status().Patch(ctx, machine.DeepCopy(), patch, client.DryRunAll)
}

// allEvents are warrantgate's Events in the story's namespace.
func (s story) allEvents(ctx context.Context) ([]corev1.Event, error) {
	events := &corev1.EventList{}
	err := s.client.List(ctx, events, client.InNamespace(s.namespace), client.MatchingFields{"source": "warrantgate"})
	return events.Items, err
}
