//go:build e2e

package openstack_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/openstacktest"
)

// configuredServers enables the gate for the kind OpenStackServer, as the README says.
const configuredServers = `machine:
  kinds:
  - {group: infrastructure.cluster.x-k8s.io, version: v1alpha1, kind: OpenStackServer, resource: openstackservers, provider: openstack,
     identityRefPath: spec.identityRef}
cluster:
  delegation:
    kinds:
    - {group: infrastructure.cluster.x-k8s.io, version: v1alpha1, kind: OpenStackServer, resource: openstackservers}
`

// Newer versions of the provider create a server from an OpenStackServer, which has the name of its OpenStackMachine and refers to
// credentials itself. The writes of both are those of the provider, in its order. The attacker has every permission in its namespace.
var _ = Describe("An OpenStackServer", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, configuredServers+"audit: {interval: 1s, requestsPerSecond: 200}")
	}, NodeTimeout(setupTimeout))

	begin := func(ctx SpecContext) (s, other story) {
		GinkgoHelper()
		s, other = w.beginCluster(ctx), w.begin(ctx, member, loadBalancer)
		s.world = w.editor(ctx, s.namespace)
		s.writeSecret(ctx, "others", other.password(other.user))
		return s, other
	}
	serverOf := func(ctx context.Context, s story, name, secret string) *unstructured.Unstructured {
		GinkgoHelper()
		return s.existing(ctx, newObject(serverKind, s.namespace, name, labeled(clusterName), actsWith(secret)))
	}

	It("and its machine get the ID of a new server, and no other object may name it", func(ctx SpecContext) {
		p := w.provide(ctx)
		p.succeed(ctx)
		Expect(p.serversOfName(ctx)).To(HaveLen(1))
		id := p.serversOfName(ctx)[0]
		Expect(p.ids(ctx)).To(Equal(allOf(id)))

		By("a further reconcile does not reach the gate")
		evaluated := p.admissions(ctx, ownershipGate, "")
		Expect(p.reconcile(ctx)).To(Succeed())
		Expect(p.admissions(ctx, ownershipGate, "")).To(Equal(evaluated))

		By("nor may another object name it")
		expectDenial(p.set(ctx, serverOf(ctx, p.story, "thief", credentials), instanceIDPath, id), "InstanceIDConflict", instanceIDPath)
		expectDenial(p.set(ctx, p.machine(ctx, "other"), instanceIDPath, id), "InstanceIDConflict", instanceIDPath)
		w.awaitAudits(ctx, 2)
		for _, kind := range []schema.GroupVersionKind{serverKind, machineKind} {
			object := p.object(kind)
			Expect(p.client.Get(ctx, keyOf(object), object)).To(Succeed())
			Expect(p.eventsOn(ctx, object)).To(BeEmpty(), "neither the gate nor the audit has findings about %s", kind.Kind)
		}
	}, SpecTimeout(timeout))

	It("and its machine get the ID after denials and an outage, without another server", func(ctx SpecContext) {
		p := w.provide(ctx)
		theirs := w.foreignServer(ctx, p.name)
		denied := p.copyID(ctx, theirs.ID)
		Expect(denied.conditions).NotTo(HaveOccurred())
		expectDenial(denied.spec, "InstanceNotFound", providerIDPath, theirs.ID)
		expectDenial(denied.status, "InstanceNotFound", instanceIDPath, theirs.ID)
		Expect(p.ids(ctx)).To(Equal([]string{"", "", ""}))

		failure := p.novaFront.Fail(openstacktest.Status(http.StatusInternalServerError), 0)
		DeferCleanup(failure.Release)
		p.recorder.TakeWarnings()
		p.succeed(ctx)
		unknown := HavePrefix("OwnershipUnknown: ")
		Expect(p.recorder.TakeWarnings()).To(HaveExactElements(unknown, unknown, unknown), "of the OpenStackServer, and for both fields of the machine")
		failure.Release()
		p.succeed(ctx)
		Expect(p.serversOfName(ctx)).To(HaveLen(1))
		Expect(p.ids(ctx)).To(Equal(allOf(p.serversOfName(ctx)[0])))
	}, SpecTimeout(timeout))

	DescribeTable("that vanished is replaced", func(ctx SpecContext, onceOnly bool) {
		p := w.provide(ctx)
		p.onceOnly = onceOnly
		p.succeed(ctx)
		before := p.ids(ctx)
		Expect(p.nova.RemoveServer(ctx, before[1])).To(Succeed())
		evaluated := p.admissions(ctx, ownershipGate, "")
		Expect(p.reconcile(ctx)).To(Succeed())
		Expect(p.ids(ctx)).To(Equal(before), "the provider keeps the IDs")

		By("deleting the OpenStackServer, for which the provider creates another one with another server")
		Expect(p.client.Delete(ctx, p.object(serverKind))).To(Succeed())
		p.createServerObject(ctx)
		Expect(p.admissions(ctx, ownershipGate, "")).To(Equal(evaluated))
		Eventually(p.reconcileServer).WithContext(ctx).Should(Equal(saved{}))
		id := p.serversOfName(ctx)[0]
		Expect(id).NotTo(Equal(before[1]))
		written, ids := saved{}, allOf(id)
		if onceOnly {
			written.spec, ids[0] = errOnce, before[0]
		}
		Eventually(p.reconcileMachine).WithContext(ctx).Should(Equal(written))
		Expect(p.ids(ctx)).To(Equal(ids))

		By("deleting the machine")
		evaluated = p.admissions(ctx, ownershipGate, "")
		for _, kind := range []schema.GroupVersionKind{serverKind, machineKind} {
			Expect(p.client.Delete(ctx, p.object(kind))).To(Succeed())
		}
		Expect(p.admissions(ctx, ownershipGate, "")).To(Equal(evaluated))
	},
		Entry("by v0.14, which writes spec.providerID only once", true, SpecTimeout(timeout)),
		Entry("by v0.15, which writes spec.providerID first", false, SpecTimeout(timeout)),
	)

	It("and its machine keep their server when clusterctl moves them to this API server", func(ctx SpecContext) {
		p := w.provide(ctx)
		id := p.server(ctx, p.name).ID
		Expect(p.client.Delete(ctx, p.object(machineKind))).To(Succeed())
		p.existing(ctx, newMachine(p.namespace, p.name, clusterName, with(providerIDPath, "openstack:///"+id)))
		p.succeed(ctx)
		Expect(p.ids(ctx)).To(Equal(allOf(id)))
	}, SpecTimeout(timeout))

	It("may not name a server of another project than that of its credentials", func(ctx SpecContext) {
		s, other := begin(ctx)
		object, own := serverOf(ctx, s, "worker", credentials), s.server(ctx, "worker")
		Expect(s.set(ctx, object, instanceIDPath, own.ID)).To(Succeed())
		theirs := other.server(ctx, "worker")
		expectDenial(s.set(ctx, object, instanceIDPath, theirs.ID), "InstanceNotFound", instanceIDPath, `of cloud "openstack" of Secret "credentials"`)
		By("nor after its credentials change")
		expectDenial(s.set(ctx, object, identityRefPath+".name", "others"), "InstanceNotFound", identityRefPath, own.ID)
		By("nor refer to credentials of a privileged user")
		s.writeSecret(ctx, "poor", s.password(s.newUser(ctx, "poor", member)))
		expectDenial(s.set(ctx, object, identityRefPath+".name", "poor"), "RoleMissing", identityRefPath)
	}, SpecTimeout(timeout))
})

