package kcptest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Widgets is the definition of a cluster-scoped kind Widget of an API group, version v1, with any content.
func Widgets(group string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}

// unavailable is how long a new workspace may answer 503, 50 seconds.
var unavailable = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Steps: 12}

// Export exports kinds from the workspace of config in an APIExport of the given name.
func Export(ctx context.Context, config *rest.Config, name string, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, crd := range crds {
		made, err := apisv1alpha1.CRDToAPIResourceSchema(crd, "v1")
		if err != nil {
			return fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		// kcp answers 503 for a moment after a workspace has become Ready.
		if err := retry.OnError(unavailable, apierrors.IsServiceUnavailable, func() error { return c.Create(ctx, made) }); err != nil {
			return fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		export.Spec.Resources = append(export.Spec.Resources, apisv1alpha2.ResourceSchema{
			Name: crd.Spec.Names.Plural, Group: crd.Spec.Group, Schema: made.Name,
			Storage: apisv1alpha2.ResourceSchemaStorage{CRD: &apisv1alpha2.ResourceSchemaStorageCRD{}},
		})
	}
	if err := c.Create(ctx, export); err != nil {
		return fmt.Errorf("create APIExport %s: %w", name, err)
	}
	return nil
}

// Bind binds an APIExport of the workspace at path in the workspace of config, as the user of config, who may bind it. It waits until
// kcp serves a kind of the APIExport there. kcp denies the APIBinding as long as its indexes lack the APIExport or the permissions of the
// user, which may be those of another shard.
func Bind(ctx context.Context, config *rest.Config, path, name string, kind schema.GroupVersionKind) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	binding := &apisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apisv1alpha2.APIBindingSpec{Reference: apisv1alpha2.BindingReference{
			Export: &apisv1alpha2.ExportBindingReference{Path: path, Name: name},
		}},
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		last = c.Create(ctx, binding.DeepCopy())
		return !apierrors.IsForbidden(last), nil
	})
	if err := errors.Join(last, err); err != nil {
		return fmt.Errorf("bind APIExport %s at %s: %w", name, config.Host, err)
	}
	kind.Kind += "List"
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var served client.Client // it reads the served resources when it is created
		if served, last = client.New(config, client.Options{}); last == nil {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			last = served.List(ctx, list)
		}
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait until %s is served at %s: %w", kind.Kind, config.Host, err), last)
	}
	return nil
}

// Through returns a config for a user in a logical cluster, through the virtual workspace of an APIExport of the workspace of admin. The user
// gets the permission for it there. kcp adds an administrator's warrant to each request of a user that comes in this way.
func (s *Server) Through(ctx context.Context, admin *rest.Config, export, cluster, username string) (*rest.Config, error) {
	content := Rule("apis.kcp.io", []string{"apiexports/content"}, []string{"*"})
	if err := Grant(ctx, admin, User(username), AccessRule(), content); err != nil {
		return nil, err
	}
	c, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	var last error
	if err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		last = c.Get(ctx, client.ObjectKey{Name: export}, slice)
		return last == nil && len(slice.Status.APIExportEndpoints) > 0, nil
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("wait until APIExport %s at %s has a virtual workspace: %w", export, admin.Host, err), last)
	}
	config := s.User("root", username)
	config.Host = slice.Status.APIExportEndpoints[0].URL + "/clusters/" + cluster
	return config, nil
}
