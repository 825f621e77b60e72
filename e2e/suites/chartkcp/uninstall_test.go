//go:build e2e

package chartkcp_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
)

// helm uninstall removes all objects that the chart created in kcp.
var _ = Describe("helm uninstall beside a kcp", func() {
	It("removes the webhook configurations from root and from a provider's workspace, and leaves no objects there", func(ctx SpecContext) {
		w := begin()
		w.provide(ctx)
		places := []*rest.Config{w.kcp.ShardAdmin("root"), w.kcp.ShardAdmin("system:admin"), w.kcp.ShardAdmin(providerPath)}
		var before [][]string
		for _, place := range places {
			before = append(before, objects(ctx, place))
		}
		hosted := w.hostObjects(ctx)
		serve := w.install(ctx)
		w.awaitCalled(ctx)
		Eventually(objects).WithArguments(ctx, places[0]).Should(And(
			ContainElement("Lease/default/warrantgate-repair"), ContainElement("Lease/default/warrantgate-audit")), "no replica holds the Lease")
		w.providerGate(ctx)
		w.providerAudit(ctx)

		By("failing to remove the gates of kcp")
		admin := &corev1.Secret{}
		Expect(w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kcp-admin"}, admin)).To(Succeed())
		w.put(ctx, admin.Name, map[string][]byte{"kubeconfig": []byte("{}")})
		Expect(w.helm(ctx, "uninstall", "--wait")).To(MatchError(ContainSubstring("warrantgate-kcp-uninstall")))
		Expect(w.host.Get(ctx, client.ObjectKeyFromObject(registered()), registered())).To(Succeed(), "the gates of the cluster stay, too")
		w.put(ctx, admin.Name, admin.Data)

		Expect(w.helm(ctx, "uninstall", "--wait")).To(Succeed())
		Expect(w.kubelet.Output("warrantgate-kcp-uninstall")).To(ContainSubstring(`root: ValidatingWebhookConfiguration "warrantgate" deleted`))
		Expect(w.kubelet.Output("warrantgate-kcp-uninstall-provider-0")).To(ContainSubstring(`provider: ValidatingWebhookConfiguration "warrantgate" deleted`))
		Expect(serve.Alive()).To(Succeed())
		Expect(serve.Stop()).To(Succeed())

		By("listing the remaining objects")
		for i, place := range places {
			// kcp deletes the objects that it derived from deleted ones, with a delay.
			Eventually(func() []string { return added(before[i], objects(ctx, place)) }).WithContext(ctx).Should(BeEmpty(), place.Host)
		}
		Expect(added(hosted, w.hostObjects(ctx))).To(BeEmpty())

		By("creating a workspace")
		suite.ReadyWorkspace(ctx, w.kcp.User("root", "alice"), "afterwards")
	}, SpecTimeout(startTimeout))
})

// hostObjects are the objects of the API server beside kcp.
func (w *world) hostObjects(ctx context.Context) []string {
	GinkgoHelper()
	return objects(ctx, w.api.Config())
}

// objects are all objects of a server or logical cluster except Events, as kind/namespace/name.
func objects(ctx context.Context, config *rest.Config) []string {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // some versions are deprecated
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	c := suite.UnstructuredClient(config)
	lists, err := discoverer.ServerPreferredResources()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for i := range list.APIResources {
			resource := list.APIResources[i]
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" || strings.Contains(resource.Name, "/") {
				continue
			}
			found := &unstructured.UnstructuredList{}
			found.SetGroupVersionKind(version.WithKind(resource.Kind + "List"))
			err := c.List(ctx, found)
			if apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
				continue // kcp lists some resources that it does not store
			}
			Expect(err).NotTo(HaveOccurred(), resource.Name)
			for j := range found.Items {
				names = append(names, strings.Join([]string{resource.Kind, found.Items[j].GetNamespace(), found.Items[j].GetName()}, "/"))
			}
		}
	}
	slices.Sort(names)
	return names
}

// added returns the objects that did not exist before.
func added(before, after []string) []string {
	return slices.DeleteFunc(slices.Clone(after), func(name string) bool { return slices.Contains(before, name) })
}
