//go:build e2e

package attacks_test

import (
	"context"
	"fmt"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// ownExport is the APIExport of a tenant.
	ownExport    = "own"
	kindNotBound = "KindNotBound"
)

// exportOwn exports kinds of the provider's names from a tenant's workspace, and binds them there.
func (o owner) exportOwn(ctx context.Context, kind schema.GroupVersionKind) {
	GinkgoHelper()
	crds, err := kubetest.CRDs(kind.Kind)
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Export(ctx, o.config, ownExport, crds...)).To(Succeed())
	Expect(kcptest.Bind(ctx, o.config, o.path, ownExport, kind)).To(Succeed())
}

// bindProvider binds the provider's kinds in a tenant's workspace, and waits for the webhooks of the kind of the canary.
func (o *owner) bindProvider(ctx context.Context, canary *unstructured.Unstructured) {
	GinkgoHelper()
	Expect(kcptest.Bind(ctx, o.config, providerPath, exportName, canary.GroupVersionKind())).To(Succeed())
	o.client = suite.UnstructuredClient(o.recorder.Listen(o.config))
	Eventually(func() error { return o.client.Create(ctx, canary.DeepCopy(), client.DryRunAll) }).WithContext(ctx).
		Should(MatchError(ContainSubstring("warrantgate.dev")))
}

// machineCanary is a machine that the gate denies.
func machineCanary(of owner) *unstructured.Unstructured {
	return newMachine(of.namespace, "canary", "pool", map[string]any{"providerID": "cloudsigma://no-uuid"})
}

