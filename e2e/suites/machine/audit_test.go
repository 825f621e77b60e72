//go:build e2e

package machine_test

import (
	"context"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// oftenAudited sets a short audit interval, so that specs do not wait.
const oftenAudited = "audit: {interval: 1s, requestsPerSecond: 200}\n"

// The audit also checks machines and servers that were created before warrantgate was installed. It writes Events on them.
var _ = Describe("the audit", Ordered, func() {
	var (
		w        *world
		incident cloudsigmatest.Incident
		s        story
		cluster  *unstructured.Unstructured
		// stale, sibling and twice are machines; absent is one whose server does not exist.
		stale, sibling, twice, absent *unstructured.Unstructured
		// spare and orphan are servers of the user.
		spare, orphan cloudsigmatest.Server
		// versions are the resource versions before the installation of warrantgate.
		versions map[string]string
		servers  []cloudsigmatest.Server
	)
	const gone = "00000000-9a47-4b6e-8f21-7c9d0e1f2a3b"
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: oftenAudited, before: func(w *world) {
			var err error
			incident, err = w.cloud.Incident()
			Expect(err).NotTo(HaveOccurred())
			s = story{world: w, namespace: w.namespace(ctx), user: incident.User}
			cluster = newCluster(s.namespace, clusterName, incident.User.Email)
			Expect(w.client.Create(ctx, cluster)).To(Succeed())
			stale = w.leaveMachine(ctx, s.namespace, incident.Created.Name, incident.Stale.UUID)
			sibling = w.leaveMachine(ctx, s.namespace, incident.Sibling.Name, incident.Sibling.UUID)
			twice = w.leaveMachine(ctx, s.namespace, "twice", w.cloud.AddServer(region, s.user, "twice").UUID)
			absent = w.leaveMachine(ctx, s.namespace, "absent", gone)
			spare = w.cloud.AddServer(region, s.user, "twice")
			orphan = w.cloud.AddServer(region, s.user, "left-over", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, uuid.NewString()))
			w.cloud.AddServer(region, s.user, "desktop") // it was not created for a machine, so it is not reported
			versions, servers = w.versions(ctx, machineKind, clusterKind), w.cloud.Servers()
		}})
	}, NodeTimeout(setupTimeout))

	It("writes one Event with a count for each finding on the machine or cluster", func(ctx SpecContext) {
		expectEvents := func(object *unstructured.Unstructured, want ...any) {
			GinkgoHelper()
			Eventually(w.eventsOn).WithContext(ctx).WithArguments(object).Should(ConsistOf(want...))
		}
		user := `of user "tenant@example.com" in region "next"`
		expectEvents(stale,
			counted("InstanceNotOwned", "Audit: instance "+incident.Stale.UUID+" exists, but is not one "+user+`, which cluster "pool" acts as; `+
				"the user's own instance for this machine is "+incident.Created.UUID+
				"; clear the field, so that the provider adopts an instance of the user or creates one"))
		expectEvents(twice, counted("InstanceDuplicate", "Audit: instance "+spare.UUID+` ("twice") `+user+
			" was created for this machine, which names "+w.instanceID(ctx, twice)+"; delete the one that is not needed"))
		expectEvents(absent, counted("InstanceNotFound", "Audit: there is no instance "+gone+" "+user+`, which cluster "pool" acts as; `+
			"clear the field, so that the provider adopts an instance of the user or creates one"))
		expectEvents(cluster, counted("InstanceOrphaned", "Audit: instance "+orphan.UUID+` ("left-over") `+user+
			" was created for a machine that does not exist here; delete it if nothing else uses it"))
		expectEvents(sibling)

		By("and kubectl describe of the machine shows it")
		Expect(w.describe(stale)).To(MatchRegexp(`(?m)^ +Warning +InstanceNotOwned .*\(x\d+ over .*Audit: instance ` + incident.Stale.UUID))
	}, SpecTimeout(timeout))

	It("counts findings by reason", func(ctx SpecContext) {
		for reason, n := range map[string]float64{"InstanceNotOwned": 1, "InstanceDuplicate": 1, "InstanceNotFound": 1, "InstanceOrphaned": 1} {
			Eventually(w.findings).WithContext(ctx).WithArguments(reason).Should(Equal(n), reason)
		}
		Expect(w.gate.Metric(ctx, "warrantgate_audit_findings", nil)).To(BeEquivalentTo(4))
		Expect(w.gate.Metric(ctx, "warrantgate_audit_runs_total", map[string]string{"outcome": "incomplete"})).To(BeZero())
	}, SpecTimeout(timeout))

	It("changes nothing", func(ctx SpecContext) {
		w.awaitAudits(ctx, 2)
		Expect(w.versions(ctx, machineKind, clusterKind)).To(Equal(versions))
		Expect(w.cloud.Servers()).To(Equal(servers))
		reading := []cloudsigmatest.Operation{
			cloudsigmatest.ClientCredentials, cloudsigmatest.UMATicket, cloudsigmatest.Impersonate,
			cloudsigmatest.GetProfile, cloudsigmatest.GetServer, cloudsigmatest.ListServers,
		}
		for _, request := range w.cloud.Requests() {
			Expect(reading).To(ContainElement(request.Operation))
		}
	}, SpecTimeout(timeout))

	It("does not report corrected problems any more", func(ctx SpecContext) {
		Expect(w.setInstanceID(ctx, stale, incident.Created.UUID)).To(Succeed())
		w.cloud.RemoveServer(orphan.UUID)
		for reason, n := range map[string]float64{"InstanceNotOwned": 0, "InstanceDuplicate": 1, "InstanceNotFound": 1, "InstanceOrphaned": 0} {
			Eventually(w.findings).WithContext(ctx).WithArguments(reason).Should(Equal(n), reason)
		}
		for _, object := range []*unstructured.Unstructured{stale, cluster} {
			reported, err := w.eventsOn(ctx, object)
			Expect(err).NotTo(HaveOccurred())
			w.awaitAudits(ctx, 1)
			Expect(w.eventsOn(ctx, object)).To(Equal(reported))
		}
	}, SpecTimeout(timeout))

	It("reports an account that it could not audit, and audits all others", func(ctx SpecContext) {
		stranger := w.cloud.AddUser("stranger@example.com") // warrantgate may not act for this one
		theirs := newCluster(w.namespace(ctx), clusterName, stranger.Email)
		Expect(w.client.Create(ctx, theirs)).To(Succeed())
		Eventually(w.eventsOn).WithContext(ctx).WithArguments(theirs).Should(ConsistOf(And(
			HaveField("Reason", "OwnershipUnknown"), HaveField("Message", And(
				ContainSubstring(`the instances of user "stranger@example.com" in region "next" could not be listed`),
				ContainSubstring("allow it there, or correct the user of the cluster"))))))
		Eventually(w.findings).WithContext(ctx).WithArguments("OwnershipUnknown").Should(BeEquivalentTo(1))
		Expect(w.findings(ctx, "InstanceNotFound")).To(BeEquivalentTo(1))
		Expect(w.gate.Metric(ctx, "warrantgate_audit_runs_total", map[string]string{"outcome": "incomplete"})).To(BeNumerically(">=", 1))
		Expect(w.client.Delete(ctx, theirs)).To(Succeed())
		Eventually(w.findings).WithContext(ctx).WithArguments("OwnershipUnknown").Should(BeZero())
	}, SpecTimeout(timeout))
})

