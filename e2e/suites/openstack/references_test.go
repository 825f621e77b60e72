//go:build e2e

package openstack_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/novatest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	referencePath = "spec.infrastructureRef"
	holds         = "MachinesHoldInstances"
)

// coreKind is the Cluster of Cluster API.
var coreKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Cluster"}

// Guarantee 3 of SECURITY.md on OpenStack: the provider finds the credentials of a machine by spec.infrastructureRef of its Cluster.
// The attacker has every permission in its namespace, credentials of two projects, and moves machines between them.
var _ = Describe("The reference of a Cluster", Ordered, ContinueOnFailure, first, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "audit: {interval: 24h}") }, NodeTimeout(setupTimeout))

	// attack is a namespace with the OpenStackClusters "one" and "two" of two projects, and the objects of the attacker there.
	type attack struct {
		story
		// other is the second project.
		other story
	}
	begin := func(ctx SpecContext) attack {
		GinkgoHelper()
		a := attack{story: w.begin(ctx, member, loadBalancer), other: w.begin(ctx, member, loadBalancer)}
		a.world = w.editor(ctx, a.namespace)
		a.writeSecret(ctx, "others", a.other.password(a.other.user))
		Expect(a.createCluster(ctx, "one", actsWith(credentials))).To(Succeed())
		Expect(a.createCluster(ctx, "two", actsWith("others"))).To(Succeed())
		return a
	}
	core := func(a attack, name string) *unstructured.Unstructured {
		return newObject(coreKind, a.namespace, clusterName, with(referencePath, map[string]any{
			"apiVersion": infrastructure.String(), "kind": clusterKind.Kind, "name": name,
		}))
	}
	// refer makes the Cluster "pool" refer to an OpenStackCluster.
	refer := func(ctx context.Context, a attack, infrastructure string) error {
		return a.set(ctx, newObject(coreKind, a.namespace, clusterName), referencePath, map[string]any{"kind": clusterKind.Kind, "name": infrastructure})
	}
	// claim makes a machine of the Cluster "pool" name a server of the first project.
	claim := func(ctx context.Context, a attack, name string) (*unstructured.Unstructured, novatest.Server) {
		GinkgoHelper()
		machine, server := a.machine(ctx, name), a.server(ctx, name)
		Expect(a.set(ctx, machine, instanceIDPath, server.ID)).To(Succeed())
		return machine, server
	}

	It("cannot change to another project while machines name servers", func(ctx SpecContext) {
		a := begin(ctx)
		cluster := core(a, "one")
		Expect(a.client.Create(ctx, cluster)).To(Succeed())
		machine, server := claim(ctx, a, "worker")
		text := `spec.infrastructureRef of Cluster "pool" of namespace "` + a.namespace + `": machines of cluster "pool" name instances that do not belong ` +
			`to the project of cloud "openstack" of Secret "others" in the region of its credentials: OpenStackMachine "worker" (` + server.ID +
			`); delete these machines or clear their instance IDs first`
		expectDenial(refer(ctx, a, "two"), holds, referencePath, text)
		Eventually(a.eventsOn).WithContext(ctx).WithArguments(cluster).Should(ConsistOf(denied(holds, text)))

		By("nor by a server-side apply")
		apply := core(a, "two")
		expectDenial(a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.ForceOwnership, client.FieldOwner("attacker")), holds, referencePath)

		By("nor in two steps, first without a reference")
		Expect(a.set(ctx, cluster, referencePath, nil)).To(Succeed())
		expectDenial(refer(ctx, a, "two"), holds, referencePath)

		By("nor by deleting the Cluster and creating another with the same name")
		Expect(a.client.Delete(ctx, newObject(coreKind, a.namespace, clusterName))).To(Succeed())
		expectDenial(a.client.Create(ctx, core(a, "two")), holds, referencePath)
		Expect(a.client.Create(ctx, core(a, "one"))).To(Succeed())

		By("but after the machine's server is cleared")
		Expect(a.set(ctx, machine, instanceIDPath, "")).To(Succeed())
		Expect(refer(ctx, a, "two")).To(Succeed())
		theirs := a.other.server(ctx, "worker")
		Expect(a.set(ctx, machine, instanceIDPath, theirs.ID)).To(Succeed(), "a server of the project of the new reference")
		expectDenial(a.set(ctx, machine, instanceIDPath, server.ID), "InstanceNotFound", instanceIDPath, `of cloud "openstack" of Secret "others"`)
	}, SpecTimeout(2*timeout))

	It("is checked for machines that existed before the Cluster", func(ctx SpecContext) {
		a := begin(ctx)
		Expect(a.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
		claim(ctx, a, "worker")
		expectDenial(a.client.Create(ctx, core(a, "two")), holds, referencePath)
		Expect(a.client.Create(ctx, core(a, "one"))).To(Succeed())
	}, SpecTimeout(timeout))

	It("cannot bypass the gate by a change of the credentials of its object", func(ctx SpecContext) {
		a := begin(ctx)
		Expect(a.client.Create(ctx, core(a, "one"))).To(Succeed())
		_, server := claim(ctx, a, "worker")
		one := newObject(clusterKind, a.namespace, "one")
		text := `machines of cluster "pool" name instances that do not belong to the project of cloud "openstack" of Secret "others"`
		expectDenial(a.set(ctx, one, identityRefPath+".name", "others"), holds, identityRefPath, text, server.ID)

		By("with any label of the object")
		Expect(a.set(ctx, one, "metadata.labels", map[string]any{clusterLabel: clusterName})).To(Succeed())
		expectDenial(a.set(ctx, one, identityRefPath+".name", "others"), holds, identityRefPath, text)
		Expect(a.set(ctx, one, "metadata.labels", map[string]any{clusterLabel: "empty"})).To(Succeed())
		expectDenial(a.set(ctx, one, identityRefPath+".name", "others"), holds, identityRefPath, text)
		Expect(a.set(ctx, one, "metadata.labels", map[string]any{clusterLabel: nil})).To(Succeed())

		By("nor by deleting the object and creating it again")
		Expect(a.client.Delete(ctx, one)).To(Succeed())
		expectDenial(a.createCluster(ctx, "one", actsWith("others")), holds, identityRefPath, text)
		Expect(a.createCluster(ctx, "one", actsWith(credentials))).To(Succeed())

		By("nor by a change of the Secret")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: credentials}}
		content := cloudsYAML(a.other.password(a.other.user).with("auth_url", a.front.Endpoint()))
		expectDenial(a.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"clouds.yaml":%q}}`, content))),
			holds, "data[clouds.yaml]", `machines of cluster "pool"`, server.ID)
	}, SpecTimeout(2*timeout))

	It("has precedence over the name and the label", func(ctx SpecContext) {
		a := begin(ctx)
		Expect(a.createCluster(ctx, clusterName, actsWith(credentials), labeled(clusterName))).To(Succeed())
		Expect(a.client.Create(ctx, core(a, "two"))).To(Succeed())
		machine, server := a.machine(ctx, "worker"), a.server(ctx, "worker")
		// In a dry run, the cloud's denial of a first claim is final.
		expectDenial(a.set(ctx, machine, instanceIDPath, server.ID, client.DryRunAll), "InstanceNotFound", instanceIDPath,
			`of cloud "openstack" of Secret "others"`)
	}, SpecTimeout(timeout))

})

// editors counts them, for their names.
var editors int

// editor returns the world as a user who has every permission in a namespace, and none elsewhere.
func (w *world) editor(ctx context.Context, namespace string) *world {
	GinkgoHelper()
	editors++
	as := *w
	as.recorder = &kubetest.Recorder{}
	_, as.client = suite.NewEditor(ctx, w.api, as.recorder, namespace, fmt.Sprintf("editor-%d", editors))
	return &as
}
