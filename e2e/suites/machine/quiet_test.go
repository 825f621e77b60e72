//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// atOnce is the number of machines that are written at once.
var atOnce = volume.Of(20, 100)

// warrantgate sends no unnecessary request, and no request twice.
var _ = Describe("The gate on machines", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "audit: {mode: Off}\n"}) // the audit sends requests to the cloud as well
	}, NodeTimeout(setupTimeout))

	It("needs one token of each kind for many machines at once of a new user", func(ctx SpecContext) {
		s := w.begin(ctx)
		w.nameAtOnce(ctx, s, atOnce)
		for _, operation := range []cloudsigmatest.Operation{
			cloudsigmatest.ClientCredentials, cloudsigmatest.UMATicket, cloudsigmatest.Impersonate, cloudsigmatest.GetProfile,
		} {
			Expect(w.cloud.Count(operation)).To(Equal(1), "requests: %s", operation)
		}
		Expect(w.cloud.Count(cloudsigmatest.GetServer)).To(Equal(atOnce))
		Expect(w.cloud.Requests()).To(HaveLen(4 + atOnce))
	}, SpecTimeout(timeout))

	It("requests a server once if there is a token, and not again for the second field", func(ctx SpecContext) {
		s := w.begin(ctx)
		Expect(w.setInstanceID(ctx, s.createMachine(ctx, "first"), s.server("first").UUID)).To(Succeed())
		machine := s.createMachine(ctx, "second")
		for _, id := range []string{s.server("former").UUID, s.server("second").UUID} { // a new machine, and a replaced server
			Expect(s.set(ctx, machine, instanceIDPath, "")).To(Succeed())
			before, admissions := len(w.cloud.Requests()), w.allAdmissions(ctx)
			Expect(s.set(ctx, machine, instanceIDPath, id)).To(Succeed())
			requests := w.cloud.Requests()[before:]
			Expect(requests).To(HaveExactElements(And(
				HaveField("Operation", cloudsigmatest.GetServer), HaveField("User", s.user.Email), HaveField("Status", 200))))

			Expect(s.set(ctx, machine, providerIDPath, valueOf(providerIDPath, id))).To(Succeed())
			Expect(w.allAdmissions(ctx)).To(Equal(admissions+1), "the API server called warrantgate for the second field")
			Expect(remove(ctx, w.client, machine, instanceIDPath)).To(Succeed())
			Expect(s.set(ctx, machine, instanceIDPath, id)).To(Succeed())
			Expect(w.cloud.Requests()).To(HaveLen(before + 1))
		}
	}, SpecTimeout(timeout))

	It("is not called for heartbeats of a machine", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine, id := s.createMachine(ctx, "machine"), s.server("machine").UUID
		Expect(w.setInstanceID(ctx, machine, id)).To(Succeed())
		Expect(s.set(ctx, machine, providerIDPath, valueOf(providerIDPath, id))).To(Succeed())
		Expect(w.client.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())

		admissions, requests := w.allAdmissions(ctx), len(w.cloud.Requests())
		heartbeats := volume.Of(100, 1000)
		for i := range heartbeats {
			with("status.heartbeat", int64(i))(machine)
			with("status.instanceState", []string{"running", "stopping"}[i%2])(machine)
			Expect(w.client.Status().Update(ctx, machine)).To(Succeed())
		}
		Expect(machine.Object["status"]).To(HaveKeyWithValue("heartbeat", BeEquivalentTo(heartbeats-1)))
		Expect(s.holds(ctx, machine, instanceIDPath)).To(Equal(id))
		Expect(w.allAdmissions(ctx)).To(Equal(admissions), "the API server called warrantgate")
		Expect(w.cloud.Requests()).To(HaveLen(requests), "warrantgate sent a request to the cloud")
	}, SpecTimeout(3*timeout))

	// Repairs by a user are never denied, even if the cloud or warrantgate does not answer. These are the last specs, because the cloud does not
	// start again.
	var (
		s        story
		machines map[string]*unstructured.Unstructured
	)
	prepare := func(ctx context.Context) {
		GinkgoHelper()
		s, machines = w.begin(ctx), map[string]*unstructured.Unstructured{}
		for _, name := range []string{"without-cloud", "without-warrantgate", "keeping"} {
			machine := newMachine(s.namespace, name, clusterName)
			machine.SetFinalizers([]string{"cloudsigmamachine.infrastructure.cluster.x-k8s.io"})
			Expect(w.client.Create(ctx, machine)).To(Succeed())
			server := s.server(name)
			Expect(w.setInstanceID(ctx, machine, server.UUID)).To(Succeed())
			Expect(s.set(ctx, machine, providerIDPath, valueOf(providerIDPath, server.UUID))).To(Succeed())
			s.giveAway(server) // so that a request would be denied if it reached the gate
			machines[name] = machine
		}
	}
	// release makes the changes of a controller that releases a machine.
	release := func(ctx context.Context, name string) {
		GinkgoHelper()
		machine := machines[name]
		Expect(remove(ctx, w.client, machine, instanceIDPath)).To(Succeed())
		Expect(s.holds(ctx, machine, instanceIDPath)).To(BeEmpty())
		Expect(w.client.Delete(ctx, machine)).To(Succeed())
		Expect(s.holds(ctx, machine, providerIDPath)).NotTo(BeEmpty()) // the finalizer keeps it
		withoutFinalizer := machine.DeepCopy()
		withoutFinalizer.SetFinalizers(nil)
		Expect(w.client.Patch(ctx, withoutFinalizer, client.MergeFrom(machine))).To(Succeed())
		Expect(apierrors.IsNotFound(w.client.Get(ctx, client.ObjectKeyFromObject(machine), machine))).To(BeTrue())
	}

	It("is not called for clearing and deleting machines while the cloud and the identity provider are down", func(ctx SpecContext) {
		prepare(ctx)
		Expect(w.cloud.Stop()).To(Succeed())
		admissions := w.allAdmissions(ctx)
		keeping := machines["keeping"]
		Expect(s.set(ctx, keeping, providerIDPath, "")).To(Succeed())
		release(ctx, "without-cloud")
		Expect(w.allAdmissions(ctx)).To(Equal(admissions))

		By("an ID that was cleared cannot be set again")
		expectDenial(s.set(ctx, keeping, providerIDPath, valueOf(providerIDPath, s.server("new").UUID)), "OwnershipUnknown", providerIDPath)
		Expect(s.set(ctx, keeping, instanceIDPath, "")).To(Succeed())
		expectDenial(s.set(ctx, keeping, instanceIDPath, s.server("new").UUID), "OwnershipUnknown", instanceIDPath)
	}, SpecTimeout(timeout))

	It("does not stop clearing, deleting and heartbeats while warrantgate is down as well, but no write that names a server", func(ctx SpecContext) {
		Expect(w.gate.Stop()).To(Succeed())
		release(ctx, "without-warrantgate")
		keeping := machines["keeping"]
		Expect(s.set(ctx, keeping, "status.instanceState", "running")).To(Succeed())
		for _, field := range []string{instanceIDPath, providerIDPath} {
			err := s.set(ctx, keeping, field, valueOf(field, s.server("new").UUID))
			Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring(`failed calling webhook "first.cloudsigmamachines.machine.warrantgate.dev"`)))
			Expect(s.holds(ctx, keeping, field)).To(BeEmpty())
		}
		By("warrantgate becomes ready without the cloud and the identity provider")
		Expect(w.gate.Start(ctx)).To(Succeed())
		keeping.SetFinalizers(nil)
		Expect(s.set(ctx, keeping, "status.instanceState", "stopped")).To(Succeed())
	}, SpecTimeout(timeout))
})

