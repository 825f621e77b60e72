//go:build e2e

package chart_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The objects of the chart are sufficient to serve, and gate neither warrantgate nor the API server.
var _ = Describe("The chart", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		// Before the audit asks about clusters that other specs have left: a refusal is remembered.
		w.cloud.AddUser(tenant)
		Expect(w.cloud.AllowImpersonation(accountName, tenant)).To(Succeed())
		w.pod.startReady(ctx, w.admin)
		Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(timeout))

	It("denies a broken policy, with an Event", func(ctx SpecContext) {
		namespace := w.newNamespace(ctx)
		Expect(deniedByGate(w.author.Create(ctx, policy(namespace, "policy", broken)))).To(Succeed())
		Expect(w.author.Create(ctx, policy(namespace, "policy", sound))).To(Succeed())
		change := policy(namespace, "policy", broken)
		Expect(deniedByGate(w.admin.Update(ctx, change))).To(Succeed())
		Eventually(func() ([]corev1.Event, error) {
			events := &corev1.EventList{}
			err := w.admin.List(ctx, events, client.InNamespace(namespace))
			return events.Items, err
		}).Should(ContainElement(HaveField("Reason", "KeystonePolicyBroken")))
	}, SpecTimeout(timeout))

	DescribeTable("does not gate objects that it depends on", func(ctx SpecContext, namespace string) {
		Expect(w.admin.Create(ctx, policy(namespace, "ungated", broken), client.DryRunAll)).To(Succeed())
	},
		Entry("in its own namespace", namespace, SpecTimeout(timeout)),
		Entry("in kube-system", metav1.NamespaceSystem, SpecTimeout(timeout)),
	)

	It("denies a cluster that names a user that its author may not impersonate", func(ctx SpecContext) {
		namespace := w.newNamespace(ctx)
		create := func() error {
			return w.author.Create(ctx, cluster(namespace, "metal", map[string]any{"userEmail": "tenant@example.com"}))
		}
		// The webhook denies it, too, until the API server observes the policy.
		Eventually(create).WithContext(ctx).Should(MatchError(And(ContainSubstring("ValidatingAdmissionPolicy 'cloudsigmaclusters.cluster.warrantgate.dev'"),
			ContainSubstring(`may not impersonate "tenant@example.com"`))))
	}, SpecTimeout(timeout))

	DescribeTable("denies a malformed ID", func(ctx SpecContext, machine *unstructured.Unstructured) {
		machine.SetNamespace(w.newNamespace(ctx))
		Expect(w.admin.Create(ctx, machine)).To(MatchError(MatchRegexp(`admission webhook ".*machines.machine.warrantgate.dev".* is not a provider ID`)))
	},
		Entry("of CloudSigma", ofProvider("CloudSigmaMachine", map[string]any{"providerID": "cloudsigma://no-uuid"}), SpecTimeout(timeout)),
		Entry("of OpenStack", ofProvider("OpenStackMachine", map[string]any{"providerID": "openstack:///no-uuid"}), SpecTimeout(timeout)),
	)

	DescribeTable("also denies", func(ctx SpecContext, object client.Object, reason metav1.CauseType) {
		object.SetNamespace(w.newNamespace(ctx))
		err := w.admin.Create(ctx, object)
		Expect(apierrors.HasStatusCause(err, reason)).To(BeTrue(), "%v", err)
	},
		Entry("a machine of CloudSigma", withoutCluster("CloudSigmaMachine", "cloudsigma://"), metav1.CauseType("ClusterMissing"), SpecTimeout(timeout)),
		Entry("a machine of OpenStack", withoutCluster("OpenStackMachine", "openstack:///"), metav1.CauseType("ClusterMissing"), SpecTimeout(timeout)),
		Entry("the credentials of a cluster of OpenStack", ofProvider("OpenStackCluster", map[string]any{
			"identityRef": map[string]any{"type": "Secret", "name": "missing", "cloudName": "openstack"},
		}), metav1.CauseType("IdentitySecretMissing"), SpecTimeout(timeout)),
	)

	It("denies a machine that names no server of its cluster's user", func(ctx SpecContext) {
		machine := ofProvider("CloudSigmaMachine", map[string]any{"providerID": "cloudsigma://7d0e1e6a-3c1f-4f3e-9d55-0c5c37ad6a01"})
		machine.SetNamespace(w.newTenancy(ctx))
		machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "metal"})
		err := w.admin.Create(ctx, machine)
		Expect(apierrors.HasStatusCause(err, "InstanceNotFound")).To(BeTrue(), "%v", err)
	}, SpecTimeout(timeout))

	It("uses a Lease in its own namespace to choose the replica that runs the audit", func(ctx SpecContext) {
		Eventually(func() error { return w.admin.Get(ctx, lease, &coordinationv1.Lease{}) }).Should(Succeed())
	}, SpecTimeout(timeout))

	It("is trusted again after an upgrade, if an administrator has changed the caBundle", func(ctx SpecContext) {
		trusted := w.bundles(ctx)
		other, _, err := cert.GenerateSelfSignedCertKey("other", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(w.admin.Get(ctx, client.ObjectKey{Name: release}, configuration)).To(Succeed())
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].ClientConfig.CABundle = other
		}
		Expect(w.admin.Update(ctx, configuration)).To(Succeed())
		Eventually(w.checkCalled).WithContext(ctx).Should(MatchError(ContainSubstring("failed calling webhook")))
		w.upgrade(ctx)
		Expect(w.bundles(ctx)).To(Equal(trusted))
		Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(timeout))

	It("responds to the liveness probe", func(ctx SpecContext) {
		Expect(w.pod.probe(ctx, "/healthz")).To(Equal(http.StatusOK))
	}, SpecTimeout(timeout))
})

// lease is the Lease of the replica that runs the audit.
var lease = client.ObjectKey{Namespace: namespace, Name: "warrantgate-audit"}
