//go:build e2e

package workspace_test

import (
	"context"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

// exportName is the APIExport of exportWidgets.
const exportName = "widgets.example.io"

// exportWidgets exports an API that other workspaces can bind, with the permission to do so.
func (p place) exportWidgets(ctx context.Context, claims ...apisv1alpha2.PermissionClaim) {
	GinkgoHelper()
	schema := &apisv1alpha1.APIResourceSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.widgets.example.io"},
		Spec: apisv1alpha1.APIResourceSchemaSpec{
			Group: "example.io",
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList",
			},
			Scope: apiextensionsv1.ClusterScoped,
			Versions: []apisv1alpha1.APIResourceVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: runtime.RawExtension{Raw: []byte(`{"type":"object"}`)},
			}},
		},
	}
	export := &apisv1alpha2.APIExport{
		ObjectMeta: metav1.ObjectMeta{Name: exportName},
		Spec: apisv1alpha2.APIExportSpec{
			Resources: []apisv1alpha2.ResourceSchema{{
				Name: "widgets", Group: "example.io", Schema: schema.Name,
				Storage: apisv1alpha2.ResourceSchemaStorage{CRD: &apisv1alpha2.ResourceSchemaStorageCRD{}},
			}},
			PermissionClaims: claims,
		},
	}
	Expect(p.Client().Create(ctx, schema)).To(Succeed())
	Expect(p.Client().Create(ctx, export)).To(Succeed())
	Eventually(ctx, p.identityOf).WithArguments(exportName).ShouldNot(BeEmpty())
}

// identityOf is the identity hash of an APIExport here, "" while it has none.
func (p place) identityOf(ctx context.Context, export string) (string, error) {
	found := &apisv1alpha2.APIExport{}
	err := p.Client().Get(ctx, client.ObjectKey{Name: export}, found)
	return found.Status.IdentityHash, err
}

// widgetType creates a WorkspaceType whose workspaces bind the widgets of this workspace.
func (p place) widgetType(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	return p.WorkspaceType(ctx, "widgets", tenancyv1alpha1.WorkspaceTypeSpec{
		DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: p.Path, Export: exportName}},
	})
}

// exportsOf lists the APIExports that are bound.
func exportsOf(bindings []apisv1alpha2.APIBinding) []string {
	exports := make([]string, 0, len(bindings))
	for i := range bindings {
		exports = append(exports, bindings[i].Spec.Reference.Export.Name)
	}
	return exports
}