// A kind of cluster.delegation.kinds need not be one of machine.kinds. The attacker has every permission in its namespace.
var _ = Describe("An OpenStackServer that only refers to credentials", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "cluster: {delegation: {kinds: "+
			"[{group: infrastructure.cluster.x-k8s.io, version: v1alpha1, kind: OpenStackServer, resource: openstackservers}]}}")
	}, NodeTimeout(setupTimeout))

	It("never acts with credentials for a Keystone that is not configured", func(ctx SpecContext) {
		s := w.begin(ctx, member, loadBalancer)
		s.world = w.editor(ctx, s.namespace)
		elsewhere := cloudsYAML(s.password(s.user).with("auth_url", "https://keystone.attacker.example/v3"))
		change := func() error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: credentials}}
			return s.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"clouds.yaml":%q}}`, elsewhere)))
		}
		server := s.existing(ctx, newObject(serverKind, s.namespace, "worker", actsWith(credentials)))
		expectDenial(change(), "IdentityEndpointNotAllowed", "data[clouds.yaml]", "its auth_url is at host")

		By("nor if it refers to them again after they have changed")
		Expect(s.client.Delete(ctx, server)).To(Succeed())
		Expect(change()).To(Succeed())
		expectDenial(s.client.Create(ctx, newObject(serverKind, s.namespace, "worker", actsWith(credentials))), "IdentityEndpointNotAllowed", identityRefPath)
	}, SpecTimeout(timeout))
})
