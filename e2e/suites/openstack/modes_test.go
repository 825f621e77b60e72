//go:build e2e

package openstack_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// In the mode Warn, operators can try the gate without denials.
var _ = Describe("In the mode Warn", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "cluster: {delegation: {mode: Warn}}\nmachine: {mode: Warn}")
	}, NodeTimeout(setupTimeout))

	It("credentials with missing roles are admitted with a warning and an Event", func(ctx SpecContext) {
		s := w.beginCluster(ctx)
		s.writeSecret(ctx, "poor", s.password(s.newUser(ctx, "poor", member)))
		cluster := newObject(clusterKind, s.namespace, clusterName)
		Expect(s.client.Get(ctx, keyOf(cluster), cluster)).To(Succeed())
		s.recorder.TakeWarnings()
		Expect(s.set(ctx, cluster, identityRefPath+".name", "poor")).To(Succeed())
		Expect(s.recorder.TakeWarnings()).To(HaveExactElements(And(
			HavePrefix("RoleMissing (mode Warn, nothing was changed or denied): spec.identityRef of OpenStackCluster"),
			ContainSubstring("missing: load-balancer_member"))))
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(cluster).Should(ConsistOf(And(
			HaveField("Reason", "RoleMissing"), HaveField("Message", HavePrefix("Admitted with a warning: ")))))
		Expect(s.admissions(ctx, delegationGate, "warned")).To(BeEquivalentTo(1))
	}, SpecTimeout(timeout))

})

// Without the gate on delegations, a cluster can act as an administrator, who sees the servers of all projects.
var _ = Describe("In the mode Off", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, "cluster: {delegation: {mode: Off}}") }, NodeTimeout(setupTimeout))

	It("there are no requests about credentials", func(ctx SpecContext) {
		Expect(w.hooks(ctx)).To(And(
			ContainElement("openstackmachines.machine.warrantgate.dev"), Not(ContainElement(ContainSubstring(".delegation.")))))
		s := w.begin(ctx)
		before := s.authentications()
		Expect(s.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
		Expect(s.authentications()).To(Equal(before))
	}, SpecTimeout(timeout))

	It("an administrator's cluster still may not name servers of other projects", func(ctx SpecContext) {
		s := w.begin(ctx, "admin")
		Expect(s.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
		theirs, own := s.foreignServer(ctx, "worker"), s.server(ctx, "worker")
		machine := s.machineOf(ctx, own)
		expectDenial(s.set(ctx, machine, instanceIDPath, theirs.ID), "InstanceNotOwned", instanceIDPath,
			"this instance of the region of its credentials exists, but is not one of the project of "+
				`cloud "openstack" of Secret "credentials" (`+s.project+`)`,
			"the cloud answered 200, owned by another project, request id req-", own.ID)
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).Should(ConsistOf(denied("InstanceNotOwned", theirs.ID)))
	}, SpecTimeout(timeout))
})

// hooks are the names of the registered webhooks.
func (w *world) hooks(ctx context.Context) []string {
	GinkgoHelper()
	registered := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"}}
	Expect(w.client.Get(ctx, keyOf(registered), registered)).To(Succeed())
	var names []string
	for _, hook := range registered.Webhooks {
		names = append(names, hook.Name)
	}
	return names
}
