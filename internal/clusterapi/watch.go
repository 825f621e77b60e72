package clusterapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// watched are the objects of one resource, as they were last seen. Where the API server does not serve the resource, it
// is asked again until it does.
type watched struct {
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	// failure is why the last request failed. It points to nil if none has.
	failure atomic.Pointer[error]
}

func newWatched(
	client dynamic.Interface, resource schema.GroupVersionResource, essentials cache.TransformFunc, indexers cache.Indexers,
) (*watched, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, metav1.NamespaceAll, 0, indexers, nil).Informer()
	w := &watched{resource: resource, informer: informer}
	if err := informer.SetTransform(essentials); err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
	}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if was := w.failure.Swap(&err); was == nil || (*was).Error() != err.Error() {
			logf.FromContext(ctx).Info("cannot watch; it is tried again", "resource", resource.GroupResource().String(), "error", err.Error())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
	}
	return w, nil
}

// synced returns nil once the objects are seen, or known not to be served.
func (w *watched) synced() error {
	if w.informer.HasSynced() {
		return nil
	}
	failure := w.failure.Load()
	switch {
	case failure == nil:
		return fmt.Errorf("%s have not been read yet", w.resource.GroupResource())
	case apierrors.IsNotFound(*failure):
		return nil
	default:
		return fmt.Errorf("%s cannot be read: %w", w.resource.GroupResource(), *failure)
	}
}

func (w *watched) byIndex(index, value string) []*unstructured.Unstructured {
	objects, err := w.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // an index that is not among those of newWatched
	}
	found := asObjects(objects)
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { // an index is a set, and what people read has to be stable
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found
}

func (w *watched) list() []*unstructured.Unstructured { return asObjects(w.informer.GetStore().List()) }

func asObjects(objects []any) []*unstructured.Unstructured {
	typed := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		if object := asObject(object); object != nil {
			typed = append(typed, object)
		}
	}
	return typed
}

func asObject(object any) *unstructured.Unstructured {
	typed, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	return typed
}

// keep returns a copy of an object with only its identity and the given paths.
func keep(object any, paths ...string) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("what came is no object but %T", object)
	}
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetGroupVersionKind(whole.GroupVersionKind())
	for _, path := range append(paths, "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion") {
		fields := strings.Split(path, ".")
		value, found, err := unstructured.NestedFieldCopy(whole.Object, fields...)
		if err != nil || !found {
			continue // what has the wrong shape is told when the object is judged
		}
		if err := unstructured.SetNestedField(kept.Object, value, fields...); err != nil {
			return nil, fmt.Errorf("keep %s: %w", path, err)
		}
	}
	if label, found := whole.GetLabels()[ClusterNameLabel]; found {
		kept.SetLabels(map[string]string{ClusterNameLabel: label})
	}
	return kept, nil
}

func (k Kind) essentials(object any) (any, error) {
	paths := []string{k.InstanceIDPath, k.ProviderIDPath, "metadata.deletionTimestamp"}
	if k.IdentityRefPath != "" {
		paths = append(paths, k.IdentityRefPath)
	}
	return keep(object, paths...)
}

func (k clusterKind) essentialsOf(object any) (any, error) { return keep(object, k.essentials...) }

func (k clusterKind) clusterOf(object any) ([]string, error) {
	cluster := asObject(object)
	return []string{cluster.GetNamespace() + "/" + k.clusterName(cluster)}, nil
}

func (k Kind) instancesOf(object any) ([]string, error) {
	machine, err := k.Read(asObject(object))
	if err != nil {
		return nil, nil //nolint:nilerr // what cannot be read names no instance; an error here would stop the watch
	}
	return machine.IDs(), nil
}

func userSecretOf(object any) ([]string, error) {
	ref, err := ReadUserRef(asObject(object))
	if err != nil || ref.SecretName == "" || ref.Email != "" {
		return nil, nil //nolint:nilerr // what cannot be read refers to nothing; an error here would stop the watch
	}
	return []string{ref.SecretNamespace + "/" + ref.SecretName}, nil
}
