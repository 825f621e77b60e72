//go:build e2e

package openstack_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
// credentials itself. The attacker has every permission in its namespace.
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

	It("may name the server of its machine, and no other object may", func(ctx SpecContext) {
		s, _ := begin(ctx)
		server, machine := s.server(ctx, "worker"), s.machine(ctx, "worker")
		object := serverOf(ctx, s, "worker", credentials)
		Expect(s.set(ctx, object, instanceIDPath, server.ID)).To(Succeed())
		Expect(s.set(ctx, machine, instanceIDPath, server.ID)).To(Succeed())
		expectDenial(s.set(ctx, serverOf(ctx, s, "thief", credentials), instanceIDPath, server.ID), "InstanceIDConflict", instanceIDPath)
		expectDenial(s.set(ctx, s.machine(ctx, "other"), instanceIDPath, server.ID), "InstanceIDConflict", instanceIDPath)
		w.awaitAudits(ctx, 2)
		Expect(s.eventsOn(ctx, object)).To(BeEmpty(), "the audit has no findings about them")
		Expect(s.eventsOn(ctx, machine)).To(BeEmpty())
	}, SpecTimeout(timeout))

	It("may not name a server of another project than that of its credentials", func(ctx SpecContext) {
		s, other := begin(ctx)
		object, theirs := serverOf(ctx, s, "worker", credentials), other.server(ctx, "worker")
		expectDenial(s.set(ctx, object, instanceIDPath, theirs.ID), "InstanceNotFound", instanceIDPath, `of cloud "openstack" of Secret "credentials"`)
		own := s.server(ctx, "worker")
		Expect(s.set(ctx, object, instanceIDPath, own.ID)).To(Succeed())
		By("nor after its credentials change")
		expectDenial(s.set(ctx, object, identityRefPath+".name", "others"), "InstanceNotFound", identityRefPath, own.ID)
		By("nor refer to credentials of a privileged user")
		s.writeSecret(ctx, "poor", s.password(s.newUser(ctx, "poor", member)))
		expectDenial(s.set(ctx, object, identityRefPath+".name", "poor"), "RoleMissing", identityRefPath)
	}, SpecTimeout(timeout))
})
