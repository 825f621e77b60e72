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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// noServer is a UUID that no server has.
const noServer = "00000000-9a47-4b6e-8f21-7c9d0e1f2a3b"

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

	It("discloses nothing about another tenant, and neither do denials", func(ctx SpecContext) {
		alpha, beta := begin(ctx), begin(ctx)
		server := alpha.cloud.AddServer(region, alpha.user, "secret-project-worker")
		Expect(alpha.client.Create(ctx, newCluster(alpha.namespace, "secret-project", alpha.user.Email))).To(Succeed())
		theirs := newMachine(alpha.namespace, "secret-project-worker", "secret-project")
		Expect(alpha.client.Create(ctx, theirs)).To(Succeed())
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
		const anothers = "a machine of another namespace names this instance already"
		conflict = gamma.setInstanceID(ctx, twin, server.UUID)
		expectDenial(conflict, "InstanceIDConflict", instanceIDPath)
		Expect(conflict).To(MatchError(And(ContainSubstring(anothers), ContainSubstring("an instance can belong to one machine only"))))

		Eventually(beta.eventsOn).WithContext(ctx).WithArguments(machine).Should(ContainElement(HaveField("Reason", "InstanceNotOwned")))
		Eventually(gamma.verdictEvents).WithContext(ctx).Should(HaveExactElements(And(
			HaveField("InvolvedObject.UID", twin.GetUID()), HaveField("Reason", "InstanceIDConflict"), HaveField("Message", ContainSubstring(anothers)))))
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
		Expect(suite.Log(gamma.gate)).To(MatchRegexp(`"decision":"denied","reason":"InstanceIDConflict".*"namespace":"` + gamma.namespace +
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

// describe is the output of "kubectl describe" of an object.
func (w *world) describe(object *unstructured.Unstructured) (string, error) {
	return suite.KubectlDescribe(w.api.Config(), object.GroupVersionKind(), object.GetNamespace(), object.GetName())
}
