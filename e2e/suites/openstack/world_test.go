//go:build e2e

package openstack_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

// world is a warrantgate on the shared servers. Its user has only the documented permissions.
type world struct {
	*servers
	configuration string
	client        client.Client
	gate          *kubetest.Warrantgate
	// recorder records the denials and warnings of client.
	recorder *kubetest.Recorder
}

// current is the world whose warrantgate is installed. There is one at a time.
var current *world

// first is the priority of the containers that use worldWith without a configuration: they run first, one after the other.
const first = SpecPriority(1)

// worldWith returns a world with additional configuration: the current one if it has the same, or else another one, which ends when a
// container needs a world with another configuration.
func worldWith(ctx context.Context, configuration string) *world {
	GinkgoHelper()
	if current != nil && current.configuration == configuration {
		return current
	}
	endWorld(ctx)
	return startWorld(ctx, configuration)
}

// newWorld starts a world for the container that calls it, and ends it with that container.
func newWorld(ctx context.Context, configuration string) *world {
	GinkgoHelper()
	endWorld(ctx)
	DeferCleanup(endWorld)
	return startWorld(ctx, configuration)
}

func startWorld(ctx context.Context, configuration string) *world {
	GinkgoHelper()
	w := &world{servers: shared, configuration: configuration, recorder: &kubetest.Recorder{}}
	w.client = suite.KubeClient(w.api, w.recorder.Listen(w.api.Config()))
	if !strings.Contains(configuration, "audit:") {
		configuration += "\naudit: {mode: Off}\n" // an audit would change the number of requests
	}
	if !strings.Contains(configuration, "machine:") {
		configuration += "\nmachine: {unknown: Deny}\n"
	}
	var err error
	w.gate, err = kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{
		Args: []string{"--log-level=debug"},
		Configuration: fmt.Sprintf(`apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
openStack: {authURLs: [%q], caFile: %q}
%s`, w.front.Endpoint(), w.caFile, configuration),
	})
	Expect(err).NotTo(HaveOccurred())
	// The last replica that ran the audit may not have released the Lease.
	Expect(client.IgnoreNotFound(w.client.Delete(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "warrantgate-audit"},
	}))).To(Succeed())
	current = w
	// The permissions first: without them it cannot become ready.
	_, err = w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	w.patient(ctx)
	Expect(w.gate.Start(ctx)).To(Succeed())
	w.awaitGate(ctx)
	return w
}

// patient sets the timeouts of the webhooks so that no verdict depends on how busy this machine is, and no denial of a first claim takes long.
func (w *world) patient(ctx context.Context) {
	GinkgoHelper()
	suite.Patient(ctx, w.client)
	suite.BriefFirstClaims(ctx, w.client)
}

// impatient restores the timeouts until the end of a spec that awaits one.
func (w *world) impatient(ctx context.Context) {
	GinkgoHelper()
	_, err := w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.patient)
}

// awaitGate returns once the API server calls this warrantgate, a moment after the installation of the webhook configuration.
func (w *world) awaitGate(ctx context.Context) {
	GinkgoHelper()
	canary := newMachine(w.namespace(ctx), "canary", "no-cluster", with(providerIDPath, "openstack:///"+uuid.NewString()))
	Eventually(func() []string {
		w.recorder.TakeWarnings()
		if reason := reasonOf(w.client.Create(ctx, canary.DeepCopy(), client.DryRunAll)); reason != "" {
			return []string{reason}
		}
		return w.recorder.TakeWarnings() // a gate that only warns
	}).WithContext(ctx).Should(HaveExactElements(HavePrefix("ClusterMissing")))
}

// endWorld ends the current world, if there is one: it removes warrantgate and all objects of specs. warrantgate must have sent no unknown
// requests to the cloud, and written no secrets.
func endWorld(ctx context.Context) {
	GinkgoHelper()
	w := current
	if w == nil {
		return
	}
	current = nil
	metrics, metricsErr := w.gate.OpenMetrics(ctx)
	_, err := w.gate.Uninstall(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.gate.Stop()).To(Succeed())
	for _, kind := range []schema.GroupVersionKind{machineKind, clusterKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		Expect(w.client.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			Expect(w.client.Delete(ctx, &list.Items[i])).To(Succeed())
		}
	}
	Expect(metricsErr).NotTo(HaveOccurred())
	Expect(w.novaFront.Violations()).To(BeEmpty(), "Nova received unknown requests")
	Expect(w.front.Violations()).To(BeEmpty(), "Keystone received requests other than for tokens")
	suite.ExpectNoSecrets(ctx, w.client, w.leaks, map[string]string{
		"the log": suite.Log(w.gate), "the metrics": metrics, "an error or a warning": w.recorder.Texts(),
	})
}

// admissions is the number of admissions of a gate with a decision, such as "denied". "" is any.
func (w *world) admissions(ctx context.Context, gate, decision string) float64 {
	GinkgoHelper()
	labels := map[string]string{"gate": gate}
	if decision != "" {
		labels["decision"] = decision
	}
	count, err := w.gate.Metric(ctx, "warrantgate_admissions_total", labels)
	Expect(err).NotTo(HaveOccurred())
	return count
}

// The gates, as their metrics name them.
const delegationGate, ownershipGate = "cluster-delegation", "machine-ownership"