// nameAtOnce makes new machines name their servers at the same time. The first token exchange for the user does not return until the namespace
// uses its share of the lookups, and all other requests were denied with 429. Their clients send them again.
func (w *world) nameAtOnce(ctx context.Context, s story, machines int) {
	GinkgoHelper()
	rejected := func() (float64, error) { return w.gate.Metric(ctx, "warrantgate_ownership_rejected_total", nil) }
	before, err := rejected()
	Expect(err).NotTo(HaveOccurred())
	exchange := w.cloud.Fail(cloudsigmatest.Hang(), 1, cloudsigmatest.Impersonate)
	defer exchange.Release()
	errs := make([]error, machines)
	var all sync.WaitGroup
	for i := range machines {
		machine, id := s.createMachine(ctx, fmt.Sprintf("machine-%d", i)), s.server("server").UUID
		all.Go(func() {
			// On a busy machine the API server may wait too long. A controller retries then, and so does this test.
			errs[i] = retry.OnError(retry.DefaultBackoff, apierrors.IsServiceUnavailable, func() error {
				return w.setInstanceID(ctx, machine, id)
			})
		})
	}
	const lookups = 8 // half of cloudSigma.concurrency
	Eventually(rejected).WithPolling(5 * time.Millisecond).Should(BeNumerically(">=", before+float64(machines-lookups)))
	exchange.Release()
	all.Wait()
	Expect(errs).To(HaveEach(BeNil()))
}

// lookups is the number of requests to the cloud for a server as the story's user.
func (s story) lookups() int { return s.cloud.Count(cloudsigmatest.GetServer, s.user.Email) }

// allAdmissions is the number of all calls of warrantgate.
func (w *world) allAdmissions(ctx context.Context) float64 {
	GinkgoHelper()
	calls, err := w.gate.Metric(ctx, "warrantgate_admissions_total", nil)
	Expect(err).NotTo(HaveOccurred())
	return calls
}