// counted matches an Event that has been counted up.
func counted(reason, message string) OmegaMatcher {
	return And(HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", reason), HaveField("Message", message),
		HaveField("Count", BeNumerically(">", 1)))
}

// eventsOn returns the Events of warrantgate on an object.
func (w *world) eventsOn(ctx context.Context, object client.Object) ([]corev1.Event, error) {
	events := &corev1.EventList{}
	err := w.client.List(ctx, events, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{"involvedObject.uid": string(object.GetUID()), "source": "warrantgate"})
	return events.Items, err
}

// findings is the number of findings with a reason in the last audit.
func (w *world) findings(ctx context.Context, reason string) (float64, error) {
	return w.gate.Metric(ctx, "warrantgate_audit_findings", map[string]string{"reason": reason})
}

// awaitAudits waits until n audits have begun and ended.
func (w *world) awaitAudits(ctx context.Context, n int) {
	GinkgoHelper()
	const runs = "warrantgate_audit_runs_total"
	before, err := w.gate.Metric(ctx, runs, nil)
	Expect(err).NotTo(HaveOccurred())
	// One may be running already.
	Eventually(w.gate.Metric).WithContext(ctx).WithArguments(runs, map[string]string(nil)).Should(BeNumerically(">", before+float64(n)))
}

// versions are the resource versions of all objects of the kinds.
func (w *world) versions(ctx context.Context, kinds ...schema.GroupVersionKind) map[string]string {
	return suite.Versions(ctx, w.client, kinds...)
}

// awaitAuditing returns once a replica runs the audit.
func awaitAuditing(ctx context.Context, gate *kubetest.Warrantgate) {
	GinkgoHelper()
	Eventually(func() (float64, error) { return auditsOf(ctx, gate) }).Should(BeNumerically(">", 0))
}

// auditsOf is the number of audits of a replica since its start.
func auditsOf(ctx context.Context, gate *kubetest.Warrantgate) (float64, error) {
	return gate.Metric(ctx, "warrantgate_audit_runs_total", nil)
}
