//go:build e2e

package attacks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Guarantee 3, the part of machines: every write that changes part of a claim (instance, cluster, identity of the provider) is
// evaluated. The attacker may name two users, as a reseller may, and moves a server of one to the cluster of the other.
var _ = Describe("guarantee 3: a machine that names a server", func() {
	for _, way := range waysToWrite {
		It("cannot get the label of a cluster of another user, by "+way.name, func(ctx SpecContext) {
			a := startMove(ctx)
			machine := a.machine(ctx, "worker", a.own)
			a.expectDenied(way.metadata(ctx, a.attacker.client, machine, inCluster("second")), "InstanceNotOwned",
				`label cluster.x-k8s.io/cluster-name "second" of CloudSigmaMachine "worker"`, a.second.Email)
			Expect(a.current(ctx, machine).GetLabels()).To(Equal(labelsOf("first")))
		}, SpecTimeout(startTimeout))

		It("cannot get an owner Machine of another cluster, by "+way.name, func(ctx SpecContext) {
			a := startMove(ctx)
			a.owner(ctx, "theirs", "second")
			machine := a.machine(ctx, "worker", a.own)
			a.expectDenied(way.metadata(ctx, a.attacker.client, machine, ownedBy("theirs")), "OwnerClusterMismatch",
				"change of metadata.ownerReferences", `Machine "theirs", belongs to cluster "second"`)
			Expect(a.current(ctx, machine).GetOwnerReferences()).To(BeEmpty())
		}, SpecTimeout(startTimeout))

		It("stays in the cluster of its owner Machine, whose label changes by "+way.name, func(ctx SpecContext) {
			a := startMove(ctx)
			owner := a.owner(ctx, "owner", "first")
			machine := a.machine(ctx, "worker", a.own, ownedBy("owner"))
			a.expectDenied(way.metadata(ctx, a.attacker.client, owner, inCluster("second")), "OwnerClusterMismatch",
				`label cluster.x-k8s.io/cluster-name "second" of Machine "owner"`, `CloudSigmaMachine "worker" of cluster "first"`)
			a.expectDenied(way.metadata(ctx, a.attacker.client, machine, inCluster("second")), "OwnerClusterMismatch", `Machine "owner", belongs to cluster "first"`)
			Expect(a.current(ctx, owner).GetLabels()).To(Equal(labelsOf("first")))
		}, SpecTimeout(startTimeout))
	}

	It("cannot name a server of the cluster of its label, while a Machine of another cluster owns it", func(ctx SpecContext) {
		a := startMove(ctx)
		a.owner(ctx, "theirs", "second")
		for _, id := range []string{a.own, a.others} { // neither a server of the label's user nor one of the owner Machine's user
			err := a.attacker.client.Create(ctx, newMachineOf(a.attacker.namespace, "worker", "first", id, ownedBy("theirs")))
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		}
		machine := a.machine(ctx, "worker", "", ownedBy("theirs"))
		a.expectDenied(writeInstanceID(ctx, a.attacker.client, machine, a.own), "OwnerClusterMismatch", `"first"`, `"second"`)
	}, SpecTimeout(startTimeout))

	It("cannot be owned by two Machines, in any order, or by one that does not exist", func(ctx SpecContext) {
		a := startMove(ctx)
		a.owner(ctx, "owner", "first")
		a.owner(ctx, "theirs", "second")
		machine := a.machine(ctx, "worker", a.own, ownedBy("owner"))
		for _, owners := range [][]string{{"owner", "theirs"}, {"theirs", "owner"}} {
			a.expectDenied(mergePatch.metadata(ctx, a.attacker.client, machine, ownedBy(owners...)), "OwnerMachineAmbiguous", "2 Machines")
		}
		a.expectDenied(mergePatch.metadata(ctx, a.attacker.client, machine, ownedBy("gone")), "OwnerMachineMissing", `Machine "gone"`)
	}, SpecTimeout(startTimeout))

	It("cannot name a server of another cluster after its owner Machine was deleted and created again there", func(ctx SpecContext) {
		a := startMove(ctx)
		owner := a.owner(ctx, "owner", "first")
		machine := a.machine(ctx, "worker", a.own, ownedBy("owner"))
		Expect(a.attacker.client.Delete(ctx, owner)).To(Succeed())
		again := a.owner(ctx, "owner", "second") // this must never wait for warrantgate, and the audit reports it
		a.expectDenied(writeInstanceID(ctx, a.attacker.client, machine, a.others), "OwnerClusterMismatch", `Machine "owner"`)
		a.expectDenied(writeInstanceID(ctx, a.attacker.client, machine, a.w.server(a.first, "other").UUID), "OwnerClusterMismatch", `Machine "owner"`)
		Expect(mergePatch.metadata(ctx, a.attacker.client, again, inCluster("first"))).To(Succeed())
	}, SpecTimeout(startTimeout))

	It("cannot move with concurrent writes of the status and the metadata", func(ctx SpecContext) {
		a := startMove(ctx)
		for i := range volume.Of(6, 20) {
			machine := a.machine(ctx, fmt.Sprintf("worker-%d", i), "")
			server := a.w.server(a.first, fmt.Sprintf("worker-%d", i)).UUID
			var wg sync.WaitGroup
			wg.Go(func() { _ = writeInstanceID(ctx, a.attacker.client, machine.DeepCopy(), server) })
			wg.Go(func() { _ = mergePatch.metadata(ctx, a.attacker.client, machine.DeepCopy(), inCluster("second")) })
			wg.Wait()
			now := a.current(ctx, machine)
			id, _, err := unstructured.NestedString(now.Object, "status", "instanceID")
			Expect(err).NotTo(HaveOccurred())
			Expect(id == "" || now.GetLabels()["cluster.x-k8s.io/cluster-name"] == "first").To(BeTrue(),
				"a server of the first user is named in the cluster of the second: %v", now.Object)
		}
	}, SpecTimeout(startTimeout))

	It("can move after its server is cleared, can be deleted, and can lose its finalizers", func(ctx SpecContext) {
		a := startMove(ctx)
		owner := a.owner(ctx, "owner", "first")
		machine := a.machine(ctx, "worker", a.own, ownedBy("owner"), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/keep"}) })
		Expect(a.attacker.client.Delete(ctx, machine.DeepCopy())).To(Succeed())
		Expect(mergePatch.metadata(ctx, a.attacker.client, machine, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })).To(Succeed())

		other := a.machine(ctx, "other", a.w.server(a.first, "other").UUID, ownedBy("owner"))
		Expect(mergePatch.metadata(ctx, a.attacker.client, other, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })).To(Succeed())
		Expect(writeInstanceID(ctx, a.attacker.client, other, "")).To(Succeed())
		Expect(mergePatch.metadata(ctx, a.attacker.client, other, inCluster("second"))).To(Succeed())
		Expect(a.attacker.client.Delete(ctx, owner)).To(Succeed())
	}, SpecTimeout(startTimeout))
})

