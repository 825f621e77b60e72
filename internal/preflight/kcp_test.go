package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/preflight"
)

// fakeKCP answers for logical clusters as kcp does. e2e/suites/explain tests the answers of a real kcp. fakeKCP has answers that a real kcp
// gives too rarely.
type fakeKCP struct {
	// clusters contains the existing objects by path.
	clusters map[string][]client.Object
	// names maps the names of logical clusters to their paths.
	names map[logicalcluster.Name]string
	// permissions are the RBAC permissions: "user verb name path".
	permissions []string
	// closed are the paths of workspaces without access.
	closed []string
	// requester is the denied user in the response for closed workspaces. It is empty if the response names no user.
	requester string
	// unreachable are the paths of existing workspaces that the kubeconfig does not reach.
	unreachable []string
	// down are the paths of workspaces on a shard that the front-proxy does not reach.
	down []string
}

func (f *fakeKCP) checker(t *testing.T) preflight.Checker {
	t.Helper()
	return preflight.Checker{Client: func(at logicalcluster.Path) (client.Client, error) {
		path := at.String()
		if known, ok := f.names[logicalcluster.Name(path)]; ok {
			path = known
		}
		objects, exists := f.clusters[path]
		builder := fake.NewClientBuilder().WithScheme(kcp.Scheme())
		for _, object := range objects {
			object = object.DeepCopyObject().(client.Object) //nolint:errcheck,forcetypeassert // what is copied stays what it is
			builder = builder.WithObjects(object)
		}
		answer := func() error {
			switch {
			case slices.Contains(f.closed, path):
				denial := errors.New("access denied")
				if f.requester != "" {
					denial = fmt.Errorf(`User %q cannot get resource "workspacetypes" in API group "tenancy.kcp.io" at the cluster scope: %w`, f.requester, denial)
				}
				return apierrors.NewForbidden(schema.GroupResource{}, "", denial)
			case !exists || slices.Contains(f.unreachable, path):
				return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "x", "404 page not found", 0, true)
			case slices.Contains(f.down, path):
				return apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", schema.GroupResource{}, "x", "", 0, true)
			default:
				return nil
			}
		}
		return builder.WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				if err := answer(); err != nil {
					return err
				}
				return c.Get(ctx, key, into, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
				if err := answer(); err != nil {
					return err
				}
				return c.List(ctx, into, options...)
			},
			Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				review, ok := object.(*authorizationv1.SubjectAccessReview)
				if !ok {
					t.Errorf("%T is created: nothing may be written", object)
					return nil
				}
				review.Status.Allowed = f.allows(review.Spec, path)
				return answer()
			},
		}).Build(), nil
	}}
}

// allows checks the permissions of all identities that the user has in the logical cluster.
func (f *fakeKCP) allows(spec authorizationv1.SubjectAccessReviewSpec, path string) bool {
	owner := identity.Owner{Username: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: map[string][]string{}}
	for key, values := range spec.Extra {
		owner.Extra[key] = values
	}
	var cluster logicalcluster.Name
	for name, known := range f.names {
		if known == path {
			cluster = name
		}
	}
	permission := " " + spec.ResourceAttributes.Verb + " " + spec.ResourceAttributes.Name + " " + path
	return slices.ContainsFunc(identity.Effective(owner, cluster, true), func(as identity.Owner) bool {
		return slices.Contains(f.permissions, as.Username+permission)
	})
}

// at sets the logical cluster and the path of an object.
func at[T client.Object](object T, cluster logicalcluster.Name, path string) T {
	object.SetAnnotations(map[string]string{
		logicalcluster.AnnotationKey:         cluster.String(),
		core.LogicalClusterPathAnnotationKey: path,
	})
	return object
}
