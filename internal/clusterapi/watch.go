package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/message"
)

const (
	// brokenAfter is how long a watch may be broken before its objects count as unknown. A watch ends every few minutes and is
	// re-established immediately. A restarted API server is back within seconds, and client-go retries after at most 30 seconds.
	// HTTP/2 pings detect a connection without responses within up to 45 more seconds.
	brokenAfter = 30 * time.Second
	// watchLasts is the maximum duration of a watch. client-go requests a duration of at most 10 minutes.
	watchLasts = 11 * time.Minute
	// settledAfter is the minimum duration of a working watch. If the connection breaks, client-go returns a watch without an error
	// that ends immediately.
	settledAfter = time.Second
)

// watched contains the last seen objects of one resource. If the API server does not serve the resource, watched retries until it
// does.
type watched struct {
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	// failure is the error of the last request. It points to nil after a success.
	failure atomic.Pointer[watchFailure]
	// brokenSince is the time since which there is no watch, or nil if there is one.
	brokenSince atomic.Pointer[time.Time]
}

// watchFailure describes why a resource cannot be watched.
type watchFailure struct {
	err error
	// absent is true if no version of the resource is served.
	absent bool
}

// newWatched returns a watched resource. If the resource has no version, a served version is watched.
func newWatched(r *reader, resource schema.GroupVersionResource, essentials cache.TransformFunc, indexers cache.Indexers) (*watched, error) {
	w := &watched{resource: resource}
	hint := &versionHint{}
	// Each list repeats the discovery: if a watch ends because its version is no longer served, the next watch uses another version.
	objects := func(ctx context.Context, discover bool) (dynamic.ResourceInterface, error) {
		if resource.Version != "" {
			return r.dynamic.Resource(resource), nil
		}
		versioned, served, err := hint.resource(ctx, r.discovery, resource.GroupResource(), discover)
		switch {
		case err != nil:
			return nil, err
		case !served:
			return nil, apierrors.NewNotFound(resource.GroupResource(), "")
		}
		return r.dynamic.Resource(versioned), nil
	}
	w.informer = cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			resource, err := objects(ctx, true)
			if err != nil {
				return nil, err
			}
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w.broken() // until a watch lasts for settledAfter
			resource, err := objects(ctx, false)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, watchLasts)
			stream, err := resource.Watch(ctx, options)
			if err != nil {
				cancel()
				return nil, err
			}
			settled := time.AfterFunc(settledAfter, func() {
				w.failure.Store(nil)
				w.brokenSince.Store(nil)
			})
			return ended{stream, func() {
				settled.Stop()
				w.broken()
				cancel()
			}}, nil
		},
	}, r.dynamic), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{Indexers: indexers, ObjectDescription: resource.String()})
	if err := w.informer.SetTransform(essentials); err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
	}
	err := w.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		w.broken()
		w.fail(ctx, r, err)
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
	}
	return w, nil
}

// ended is a watch that calls a function when it is stopped. The reader of a watch stops it at its end.
type ended struct {
	watch.Interface
	notify func()
}

// Stop implements watch.Interface.
func (e ended) Stop() {
	e.Interface.Stop()
	e.notify()
}

func (w *watched) broken() {
	now := time.Now()
	w.brokenSince.CompareAndSwap(nil, &now)
}

// fail stores the error of a request, and logs it if it differs from the last one.
func (w *watched) fail(ctx context.Context, r *reader, err error) {
	log := logf.FromContext(ctx).WithValues("resource", w.resource.GroupResource().String())
	failure := &watchFailure{err: err}
	if apierrors.IsNotFound(err) {
		failure.err = r.notInstalled(ctx, w.resource)
		failure.absent = failure.err == nil
	}
	was := w.failure.Swap(failure)
	switch {
	case was != nil && was.absent == failure.absent && fmt.Sprint(was.err) == fmt.Sprint(failure.err):
	case failure.absent:
		log.Info("not served by this API server, so there are no objects; retrying")
	default:
		log.Info("cannot watch; retrying", "error", failure.err.Error())
	}
}

// synced returns nil if the objects are known, or if the resource is not served.
func (w *watched) synced() error {
	failure := w.failure.Load()
	if failure == nil {
		failure = &watchFailure{}
	}
	since := w.brokenSince.Load()
	name := w.resource.GroupResource()
	_, unserved := errors.AsType[*VersionError](failure.err)
	switch {
	case unserved:
		return failure.err
	case failure.absent && len(w.informer.GetStore().ListKeys()) == 0:
		return nil
	case failure.absent: // objects are deleted before their kind
		return fmt.Errorf("%s are no longer served, although there were objects when they were last seen", name)
	case w.informer.HasSynced() && (since == nil || time.Since(*since) <= brokenAfter):
		return nil
	case w.informer.HasSynced() && failure.err == nil:
		return fmt.Errorf("%s have not been watched for more than %s", name, brokenAfter)
	case w.informer.HasSynced():
		return fmt.Errorf("%s have not been watched for more than %s: %w", name, brokenAfter, failure.err)
	case failure.err == nil:
		return fmt.Errorf("%s have not been read yet", name)
	}
	return fmt.Errorf("%s cannot be read: %w", name, failure.err)
}

