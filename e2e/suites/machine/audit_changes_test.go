//go:build e2e

package machine_test

import (
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// rarelyAudited makes the first run the only one during a spec.
const rarelyAudited = "audit: {interval: 1h, requestsPerSecond: 200}\n"

// auditedAs matches an Event of the audit.
func auditedAs(reason, message string) OmegaMatcher {
	return And(HaveField("Reason", reason), HaveField("Message", HavePrefix("Audit: "+message)))
}

// Between two runs, the audit checks machines whose claim has changed.
var _ = Describe("the audit between two runs", Ordered, func() {
	var (
		w *world
		// differing is a machine whose fields name two servers of its user, and orphaned a cluster whose Secret was deleted.
		differing   *unstructured.Unstructured
		orphaned    *unstructured.Unstructured
		first, last cloudsigmatest.Server
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: rarelyAudited + "machine: {unknown: AdmitFirstClaims}\n", before: func(w *world) {
			user := w.user("differing@example.com")
			namespace := w.namespace(ctx)
			Expect(w.client.Create(ctx, newCluster(namespace, clusterName, user.Email))).To(Succeed())
			orphaned = newObject(clusterKind, namespace, "orphaned", with("spec.region", region), with("spec.userRef.name", "gone"))
			Expect(w.client.Create(ctx, orphaned)).To(Succeed())
			first, last = w.cloud.AddServer(region, user, "differing"), w.cloud.AddServer(region, user, "former")
			differing = w.leaveMachine(ctx, namespace, "differing", first.UUID)
			with("spec.providerID", "cloudsigma://"+last.UUID)(differing)
			Expect(w.client.Update(ctx, differing)).To(Succeed())
		}})
		awaitAuditing(ctx, w.gate)
	}, NodeTimeout(setupTimeout))

	differ := func() string {
		return "status.instanceID names instance " + first.UUID + ", and spec.providerID names " + last.UUID + "; "
	}

	It("has reported in its first run what the gates have not seen", func(ctx SpecContext) {
		Eventually(w.eventsOn).WithContext(ctx).WithArguments(orphaned).Should(ConsistOf(auditedAs("UserSecretMissing",
			`the user that its provider acts as is unknown: CloudSigmaCluster "orphaned": spec.userRef: there is no Secret "gone" in namespace "`+orphaned.GetNamespace()+`"`)))
		Eventually(w.findings).WithContext(ctx).WithArguments("UserSecretMissing").Should(BeEquivalentTo(1))
	}, SpecTimeout(timeout))

	It("reports a claim of another user's server that was stored during an outage, once the cloud answers", func(ctx SpecContext) {
		s, thief := w.begin(ctx), w.begin(ctx)
		foreign := w.cloud.AddServer(region, s.user, "worker").UUID
		machine := thief.createMachine(ctx, "worker")
		down := w.cloud.Fail(cloudsigmatest.Status(http.StatusServiceUnavailable), 0, cloudsigmatest.GetServer)
		DeferCleanup(down.Release)
		Expect(w.setInstanceID(ctx, machine, foreign)).To(Succeed())
		met := down.Met()
		Eventually(down.Met).Should(BeNumerically(">", met+1), "the audit asks again and again")
		Expect(w.eventsOn(ctx, machine)).NotTo(ContainElement(HaveField("Message", HavePrefix("Audit: "))))

		down.Release()
		Eventually(w.eventsOn).WithContext(ctx).WithTimeout(90 * time.Second).WithArguments(machine).Should(ContainElement(
			auditedAs("InstanceNotOwned", "instance "+foreign+" exists, but is not one of user")))
		Eventually(w.findings).WithContext(ctx).WithArguments("InstanceNotOwned").Should(BeEquivalentTo(1))
		Expect(auditsOf(ctx, w.gate)).To(BeEquivalentTo(1), "there was no second run")

		By("and no longer once the machine does not name it")
		Expect(w.setInstanceID(ctx, machine, "")).To(Succeed())
		Eventually(w.findings).WithContext(ctx).WithArguments("InstanceNotOwned").Should(BeZero())
	}, SpecTimeout(timeout))

	It("sends no request for a claim that the gate has confirmed", func(ctx SpecContext) {
		s, later := w.begin(ctx), w.begin(ctx)
		Expect(w.setInstanceID(ctx, s.createMachine(ctx, "worker"), w.cloud.AddServer(region, s.user, "worker").UUID)).To(Succeed())
		By("waiting for the check of a later claim")
		machine := later.createMachine(ctx, "worker")
		down := w.cloud.Fail(cloudsigmatest.Status(http.StatusServiceUnavailable), 0, cloudsigmatest.GetServer)
		DeferCleanup(down.Release)
		Expect(w.setInstanceID(ctx, machine, noServer)).To(Succeed())
		down.Release()
		Eventually(w.eventsOn).WithContext(ctx).WithTimeout(90 * time.Second).WithArguments(machine).Should(ContainElement(
			auditedAs("InstanceNotFound", "there is no instance "+noServer)))
		Expect(w.cloud.Count(cloudsigmatest.GetServer, s.user.Email)).To(Equal(1), "that of the gate")
	}, SpecTimeout(timeout))

	It("reports fields that have differed for a minute, and so does the command", func(ctx SpecContext) {
		user, err := w.api.User(kubetest.WarrantgateUser)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err := w.api.KubeconfigFile("auditor-of-changes", user)
		Expect(err).NotTo(HaveOccurred())
		command := make(chan audited)
		go func() {
			defer GinkgoRecover()
			defer close(command)
			command <- auditCommand{world: w, args: []string{
				"--kubeconfig=" + kubeconfig, "--config=" + w.gate.ConfigFile(), "--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName,
			}}.run(ctx, "-o=json")
		}()
		Eventually(w.eventsOn).WithContext(ctx).WithTimeout(2 * time.Minute).WithArguments(differing).Should(ContainElement(
			auditedAs("InstanceIDMismatch", differ())))
		Eventually(w.findings).WithContext(ctx).WithArguments("InstanceIDMismatch").Should(BeEquivalentTo(1))

		By("the command waits for a minute, too")
		var got audited
		Eventually(command).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Receive(&got))
		Expect(got.status).To(Equal(1))
		Expect(got.notes).To(MatchRegexp(`(?m)^problems that a provider may be about to correct: \d, checking again in 1m0s$`))
		Expect(got.findings()).To(ContainElement(And(
			HaveField("Name", "differing"), HaveField("Reason", "InstanceIDMismatch"), HaveField("Message", HavePrefix(differ())))))
	}, SpecTimeout(timeout))

	It("does not report fields that have become equal any more", func(ctx SpecContext) {
		Expect(write(ctx, w.client, differing.DeepCopy(), providerIDPath, "cloudsigma://"+first.UUID)).To(Succeed())
		Eventually(w.findings).WithContext(ctx).WithArguments("InstanceIDMismatch").Should(BeZero())
	}, SpecTimeout(timeout))

	// No gate evaluates this.
	It("reports a machine whose owner Machine was deleted and created again with the label of another cluster", func(ctx SpecContext) {
		s := w.begin(ctx)
		owner := newObject(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}, s.namespace, "owner")
		owner.SetLabels(inCluster(clusterName))
		Expect(w.client.Create(ctx, owner)).To(Succeed())
		machine := s.createMachine(ctx, "worker")
		machine.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}})
		Expect(w.client.Update(ctx, machine)).To(Succeed())
		Expect(w.setInstanceID(ctx, machine, w.cloud.AddServer(region, s.user, "worker").UUID)).To(Succeed())

		Expect(w.client.Delete(ctx, owner)).To(Succeed())
		again := newObject(owner.GroupVersionKind(), s.namespace, "owner")
		again.SetLabels(inCluster("another"))
		Expect(w.client.Create(ctx, again)).To(Succeed())
		Eventually(w.eventsOn).WithContext(ctx).WithArguments(machine).Should(ContainElement(
			auditedAs("OwnerClusterMismatch", `its owner, Machine "owner", belongs to cluster "another" by its label`)))
		Eventually(w.findings).WithContext(ctx).WithArguments("OwnerClusterMismatch").Should(BeEquivalentTo(1))
		Expect(auditsOf(ctx, w.gate)).To(BeEquivalentTo(1), "there was no second run")
	}, SpecTimeout(timeout))
})
