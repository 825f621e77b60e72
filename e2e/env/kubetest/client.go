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

// NewClient returns a client whose writes return only when the API server's watch cache contains the change.
//
// The API server first validates a change against the object in that cache. If the change is denied and the cache was outdated, the
// API server validates it again against the stored object. Webhooks are then called twice, with two different objects. A test that
// counts calls, or reads the first Event, would sometimes see both.
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

// awaitCached waits until the watch cache contains the written object. It reads as the administrator, because the user may have no
// permission to read.
func (s *Server) awaitCached(ctx context.Context, written client.Object) error {
	if written.GetResourceVersion() == "" { // of a dry run, or of an object that is not stored, such as a review
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
		// With resource version 0, the API server responds from its cache.
		err := s.direct.Get(ctx, key, cached, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})
		if apierrors.IsNotFound(err) {
			// It is not created yet, or already deleted.
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