// move is a tenant with two clusters, of two users that it may name.
type move struct {
	w             *kubeWorld
	attacker      tenant
	first, second cloudsigmatest.User
	// own is a server of the first user, others is one of the second.
	own, others string
}

func startMove(ctx SpecContext) *move {
	GinkgoHelper()
	w := kube(ctx)
	a := &move{w: w, attacker: w.editor(ctx, w.namespace(ctx))}
	a.first, a.second = w.user("first-"+a.attacker.name+"@example.com"), w.user("second-"+a.attacker.name+"@example.com")
	w.permit(ctx, a.attacker.name, a.first.Email, a.second.Email)
	a.own, a.others = w.server(a.first, "worker").UUID, w.server(a.second, "worker").UUID
	for name, user := range map[string]cloudsigmatest.User{"first": a.first, "second": a.second} {
		Expect(a.attacker.client.Create(ctx, newCluster(a.attacker.namespace, name, user.Email))).To(Succeed())
	}
	return a
}

// machine creates a machine of the first cluster, with a server in its status unless the id is empty.
func (a *move) machine(ctx context.Context, name, id string, modify ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	GinkgoHelper()
	machine := newMachineOf(a.attacker.namespace, name, "first", "", modify...)
	Expect(a.attacker.client.Create(ctx, machine)).To(Succeed())
	if id != "" {
		Expect(writeInstanceID(ctx, a.attacker.client, machine, id)).To(Succeed())
	}
	return machine
}