// current is true while there is a working watch. The last seen state is then as old as the delay of a watch.
func (w *watched) current() bool { return w.brokenSince.Load() == nil && w.synced() == nil }

func (w *watched) byIndex(index, value string) []*unstructured.Unstructured {
	return w.byIndexWithout(index, value, func(string) bool { return false })
}

// byIndexWithout returns the objects of other namespaces than those that skip returns true for.
func (w *watched) byIndexWithout(index, value string, skip func(namespace string) bool) []*unstructured.Unstructured {
	objects, err := w.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // an index that newWatched did not create
	}
	found := slices.DeleteFunc(asObjects(objects), func(object *unstructured.Unstructured) bool { return skip(object.GetNamespace()) })
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { // an index is unordered, and messages have to be stable
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
	typed, _ := object.(*unstructured.Unstructured)
	return typed
}

// maxKept limits the length of a text that is kept in memory, because a tenant can write a MiB into each of many objects. Valid names of
// instances, objects and regions are shorter.
const maxKept = 1 << 10

// short returns at most maxKept bytes of a text. Of the blanks around a text that is too long, it keeps one: readers of IDs trim them, and an email
// with blanks is another one. A text that is cut ends with an ellipsis: after blanks in it, the rest must not seem to be the whole.
func short(text string) string {
	trimmed := strings.TrimSpace(text)
	if len(text) <= maxKept || trimmed == text {
		return clipped(text)
	}
	return clipped(" " + trimmed)
}

// clipped is short without trimming.
func clipped(text string) string {
	if len(text) <= maxKept {
		return text
	}
	return strings.Clone(message.Clip(text, maxKept))
}

// small returns the part of a field's value that is kept: a text, or the texts of a reference. Providers do not trim the texts of a reference, so
// blanks count there.
func small(value any) any {
	switch value := value.(type) {
	case string:
		return short(value)
	case map[string]any:
		kept := map[string]any{}
		for _, field := range []string{"name", "namespace", "type", "cloudName", "region"} {
			switch below := value[field].(type) {
			case nil:
			case string:
				kept[field] = clipped(below)
			case map[string]any, []any: // of the wrong type, as an empty one is
				kept[field] = []any{}
			default:
				kept[field] = small(below)
			}
		}
		return kept
	case []any:
		return []any{}
	}
	return value
}

// keep returns a copy of an object with only its identity and the given paths.
func keep(object any, paths ...string) (any, error) {
	whole, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", object)
	}
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetGroupVersionKind(whole.GroupVersionKind())
	for _, path := range append(paths, "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion") {
		fields := strings.Split(path, ".")
		value, found, err := unstructured.NestedFieldNoCopy(whole.Object, fields...)
		if err != nil || !found {
			continue // the gate reports a wrong type when it reads the object
		}
		if err := unstructured.SetNestedField(kept.Object, small(value), fields...); err != nil {
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
	kept, err := keep(object, paths...)
	if err != nil {
		return nil, err
	}
	if owners := ownersAmong(asObject(object).GetOwnerReferences()); len(owners) > 0 {
		owners = owners[:min(len(owners), 2)] // more than one is an error, and a tenant can write thousands
		for i := range owners {
			owners[i].APIVersion, owners[i].Name, owners[i].UID = short(owners[i].APIVersion), short(owners[i].Name), types.UID(short(string(owners[i].UID)))
		}
		asObject(kept).SetOwnerReferences(owners)
	}
	return kept, nil
}

func (k clusterKind) essentialsOf(object any) (any, error) { return keep(object, k.essentials...) }

func (k Kind) instancesOf(object any) ([]string, error) {
	machine, err := k.Read(asObject(object))
	if err != nil {
		return nil, nil //nolint:nilerr // a machine that cannot be read names no instance; an error would stop the watch
	}
	return machine.IDs(), nil
}

func userSecretOf(object any) ([]string, error) {
	ref, err := ReadUserRef(asObject(object))
	if err != nil || ref.SecretName == "" || ref.Email != "" {
		return nil, nil //nolint:nilerr // a cluster that cannot be read refers to no Secret; an error would stop the watch
	}
	return []string{ref.SecretNamespace + "/" + ref.SecretName}, nil
}
