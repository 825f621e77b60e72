//go:build e2e

package openstack_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The gate evaluates an object when it starts to refer to credentials. Other requests do not wait for it.
var _ = Describe("The reference to credentials", Ordered, ContinueOnFailure, first, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "") }, NodeTimeout(setupTimeout))

	It("of a machine with its own is evaluated as that of a cluster", func(ctx SpecContext) {
		s := w.beginCluster(ctx)
		s.writeSecret(ctx, "poor", s.password(s.newUser(ctx, "poor", member)))
		machine := newMachine(s.namespace, "worker", clusterName, actsWith("poor"))
		expectDenial(s.client.Create(ctx, machine.DeepCopy()), "RoleMissing", identityRefPath,
			`spec.identityRef of OpenStackMachine "worker" of namespace "`+s.namespace+`": cloud "openstack" of Secret "poor": user "poor"`)
		actsWith(credentials)(machine)
		Expect(s.client.Create(ctx, machine)).To(Succeed())
		expectDenial(s.set(ctx, machine, identityRefPath+".name", "poor"), "RoleMissing", identityRefPath)
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).Should(ConsistOf(denied("RoleMissing", `Secret "poor"`)))
	}, SpecTimeout(timeout))

	It("is evaluated when it changes, and does not reach the gate otherwise", func(ctx SpecContext) {
		s := w.beginCluster(ctx)
		s.writeSecret(ctx, "another", s.password(s.newUser(ctx, "another", loadBalancer)))
		cluster := newObject(clusterKind, s.namespace, clusterName)
		evaluated, requests := s.admissions(ctx, delegationGate, ""), s.authentications()
		Expect(s.set(ctx, cluster, "metadata.labels", map[string]any{"tier": "gold"})).To(Succeed())
		Expect(s.set(ctx, cluster, "spec.managedSubnets", []any{})).To(Succeed())
		Expect(s.set(ctx, cluster, "status.ready", true)).To(Succeed())
		s.machine(ctx, "worker")
		Expect(s.admissions(ctx, delegationGate, "")).To(Equal(evaluated))

		Expect(s.set(ctx, cluster, identityRefPath+".name", "another")).To(Succeed())
		Expect(s.admissions(ctx, delegationGate, "allowed")).To(BeNumerically(">", 0))
		Expect(s.admissions(ctx, delegationGate, "")).To(Equal(evaluated + 1))
		Expect(s.authentications()).To(Equal(requests + 1))

		By("nor when it is removed")
		Expect(s.set(ctx, cluster, identityRefPath, nil)).To(Succeed())
		Expect(s.admissions(ctx, delegationGate, "")).To(Equal(evaluated + 1))
	}, SpecTimeout(timeout))
})
