package kubetest

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// NewClient returns a client whose changes are over only when the API server's watch cache has them.
//
// The API server judges a change by what that cache holds of the object. Is the change refused and the cache was behind, it
// judges the change once more by what it really holds: webhooks are then asked twice, with two different objects, and a test
// that counts what they did, or looks at the first Event, would now and then see both.
func (s *Server) NewClient(config *rest.Config) (client.Client, error) {
	direct, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(direct, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := c.Create(ctx, object, options...); err != nil {
				return err
			}
			return s.awaitCached(ctx, object)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := c.Update(ctx, object, options...); err != nil {
				return err
			}
			return s.awaitCached(ctx, object)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := c.Patch(ctx, object, patch, options...); err != nil {
				return err
			}
			return s.awaitCached(ctx, object)
		},
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption,
		) error {
			if err := c.SubResource(name).Update(ctx, object, options...); err != nil {
				return err
			}
			return s.awaitCached(ctx, object)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			if err := c.SubResource(name).Patch(ctx, object, patch, options...); err != nil {
				return err
			}
			return s.awaitCached(ctx, object)
		},
	}), nil
}

// awaitCached waits until the watch cache has what was written. It looks as the administrator, as who wrote may not read.
func (s *Server) awaitCached(ctx context.Context, written client.Object) error {
	if written.GetResourceVersion() == "" { // of a dry run, or of what is not kept, such as a review
		return nil
	}
	kind, err := s.direct.GroupVersionKindFor(written)
	if err != nil {
		return err
	}
	cached := &metav1.PartialObjectMetadata{}
	cached.SetGroupVersionKind(kind)
	key := client.ObjectKeyFromObject(written)
	err = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		// Resource version 0 is whatever the cache has.
		err := s.direct.Get(ctx, key, cached, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})
		if apierrors.IsNotFound(err) {
			// Not there yet, or gone again.
			err = s.direct.Get(ctx, key, cached)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		if err != nil {
			return false, err
		}
		difference, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), written.GetResourceVersion())
		return difference >= 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the API server's cache to have %s %s: %w", kind.Kind, key, err)
	}
	return nil
}
