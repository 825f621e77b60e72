//go:build e2e

package openstack_test

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"warrantgate.dev/e2e/env/novatest"
	"warrantgate.dev/e2e/env/suite"
)

// An object that was correct when it was admitted can become wrong later: servers and roles are changed elsewhere.
var _ = Describe("The audit", Ordered, func() {
	var (
		w    *world
		want []finding
		// objects are the objects of the findings, in the same order.
		objects  []*unstructured.Unstructured
		versions map[string]string
	)
	add := func(object *unstructured.Unstructured, f finding) {
		f.Kind, f.Namespace, f.Name = object.GetKind(), object.GetNamespace(), object.GetName()
		if f.Identity == "" {
			f.Identity = f.Namespace + "/" + credentials + "/" + cloudName
		}
		want, objects = append(want, f), append(objects, object)
	}
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "audit: {interval: 1s, requestsPerSecond: 200}")
		w.driftOfServers(ctx, add)
		w.driftOfIdentities(ctx, add)
		versions = suite.Versions(ctx, w.client, clusterKind, machineKind)
	}, NodeTimeout(setupTimeout))

	It("writes an Event for each finding on the machine or cluster", func(ctx SpecContext) {
		for i, object := range objects {
			Eventually(w.eventsOn).WithContext(ctx).WithArguments(object).Should(ConsistOf(And(
				HaveField("Type", "Warning"), HaveField("Reason", want[i].Reason),
				HaveField("Message", And(HavePrefix("Audit: "), ContainSubstring("%s", want[i].Message))))))
		}
		Expect(w.describe(objects[0])).To(MatchRegexp(`(?m)^ +Warning +` + want[0].Reason + ` .*Audit: `))
		Eventually(func() (float64, error) { return w.gate.Metric(ctx, "warrantgate_audit_findings", nil) }).
			WithContext(ctx).Should(BeEquivalentTo(len(want)))
	}, SpecTimeout(timeout))

	It("changes nothing", func(ctx SpecContext) {
		Expect(suite.Versions(ctx, w.client, clusterKind, machineKind)).To(Equal(versions))
	}, SpecTimeout(timeout))

	// Names are only unique in a namespace. Otherwise a user with a machine of the same name would make the audit recommend to delete another
	// user's server.
	It("does not report the server of another tenant's machine of the same name", func(ctx SpecContext) {
		s, other := w.beginCluster(ctx), w.beginCluster(ctx)
		s.server(ctx, "database")
		other.machine(ctx, "database")
		w.awaitAudits(ctx, 2)
		cluster := newObject(clusterKind, s.namespace, clusterName)
		Expect(s.client.Get(ctx, keyOf(cluster), cluster)).To(Succeed())
		Expect(s.eventsOn(ctx, cluster)).To(BeEmpty())
	}, SpecTimeout(timeout))
})

// awaitAudits waits until n audits have begun and ended.
func (w *world) awaitAudits(ctx context.Context, n int) {
	GinkgoHelper()
	runs := func() (float64, error) { return w.gate.Metric(ctx, "warrantgate_audit_runs_total", nil) }
	before, err := runs()
	Expect(err).NotTo(HaveOccurred())
	// One may be running already.
	Eventually(runs).WithContext(ctx).Should(BeNumerically(">", before+float64(n)))
}

// driftOfServers creates machines whose servers have changed since the machines were admitted.
func (w *world) driftOfServers(ctx context.Context, add func(*unstructured.Unstructured, finding)) {
	GinkgoHelper()
	s := w.beginCluster(ctx)
	named := func(name string) (*unstructured.Unstructured, novatest.Server) {
		machine, server := s.machine(ctx, name), s.server(ctx, name)
		// A busy Nova may not answer in time.
		Eventually(ctx, func() error { return s.set(ctx, machine, instanceIDPath, server.ID) }).Should(Succeed())
		Expect(s.client.Get(ctx, keyOf(machine), machine)).To(Succeed())
		return machine, server
	}
	named("as-it-should-be")
	s.server(ctx, "desktop") // not created for a machine, so it is not reported

	stale, server := named("stale")
	Expect(s.nova.RemoveServer(ctx, server.ID)).To(Succeed())
	add(stale, finding{Reason: "InstanceNotFound", Instance: server.ID, Message: "there is no instance " + server.ID +
		` of the project of cloud "openstack" of Secret "credentials" in the region of its credentials, with which cluster "pool" acts`})

	twice, server := named("twice")
	spare := s.server(ctx, "twice")
	add(twice, finding{Reason: "InstanceDuplicate", Instance: spare.ID, Message: "was created for this machine, which names " +
		server.ID + "; delete the one that is not needed"})

	// The cluster has moved to another project, and its earlier servers still exist.
	moved := w.begin(ctx, member, loadBalancer)
	s.writeSecret(ctx, "earlier", moved.password(moved.user))
	earlier := s.existing(ctx, newObject(clusterKind, s.namespace, "earlier", actsWith("earlier")))
	s.machine(ctx, "left-over")
	left := moved.server(ctx, "left-over")
	add(earlier, finding{
		Reason: "InstanceOrphaned", Instance: left.ID, Identity: s.namespace + "/earlier/" + cloudName,
		Message: `("left-over") of the project of cloud "openstack" of Secret "earlier"`,
	})
}

// driftOfIdentities creates clusters whose credentials have changed since the clusters were admitted.
func (w *world) driftOfIdentities(ctx context.Context, add func(*unstructured.Unstructured, finding)) {
	GinkgoHelper()
	cluster := func(s story) *unstructured.Unstructured {
		object := newObject(clusterKind, s.namespace, clusterName)
		Expect(s.client.Get(ctx, keyOf(object), object)).To(Succeed())
		return object
	}
	poorer := w.beginCluster(ctx)
	poorer.revoke(ctx, loadBalancer)
	add(cluster(poorer), finding{Reason: "RoleMissing", Message: "missing: load-balancer_member; " +
		"an administrator grants it: openstack role add --user " + poorer.user.ID})

	mightier := w.beginCluster(ctx)
	mightier.grant(ctx, "admin", mightier.user)
	add(cluster(mightier), finding{Reason: "RolePrivileged", Message: "too many: admin, with an administrator's permissions"})

	gone := w.begin(ctx, member, loadBalancer)
	made := gone.credential(ctx, applicationcredentials.CreateOpts{})
	gone.writeSecret(ctx, credentials, entryOf(made))
	Expect(gone.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
	user, err := gone.asUser(ctx, tokens.Scope{ProjectID: gone.project})
	Expect(err).NotTo(HaveOccurred())
	Expect(applicationcredentials.Delete(ctx, user, gone.user.ID, made.ID).ExtractErr()).To(Succeed())
	add(cluster(gone), finding{Reason: "IdentityDenied", Message: "rejects application credential"})
}

// finding is one line of the command's output. It has no other fields. Identity is namespace/Secret/entry.
type finding struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Instance  string `json:"instance"`
	Identity  string `json:"identity"`
	Message   string `json:"message"`
}
