//go:build e2e

package provider_test

import (
	"context"
	"slices"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/kcptest"
	"warrantgate.dev/e2e/kubetest"
)

// exportName is the provider's APIExport.
const exportName = "capcs"

var infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// makeWorkspace makes a workspace as an administrator, and waits until it is Ready.
func makeWorkspace(ctx context.Context, parent, name string) {
	GinkgoHelper()
	_, err := kcptest.CreateWorkspace(ctx, kcp.Admin(parent), name)
	Expect(err).NotTo(HaveOccurred())
	_, err = kcptest.WaitReady(ctx, kcp.Admin(parent), name)
	Expect(err).NotTo(HaveOccurred())
}

// exportKinds exports CloudSigmaMachine and CloudSigmaCluster from a workspace.
func exportKinds(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	crds, err := kubetest.CRDs()
	Expect(err).NotTo(HaveOccurred())
	c := newClient(config)
	export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: exportName}}
	for _, crd := range crds {
		if !slices.Contains([]string{"CloudSigmaMachine", "CloudSigmaCluster"}, crd.Spec.Names.Kind) {
			continue
		}
		made, err := apisv1alpha1.CRDToAPIResourceSchema(crd, "v1")
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Create(ctx, made)).To(Succeed())
		export.Spec.Resources = append(export.Spec.Resources, apisv1alpha2.ResourceSchema{
			Name: crd.Spec.Names.Plural, Group: crd.Spec.Group, Schema: made.Name,
			Storage: apisv1alpha2.ResourceSchemaStorage{CRD: &apisv1alpha2.ResourceSchemaStorageCRD{}},
		})
	}
	Expect(export.Spec.Resources).To(HaveLen(2))
	Expect(c.Create(ctx, export)).To(Succeed())
}

// bindKinds binds them in a workspace, and waits until they are served there.
func bindKinds(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	c := newClient(config)
	Expect(c.Create(ctx, &apisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{Name: exportName},
		Spec: apisv1alpha2.APIBindingSpec{Reference: apisv1alpha2.BindingReference{
			Export: &apisv1alpha2.ExportBindingReference{Path: "root:provider", Name: exportName},
		}},
	})).To(Succeed())
	Eventually(func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(infrastructure.WithKind("CloudSigmaMachineList"))
		return unstructuredClient(config).List(ctx, list)
	}).Should(Succeed())
}

func newClient(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := kcptest.NewClient(config)
	Expect(err).NotTo(HaveOccurred())
	return c
}

// unstructuredClient knows what the workspace serves at this time.
func unstructuredClient(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	return c
}

func object(kind, name, cluster string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(infrastructure.WithKind(kind))
	o.SetNamespace("default")
	o.SetName(name)
	o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": cluster})
	return o
}
