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

// fakeKCP answers for logical clusters as kcp does. What kcp itself would say is asked of a real one in e2e/suites/explain; here it
// is about answers that a real one gives too seldom.
type fakeKCP struct {
	// clusters hold what there is, by path.
	clusters map[string][]client.Object
	// names lead from names of logical clusters to their paths.
	names map[logicalcluster.Name]string
	// rights are what is allowed: "user verb name path".
	rights []string
	// closed are the paths of workspaces that may not be entered.
	closed []string
	// asker is as whom one is refused there. Empty for nobody whom the refusal names.
	asker string
	// unreachable are the paths on a shard that cannot be reached, although they exist.
	unreachable []string
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
				refusal := errors.New("access denied")
				if f.asker != "" {
					refusal = fmt.Errorf(`User %q cannot get resource "workspacetypes" in API group "tenancy.kcp.io" at the cluster scope: %w`, f.asker, refusal)
				}
				return apierrors.NewForbidden(schema.GroupResource{}, "", refusal)
			case !exists || slices.Contains(f.unreachable, path):
				return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "x", "404 page not found", 0, true)
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

// allows answers for everybody as whom the user counts there.
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
	right := " " + spec.ResourceAttributes.Verb + " " + spec.ResourceAttributes.Name + " " + path
	return slices.ContainsFunc(identity.Effective(owner, cluster, true), func(as identity.Owner) bool {
		return slices.Contains(f.rights, as.Username+right)
	})
}

// at says where an object is.
func at[T client.Object](object T, cluster logicalcluster.Name, path string) T {
	object.SetAnnotations(map[string]string{
		logicalcluster.AnnotationKey:         cluster.String(),
		core.LogicalClusterPathAnnotationKey: path,
	})
	return object
}
