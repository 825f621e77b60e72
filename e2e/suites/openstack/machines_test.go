//go:build e2e

package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/openstacktest"
)

// way is a kind of write that names a server.
type way struct {
	name, field string
	creates     bool
	// malformed is the reason for a malformed ID in that field.
	malformed string
}

var ways = []way{
	{name: "a creation", field: providerIDPath, creates: true, malformed: "ProviderIDInvalid"},
	{name: "an update", field: providerIDPath, malformed: "ProviderIDInvalid"},
	{name: "a status update", field: instanceIDPath, malformed: "InstanceIDInvalid"},
}

// value is the value of the field for a server.
func (w way) value(id string) string {
	if w.field == providerIDPath {
		return "openstack:///" + id
	}
	return id
}

// nameServer makes the machine "worker" of the story name a server, and returns it.
func (w way) nameServer(ctx context.Context, s story, value string) (*unstructured.Unstructured, error) {
	GinkgoHelper()
	if w.creates {
		machine := newMachine(s.namespace, "worker", clusterName, with(w.field, value))
		return machine, s.client.Create(ctx, machine)
	}
	machine := s.machine(ctx, "worker")
	return machine, s.set(ctx, machine, w.field, value)
}

// A machine may name the servers of its cluster's project, and no others. Nova hides the servers of other projects from a tenant, as if
// they did not exist.
var _ = Describe("The verdict on a machine", Ordered, ContinueOnFailure, first, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "") }, NodeTimeout(setupTimeout))

	for _, by := range ways {
		It("is an admission for the project's own server on "+by.name, func(ctx SpecContext) {
			s := w.beginCluster(ctx)
			evaluated := s.admissions(ctx, ownershipGate, "allowed")
			value := by.value(s.server(ctx, "worker").ID)
			machine, err := by.nameServer(ctx, s, value)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.holds(ctx, machine, by.field)).To(Equal(value))
			Expect(s.admissions(ctx, ownershipGate, "allowed")).To(Equal(evaluated + 1))
		}, SpecTimeout(timeout))

		It("is a denial for another project's server, and for one that does not exist, on "+by.name, func(ctx SpecContext) {
			for _, id := range []string{w.foreignServer(ctx, "worker").ID, uuid.NewString()} {
				s := w.beginCluster(ctx)
				own := s.server(ctx, "worker")
				var machine *unstructured.Unstructured
				var before string
				var err error
				if by.creates {
					_, err = by.nameServer(ctx, s, by.value(id))
				} else {
					machine = s.machineOf(ctx, own)
					before = s.holds(ctx, machine, by.field)
					err = s.set(ctx, machine, by.field, by.value(id))
				}
				expectDenial(err, "InstanceNotFound", by.field,
					by.field+` "`+by.value(id)+`" of OpenStackMachine "worker" of namespace "`+s.namespace+`": there is no such instance in `+
						`the region of its credentials of the project of cloud "openstack" of Secret "credentials" (`+s.project+
						`), with which cluster "pool" acts; the cloud answered 404 itemNotFound, request id req-`,
					own.ID, "clear status.instanceID of its OpenStackServer, so that the provider adopts an instance of the project or creates one")
				if by.creates {
					continue
				}
				Expect(s.holds(ctx, machine, by.field)).To(Equal(before))
				Expect(s.client.Get(ctx, keyOf(machine), machine)).To(Succeed())
				Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).Should(ConsistOf(denied("InstanceNotFound", id, own.ID)))
				Expect(s.describe(machine)).To(MatchRegexp(`(?m)^ +Warning +InstanceNotFound .*Denied: ` + by.field + ` "` + by.value(id) + `"`))
			}
		}, SpecTimeout(timeout))
	}

	It("needs no request if no server is named", func(ctx SpecContext) {
		s := w.beginCluster(ctx)
		server := s.server(ctx, "worker")
		machine := s.existing(ctx, newMachine(s.namespace, "worker", clusterName, with(providerIDPath, "openstack:///"+server.ID)))
		Expect(s.set(ctx, machine, instanceIDPath, server.ID)).To(Succeed())
		Expect(s.nova.RemoveServer(ctx, server.ID)).To(Succeed())
		evaluated, requests := s.admissions(ctx, ownershipGate, ""), len(s.novaFront.Requests())
		for _, step := range []struct {
			path  string
			value any
		}{
			{"metadata.labels.tier", "gold"}, {instanceIDPath, server.ID}, {"status.ready", true},
			{providerIDPath, "openstack:///" + server.ID}, {instanceIDPath, ""}, {providerIDPath, nil},
		} {
			Expect(s.set(ctx, machine, step.path, step.value)).To(Succeed(), step.path)
		}
		Expect(s.admissions(ctx, ownershipGate, "")).To(Equal(evaluated))
		Expect(s.novaFront.Requests()).To(HaveLen(requests))
	}, SpecTimeout(timeout))

	DescribeTable("accepts the provider IDs of OpenStack", func(ctx SpecContext, format func(id string) string) {
		s := w.beginCluster(ctx)
		value := format(s.server(ctx, "worker").ID)
		machine := s.existing(ctx, newMachine(s.namespace, "worker", clusterName, with(providerIDPath, value)))
		Expect(s.holds(ctx, machine, providerIDPath)).To(Equal(value), "the stored ID is the written one")
		theirs := newMachine(s.namespace, "thief", clusterName, with(providerIDPath, format(w.foreignServer(ctx, "thief").ID)))
		expectDenial(s.client.Create(ctx, theirs), "InstanceNotFound", providerIDPath)
	},
		Entry("with a region", func(id string) string { return "openstack://" + region + "/" + id }, SpecTimeout(timeout)),
		Entry("in upper case throughout", func(id string) string { return strings.ToUpper("openstack:///" + id) }, SpecTimeout(timeout)),
	)

	It("finds no cluster by a label, as the provider does not", func(ctx SpecContext) {
		s := w.begin(ctx, member, loadBalancer)
		Expect(s.createCluster(ctx, "pool-x7k2p", actsWith(credentials), labeled(clusterName))).To(Succeed())
		machine, server := s.machine(ctx, "worker"), s.server(ctx, "worker")
		expectDenial(s.set(ctx, machine, instanceIDPath, server.ID), "ClusterMissing", instanceIDPath, `there is no OpenStackCluster "pool"`)
	}, SpecTimeout(timeout))

	It("uses the machine's own credentials, if it has any", func(ctx SpecContext) {
		s, other := w.beginCluster(ctx), w.begin(ctx, member, loadBalancer)
		s.writeSecret(ctx, "own", other.password(other.user))
		machine := s.existing(ctx, newMachine(s.namespace, "worker", clusterName, actsWith("own")))
		Expect(s.set(ctx, machine, instanceIDPath, other.server(ctx, "worker").ID)).To(Succeed())
		expectDenial(s.set(ctx, machine, instanceIDPath, s.server(ctx, "worker").ID), "InstanceNotFound", instanceIDPath,
			`of the project of cloud "openstack" of Secret "own" (`+other.project+`)`)
	}, SpecTimeout(timeout))

	It("is a denial for other credentials of its own while it names a server of the former ones", func(ctx SpecContext) {
		s, other := w.beginCluster(ctx), w.begin(ctx, member, loadBalancer)
		s.writeSecret(ctx, "own", other.password(other.user))
		own := map[string]any{"name": "own", "cloudName": cloudName}
		machine, id := s.machine(ctx, "worker"), s.server(ctx, "worker").ID
		Expect(s.set(ctx, machine, instanceIDPath, id)).To(Succeed())
		expectDenial(s.set(ctx, machine, identityRefPath, own), "InstanceNotFound", identityRefPath,
			`change of spec.identityRef of OpenStackMachine "worker"`, id, `Secret "own" (`+other.project+`)`, "leave spec.identityRef as it is")

		By("also when the reference is removed, so that the credentials of the cluster apply")
		bringing, theirs := s.existing(ctx, newMachine(s.namespace, "bringing", clusterName, actsWith("own"))), other.server(ctx, "bringing").ID
		Expect(s.set(ctx, bringing, instanceIDPath, theirs)).To(Succeed())
		expectDenial(s.set(ctx, bringing, identityRefPath, nil), "InstanceNotFound", identityRefPath, `Secret "credentials" (`+s.project+`)`)
		expectDenial(s.set(ctx, bringing, "metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": nil}), "MachineWithoutCluster",
			"metadata.labels[cluster.x-k8s.io/cluster-name]", "removal of label")

		By("but not after the machine's server is cleared")
		Expect(s.set(ctx, bringing, instanceIDPath, "")).To(Succeed())
		Expect(s.set(ctx, bringing, identityRefPath, nil)).To(Succeed())
	}, SpecTimeout(timeout))

	It("is a denial for other credentials of its own by every kind of write", func(ctx SpecContext) {
		s, other := w.beginCluster(ctx), w.begin(ctx, member, loadBalancer)
		s.writeSecret(ctx, "own", other.password(other.user))
		own := map[string]any{"name": "own", "cloudName": cloudName}
		for i, way := range waysToSet {
			By("by " + way.name)
			machine := s.machine(ctx, fmt.Sprintf("worker-%d", i))
			Expect(s.set(ctx, machine, instanceIDPath, s.server(ctx, machine.GetName()).ID)).To(Succeed())
			expectDenial(way.set(ctx, s.client, machine, identityRefPath, own), "InstanceNotFound", identityRefPath,
				fmt.Sprintf(`change of spec.identityRef of OpenStackMachine %q`, machine.GetName()), `Secret "own" (`+other.project+`)`)
			Expect(s.holds(ctx, machine, identityRefPath+".name")).To(BeEmpty())

			bringing := newMachine(s.namespace, fmt.Sprintf("bringing-%d", i), clusterName)
			Expect(s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(newMachine(s.namespace, bringing.GetName(), clusterName, actsWith("own"))),
				client.FieldOwner("tenant"))).To(Succeed())
			Expect(s.set(ctx, bringing, instanceIDPath, other.server(ctx, bringing.GetName()).ID)).To(Succeed())
			expectDenial(way.set(ctx, s.client, bringing, identityRefPath, nil), "InstanceNotFound", identityRefPath, `Secret "credentials" (`+s.project+`)`)
			Expect(s.holds(ctx, bringing, identityRefPath+".name")).To(Equal("own"))
		}

		for _, way := range waysToSet {
			By("nor do the cluster's credentials change by " + way.name)
			cluster := newObject(clusterKind, s.namespace, clusterName)
			expectDenial(way.set(ctx, s.client, cluster, identityRefPath, own), "MachinesHoldInstances", identityRefPath, `OpenStackMachine "worker-0"`)
			Expect(s.holds(ctx, cluster, identityRefPath+".name")).To(Equal(credentials))
		}

		By("nor do they change by a write of the status")
		machine := s.machine(ctx, "worker")
		Expect(s.set(ctx, machine, instanceIDPath, s.server(ctx, "worker").ID)).To(Succeed())
		Expect(s.client.Get(ctx, keyOf(machine), machine)).To(Succeed())
		with(identityRefPath, own)(machine)
		if err := s.client.Status().Update(ctx, machine); err != nil {
			expectDenial(err, "InstanceNotFound", identityRefPath)
		}
		Expect(s.holds(ctx, machine, identityRefPath+".name")).To(BeEmpty())
	}, SpecTimeout(timeout))

	It("is a denial if the credentials of the cluster are not known", func(ctx SpecContext) {
		s := w.begin(ctx, member, loadBalancer)
		machine, id := s.machine(ctx, "worker"), s.server(ctx, "worker").ID
		expectDenial(s.set(ctx, machine, instanceIDPath, id), "ClusterMissing", instanceIDPath, `there is no OpenStackCluster "pool" in namespace`)
		Expect(s.createCluster(ctx, clusterName)).To(Succeed())
		expectDenial(s.set(ctx, machine, instanceIDPath, id), "IdentityMissing", instanceIDPath,
			`OpenStackCluster "pool" refers to no credentials: spec.identityRef.name and spec.identityRef.cloudName have to be set`)
		Expect(s.set(ctx, newObject(clusterKind, s.namespace, clusterName), identityRefPath,
			map[string]any{"name": credentials, "cloudName": cloudName})).To(Succeed())
		Expect(s.set(ctx, machine, instanceIDPath, id)).To(Succeed())
		unlabeled := s.existing(ctx, newMachine(s.namespace, "without-cluster", ""))
		expectDenial(s.set(ctx, unlabeled, instanceIDPath, id), "MachineWithoutCluster", instanceIDPath, "set the label first")
	}, SpecTimeout(timeout))

	DescribeTable("is undecided while Nova", func(ctx SpecContext, f openstacktest.Fault, texts ...string) {
		s := w.beginCluster(ctx)
		machine, id := s.machineOf(ctx, s.server(ctx, "worker")), s.server(ctx, "worker").ID
		w.impatient(ctx)
		failure := s.novaFront.Fail(f, 0)
		DeferCleanup(failure.Release)
		expectDenial(s.set(ctx, machine, instanceIDPath, id), "OwnershipUnknown", instanceIDPath, append(texts,
			"it cannot be checked now whether the instance belongs to the project of "+
				`cloud "openstack" of Secret "credentials", with which cluster "pool" acts: `)...)
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).Should(ConsistOf(denied("OwnershipUnknown", texts...)))

		By("the server is found after Nova recovers")
		failure.Release()
		Eventually(func() error { return s.set(ctx, machine, instanceIDPath, id) }).WithContext(ctx).Should(Succeed())
	},
		Entry("fails", openstacktest.Status(http.StatusInternalServerError), "the cloud is unavailable or its response is invalid; try again", SpecTimeout(timeout)),
		Entry("does not answer", openstacktest.Hang(), "did not answer in time; try again", SpecTimeout(timeout)),
	)
})