// Guarantee 2, the part of kinds: no webhook of the provider is called for a kind that a tenant has from elsewhere.
var _ = Describe("the owner of a workspace with a kind of its own", func() {
	// expectNothing claims the server of a stranger in each way. The machine has the name of the server.
	expectNothing := func(ctx SpecContext, w *kcpWorld, eve owner, stranger cloudsigmatest.User, server cloudsigmatest.Server) {
		GinkgoHelper()
		Expect(eve.client.Create(ctx, newCluster(eve.namespace, "pool", stranger.Email))).To(Succeed(), "no gate decides about this kind")
		before := len(w.cloud.Requests())
		machine := newMachine(eve.namespace, server.Name, "pool", nil)
		Expect(eve.client.Create(ctx, machine)).To(Succeed())
		inStatus := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"instanceID":%q}}`, server.UUID))
		named := newMachine(eve.namespace, "named", "pool", map[string]any{"providerID": "cloudsigma://" + server.UUID})
		for what, write := range map[string]func() error{
			"in the status": func() error { return eve.client.Status().Patch(ctx, machine.DeepCopy(), inStatus) },
			"in a dry run":  func() error { return eve.client.Status().Patch(ctx, machine.DeepCopy(), inStatus, client.DryRunAll) },
			"in a new one":  func() error { return eve.client.Create(ctx, named.DeepCopy()) },
		} {
			err := write()
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
			Expect(apierrors.HasStatusCause(err, kindNotBound)).To(BeTrue(), "%s: %v", what, err)
			Expect(err).To(MatchError(And(ContainSubstring("cloudsigmaclusters.infrastructure.cluster.x-k8s.io of this workspace do not come from an APIExport of the provider"),
				Not(ContainSubstring(stranger.Email)), Not(ContainSubstring(stranger.UUID)))), what)
		}
		Expect(w.cloud.Requests()[before:]).To(BeEmpty(), "requests to the cloud")
		Eventually(func() []string { return gateEvents(ctx, eve) }).Should(ContainElement(HavePrefix(kindNotBound)))
		for _, text := range gateEvents(ctx, eve) {
			Expect(text).To(And(Not(ContainSubstring(stranger.Email)), Not(ContainSubstring(stranger.UUID))))
		}
	}

	It("cannot have a cluster believed that it exports itself", func(ctx SpecContext) {
		w := kcp(ctx)
		eve := w.newOwner(ctx, "eve")
		stranger, own := w.user("stranger-of-"+eve.name+"@example.com"), w.user(eve.name+"@example.com")
		server := w.server(stranger, "worker-of-"+eve.name)
		eve.exportOwn(ctx, clusterKind)
		eve.bindProvider(ctx, machineCanary(eve))
		expectNothing(ctx, w, eve, stranger, server)

		By("removing the own kind, and binding the provider's instead")
		w.permit(ctx, eve.name, own.Email)
		c := suite.KCPClient(eve.config)
		for _, name := range []string{ownExport, exportName} {
			binding := &apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
			Expect(c.Delete(ctx, binding)).To(Succeed())
			Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(binding), binding) }).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
		eve.bindProvider(ctx, newCluster(eve.namespace, "canary", " blank"))
		err := eve.client.Create(ctx, newCluster(eve.namespace, "pool", stranger.Email))
		Expect(apierrors.HasStatusCause(err, "ImpersonationNotAllowed")).To(BeTrue(), "%v", err)
		Eventually(func() error { return eve.client.Create(ctx, newCluster(eve.namespace, "pool", own.Email)) }).WithContext(ctx).Should(Succeed())
		err = eve.client.Create(ctx, newMachine(eve.namespace, "named", "pool", map[string]any{"providerID": "cloudsigma://" + server.UUID}))
		Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%v", err)
		Expect(eve.client.Create(ctx, newMachine(eve.namespace, "named", "pool",
			map[string]any{"providerID": "cloudsigma://" + w.server(own, "worker").UUID}))).To(Succeed())
	}, SpecTimeout(startTimeout))

	It("cannot have a cluster believed that it exports itself after it has bound the provider's", func(ctx SpecContext) {
		w := kcp(ctx)
		eve := w.owner(ctx, "eve")
		stranger, own := w.user("stranger-of-"+eve.name+"@example.com"), w.user(eve.name+"@example.com")
		server, mine := w.server(stranger, "worker-of-"+eve.name), w.server(own, "worker")
		w.permit(ctx, eve.name, own.Email)
		Eventually(func() error { return eve.client.Create(ctx, newCluster(eve.namespace, "pool", own.Email)) }).WithContext(ctx).Should(Succeed())
		claim := newMachine(eve.namespace, "before", "pool", map[string]any{"providerID": "cloudsigma://" + mine.UUID})
		Expect(eve.client.Create(ctx, claim)).To(Succeed(), "so it is known where the objects of this workspace are")

		eve.exportOwn(ctx, clusterKind)
		c := suite.KCPClient(eve.config)
		second := &apisv1alpha2.APIBinding{}
		Eventually(func() ([]string, error) {
			err := c.Get(ctx, client.ObjectKey{Name: ownExport}, second)
			var reasons []string
			for i := range second.Status.Conditions {
				reasons = append(reasons, second.Status.Conditions[i].Reason)
			}
			return reasons, err
		}).WithContext(ctx).Should(ContainElement("NamingConflicts"))
		Expect(second.Status.BoundResources).To(BeEmpty())
		err := eve.client.Create(ctx, newCluster(eve.namespace, "other", stranger.Email))
		Expect(apierrors.HasStatusCause(err, "ImpersonationNotAllowed")).To(BeTrue(), "%v", err)

		By("removing the binding of the provider's, and binding it again")
		first := &apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{Name: exportName}}
		Expect(c.Delete(ctx, first)).To(Succeed())
		Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(first), first) }).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Eventually(func() ([]apisv1alpha2.BoundAPIResource, error) {
			err := c.Get(ctx, client.ObjectKey{Name: ownExport}, second)
			return second.Status.BoundResources, err
		}).WithContext(ctx).ShouldNot(BeEmpty())
		eve.bindProvider(ctx, machineCanary(eve))
		expectNothing(ctx, w, eve, stranger, server)
	}, SpecTimeout(startTimeout))

	It("cannot have a cluster believed whose CustomResourceDefinition it creates", func(ctx SpecContext) {
		w := kcp(ctx)
		eve := w.newOwner(ctx, "eve")
		stranger := w.user("stranger-of-" + eve.name + "@example.com")
		server := w.server(stranger, "worker-of-"+eve.name)
		crds, err := kubetest.CRDs(clusterKind.Kind)
		Expect(err).NotTo(HaveOccurred())
		c := suite.UnstructuredClient(eve.config)
		for _, crd := range crds {
			crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
			Expect(c.Create(ctx, crd.DeepCopy())).To(Succeed())
		}
		Eventually(func() error { // until the kind is served
			fresh, err := client.New(eve.config, client.Options{})
			if err != nil {
				return err
			}
			return fresh.Create(ctx, newCluster(eve.namespace, "first", stranger.Email))
		}).WithContext(ctx).Should(Succeed())
		eve.bindProvider(ctx, machineCanary(eve))
		expectNothing(ctx, w, eve, stranger, server)
	}, SpecTimeout(startTimeout))

	It("learns nothing about the servers that its own machines name", func(ctx SpecContext) {
		w := kcp(ctx)
		eve := w.newOwner(ctx, "eve")
		stranger, own := w.user("stranger-of-"+eve.name+"@example.com"), w.user(eve.name+"@example.com")
		server := w.server(stranger, "worker-of-"+eve.name)
		w.permit(ctx, eve.name, own.Email)
		eve.exportOwn(ctx, machineKind)
		eve.bindProvider(ctx, newCluster(eve.namespace, "canary", " blank"))
		Expect(eve.client.Create(ctx, newMachine(eve.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + server.UUID}))).
			To(Succeed(), "no gate decides about this kind")
		before := len(w.cloud.Requests())
		cluster := newCluster(eve.namespace, "pool", own.Email)
		Eventually(func() error { return eve.client.Create(ctx, cluster.DeepCopy()) }).WithContext(ctx).Should(Succeed())
		Expect(patchSpec(ctx, eve.client, cluster, `{"region":"zrh"}`)).To(Succeed())
		Expect(w.cloud.Requests()[before:]).To(BeEmpty(), "requests to the cloud")
	}, SpecTimeout(startTimeout))

	It("can only have claims denied by an owner Machine from elsewhere", func(ctx SpecContext) {
		w := kcp(ctx)
		eve := w.owner(ctx, "eve")
		stranger, own := w.user("stranger-of-"+eve.name+"@example.com"), w.user(eve.name+"@example.com")
		w.permit(ctx, eve.name, own.Email)
		Eventually(func() error { return eve.client.Create(ctx, newCluster(eve.namespace, "pool", own.Email)) }).WithContext(ctx).Should(Succeed())
		eve.exportOwn(ctx, clusterAPI.WithKind("Machine"))
		eve.client = suite.UnstructuredClient(eve.recorder.Listen(eve.config))
		for _, of := range []string{"pool", "other"} {
			machine := newObject(clusterAPI.WithKind("Machine"), eve.namespace, "of-"+of, map[string]any{})
			machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": of})
			Expect(eve.client.Create(ctx, machine)).To(Succeed())
		}
		claim := func(owner string, server cloudsigmatest.Server) error {
			machine := newMachine(eve.namespace, "worker-"+owner, "pool", map[string]any{"providerID": "cloudsigma://" + server.UUID})
			machine.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterAPI.String(), Kind: "Machine", Name: "of-" + owner, UID: "a"}})
			return eve.client.Create(ctx, machine)
		}
		theirs, mine := w.server(stranger, "worker"), w.server(own, "worker")
		for _, denied := range []struct {
			owner  string
			server cloudsigmatest.Server
			reason metav1.CauseType
		}{{"pool", theirs, "InstanceNotOwned"}, {"other", theirs, "OwnerClusterMismatch"}, {"other", mine, "OwnerClusterMismatch"}} {
			err := claim(denied.owner, denied.server)
			Expect(apierrors.HasStatusCause(err, denied.reason)).To(BeTrue(), "owned by %s: %v", denied.owner, err)
		}
		Expect(claim("pool", mine)).To(Succeed())
	}, SpecTimeout(startTimeout))
})