// owner creates a Machine of Cluster API. Its infrastructureRef names a CloudSigmaMachine.
func (a *move) owner(ctx context.Context, name, cluster string, modify ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	GinkgoHelper()
	owner := newObject(clusterAPI.WithKind("Machine"), a.attacker.namespace, name, map[string]any{"clusterName": cluster})
	inCluster(cluster)(owner)
	for _, change := range append([]func(*unstructured.Unstructured){refersTo("v1beta1", "CloudSigmaMachine")}, modify...) {
		change(owner)
	}
	Expect(a.attacker.client.Create(ctx, owner)).To(Succeed())
	return owner
}

func (a *move) current(ctx context.Context, object *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	current := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName(), nil)
	Expect(a.w.admin.Get(ctx, client.ObjectKeyFromObject(object), current)).To(Succeed())
	return current
}

// expectDenied expects a denial in one line with the texts in it.
func (*move) expectDenied(err error, reason string, texts ...string) {
	GinkgoHelper()
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	Expect(apierrors.HasStatusCause(err, metav1.CauseType(reason))).To(BeTrue(), "%v", err)
	Expect(err.Error()).NotTo(ContainSubstring("\n"))
	for _, text := range texts {
		Expect(err).To(MatchError(ContainSubstring(text)))
	}
}

func newMachineOf(namespace, name, cluster, id string, modify ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	spec := map[string]any{}
	if id != "" {
		spec["providerID"] = "cloudsigma://" + id
	}
	machine := newMachine(namespace, name, cluster, spec)
	for _, change := range modify {
		change(machine)
	}
	return machine
}

func writeInstanceID(ctx context.Context, c client.Client, machine *unstructured.Unstructured, id string) error {
	return c.Status().Patch(ctx, machine, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"instanceID":%q}}`, id)))
}

func labelsOf(cluster string) map[string]string {
	return map[string]string{"cluster.x-k8s.io/cluster-name": cluster}
}

func inCluster(name string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) { object.SetLabels(labelsOf(name)) }
}

// ownedBy returns references to Machines. No controller compares their UIDs.
func ownedBy(names ...string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		var references []metav1.OwnerReference
		for _, name := range names {
			references = append(references, metav1.OwnerReference{APIVersion: clusterAPI.String(), Kind: "Machine", Name: name, UID: types.UID("uid-" + name)})
		}
		object.SetOwnerReferences(references)
	}
}

// wayToWrite is a way to send a change of metadata.
type wayToWrite struct {
	name     string
	metadata func(ctx context.Context, c client.Client, object *unstructured.Unstructured, change func(*unstructured.Unstructured)) error
}

var mergePatch = wayToWrite{"merge patch", func(ctx context.Context, c client.Client, object *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	changed := object.DeepCopy()
	change(changed)
	return c.Patch(ctx, changed, client.MergeFrom(object))
}}

var waysToWrite = []wayToWrite{
	mergePatch,
	{"PUT", func(ctx context.Context, c client.Client, object *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
		changed := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName(), nil)
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), changed); err != nil {
			return err
		}
		change(changed)
		return c.Update(ctx, changed)
	}},
	{"JSON patch", func(ctx context.Context, c client.Client, object *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
		changed := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName(), nil)
		change(changed)
		var operations []map[string]any
		for _, field := range []string{"labels", "ownerReferences"} {
			if value, found, _ := unstructured.NestedFieldNoCopy(changed.Object, "metadata", field); found {
				operations = append(operations, map[string]any{"op": "add", "path": "/metadata/" + field, "value": value})
			}
		}
		content, err := json.Marshal(operations)
		if err != nil {
			return err
		}
		return c.Patch(ctx, changed, client.RawPatch(types.JSONPatchType, content))
	}},
	{"server-side apply", func(ctx context.Context, c client.Client, object *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
		applied := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName(), nil)
		change(applied)
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("attacker"), client.ForceOwnership)
	}},
}
