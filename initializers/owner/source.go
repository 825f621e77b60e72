package owner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kcpcache "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	kcpinformers "github.com/kcp-dev/apimachinery/v2/third_party/informers"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/events"
)

const (
	// syncInterval is the time between two reads of the URLs of the shards.
	syncInterval = 5 * time.Second
	// firstCheck is the age at which a workspace that is still Initializing is first checked. A healthy one is Ready by then.
	firstCheck = 10 * time.Second
)

// request identifies an object on a shard and the logical cluster to correct.
type request struct {
	// Shard is the URL of the virtual workspace in which the object was found.
	Shard string
	// Parent is the logical cluster that has the object, a Workspace or a LogicalCluster. Name and UID are the object's.
	Parent logicalcluster.Name
	Name   string
	UID    types.UID
	// Cluster is the logical cluster to correct. It is empty as long as a Workspace has none.
	Cluster logicalcluster.Name
	// Type is the WorkspaceType of a Workspace with a logical cluster, as PATH:NAME. The administrator of the workspace cannot change it, unlike
	// that in the LogicalCluster. kcp does not check that of a Workspace with a mount, which can be a MiB long.
	Type string
	// Ready is whether the Workspace became Ready. Then it is not watched.
	Ready bool
}

// workspace returns an Event on the Workspace, without its text.
func (r request) workspace() events.Event {
	return events.Event{Cluster: r.Parent, Object: events.Workspace(r.Name, r.UID, "")}
}

// afterwards returns the request for a Workspace that is Ready.
func (r request) afterwards() request {
	r.Shard, r.Ready = "", true
	return r
}

type queue = workqueue.TypedRateLimitingInterface[request]

// shardSource is a source of requests. It watches one kind of object in all logical clusters, with one informer for each shard, so a
// shard that does not answer delays only its own objects. Only trimmed objects are held in memory.
type shardSource struct {
	shards *Shards
	// urls returns the URLs of the virtual workspaces to watch, one for each shard.
	urls func(context.Context) (sets.Set[string], error)
	// list is an empty list of the kind. The source watches those objects of the kind that selector selects.
	list     client.ObjectList
	object   client.Object
	selector labels.Selector
	// trim returns the part of an object that is held in memory.
	trim func(client.Object) client.Object
	// requestFor returns the request for a trimmed object. check returns when the object is first handled.
	requestFor func(shard string, object client.Object) request
	check      func(client.Object) time.Time
	// due is when an object counts, nil if none does. It is not before check. There is a last request for an object that was due and is not
	// selected any more, because kcp may make a workspace Ready between two steps.
	due func(client.Object) time.Time
	// explain names the permission that a request to a shard needs.
	explain func(url string, err error) error

	mu        sync.RWMutex
	informers map[string]*shardInformer // by URL
}

// shardInformer watches one shard.
type shardInformer struct {
	cache.SharedIndexInformer
	stop context.CancelFunc
}

// initializingWorkspaces watches the Workspaces that are Initializing. Each is due once it counts as stuck. It is checked once before, to
// report what is missing.
func initializingWorkspaces(shards *Shards, after time.Duration) *shardSource {
	return &shardSource{
		informers: map[string]*shardInformer{},
		shards:    shards, urls: shards.workspaceURLs,
		object: &tenancyv1alpha1.Workspace{}, list: &tenancyv1alpha1.WorkspaceList{},
		selector: inPhase(corev1alpha1.LogicalClusterPhaseInitializing),
		trim: func(object client.Object) client.Object {
			trimmed := &tenancyv1alpha1.Workspace{ObjectMeta: trimMeta(object)}
			if ws, ok := object.(*tenancyv1alpha1.Workspace); ok && clusterOf(ws) != "" {
				trimmed.Spec.Cluster, trimmed.Spec.Type = clusterOf(ws).String(), ws.Spec.Type
			}
			return trimmed
		},
		requestFor: func(shard string, object client.Object) request {
			ws, _ := object.(*tenancyv1alpha1.Workspace)
			return requestForWorkspace(shard, ws)
		},
		check:   func(object client.Object) time.Time { return object.GetCreationTimestamp().Add(min(after, firstCheck)) },
		due:     func(object client.Object) time.Time { return object.GetCreationTimestamp().Add(after) },
		explain: explainList,
	}
}

// waitingLogicalClusters watches the LogicalClusters that wait for the initializer.
func waitingLogicalClusters(shards *Shards) *shardSource {
	return &shardSource{
		informers: map[string]*shardInformer{},
		shards:    shards, urls: shards.initializerURLs,
		object: &corev1alpha1.LogicalCluster{}, list: &corev1alpha1.LogicalClusterList{},
		selector: labels.Everything(),
		trim: func(object client.Object) client.Object {
			return &corev1alpha1.LogicalCluster{ObjectMeta: trimMeta(object)}
		},
		requestFor: func(shard string, object client.Object) request {
			cluster := logicalcluster.From(object)
			return request{Shard: shard, Parent: cluster, Name: object.GetName(), UID: object.GetUID(), Cluster: cluster}
		},
		check:   func(client.Object) time.Time { return time.Time{} },
		explain: explainInitializing,
	}
}

func requestForWorkspace(shard string, ws *tenancyv1alpha1.Workspace) request {
	req := request{Shard: shard, Parent: logicalcluster.From(ws), Name: ws.Name, UID: ws.UID, Cluster: clusterOf(ws)}
	if ws.Spec.Type != nil && req.Cluster != "" {
		req.Type = ws.Spec.Type.String()
	}
	return req
}

// clusterOf returns the logical cluster of a Workspace, "" as long as it has none. One with a mount never has one: kcp allows its author to
// write spec.cluster, and the label with the phase, and so to name the logical cluster of another tenant.
func clusterOf(ws *tenancyv1alpha1.Workspace) logicalcluster.Name {
	if ws.Spec.Mount != nil {
		return ""
	}
	return logicalcluster.Name(ws.Spec.Cluster)
}

func trimMeta(object client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		CreationTimestamp: object.GetCreationTimestamp(), DeletionTimestamp: object.GetDeletionTimestamp(),
		Annotations: map[string]string{logicalcluster.AnnotationKey: logicalcluster.From(object).String()},
	}
}

// Start watches until ctx ends. It does not block.
func (s *shardSource) Start(ctx context.Context, queue queue) error {
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := s.sync(ctx, queue); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Info("the shards could not be listed; trying again", "error", err.Error())
		}
	}, syncInterval)
	return nil
}

// sync begins to watch new shards and stops watching those that are gone.
func (s *shardSource) sync(ctx context.Context, queue queue) error {
	urls, err := s.urls(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for url, informer := range s.informers {
		if !urls.Has(url) {
			informer.stop()
			delete(s.informers, url)
		}
	}
	for url := range urls {
		if _, known := s.informers[url]; known {
			continue
		}
		informer, err := s.newInformer(ctx, url, queue)
		if err != nil {
			return err
		}
		s.informers[url] = informer
	}
	return nil
}

func (s *shardSource) newInformer(ctx context.Context, url string, queue queue) (*shardInformer, error) {
	c, err := s.shards.clientAt(url, logicalcluster.Wildcard)
	if err != nil {
		return nil, err
	}
	informer := &shardInformer{}
	logged := func(err error) error {
		if err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Info("a shard cannot be watched; trying again with exponential backoff", "error", s.explain(url, err).Error())
		}
		return err
	}
	// kcp's informer has keys with the logical cluster. Two logical clusters may have Workspaces of the same name.
	informer.SharedIndexInformer = kcpinformers.NewSharedIndexInformer(&cache.ListWatch{
		// An informer would read all at once: it accepts the state of the API server's cache, which has no pages.
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := listTrimmed(ctx, c, s.list, s.selector, s.trim)
			return list, logged(err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			list, _ := s.list.DeepCopyObject().(client.ObjectList)
			events, err := c.Watch(ctx, list, &client.ListOptions{Raw: &options, LabelSelector: s.selector})
			return events, logged(err)
		},
	}, s.object, 0, cache.Indexers{})
	err = errors.Join(
		informer.SetTransform(func(object any) (any, error) {
			if object, ok := object.(client.Object); ok {
				return s.trim(object), nil
			}
			return nil, fmt.Errorf("unexpected %T in a watch", object)
		}),
		informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})) // its requests have logged it
	if err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(s.handler(url, queue)); err != nil {
		return nil, err
	}
	ctx, informer.stop = context.WithCancel(ctx)
	go informer.RunWithContext(ctx)
	return informer, nil
}

// handler adds requests to a queue. Later changes of an object do not matter, as each step reads what it needs.
func (s *shardSource) handler(shard string, queue queue) cache.ResourceEventHandler {
	add := func(object any) {
		if object, ok := object.(client.Object); ok {
			queue.AddAfter(s.requestFor(shard, object), time.Until(s.check(object)))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: add,
		UpdateFunc: func(before, after any) {
			was, ok := before.(client.Object)
			is, isObject := after.(client.Object)
			if ok && isObject && s.requestFor(shard, was) != s.requestFor(shard, is) {
				add(after)
			}
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			left, ok := object.(client.Object)
			if !ok {
				return
			}
			req := s.requestFor(shard, left)
			queue.Add(req) // so that it is forgotten
			if s.due != nil && left.GetDeletionTimestamp() == nil && s.due(left).Before(time.Now()) {
				queue.Add(req.afterwards())
			}
		},
	}
}

// has reports whether the object of a request is still the same, and selected.
func (s *shardSource) has(req request) bool { return s.held(req) != nil }

// untilDue returns the time until the object of a request is due. It is not positive if the object is due, or not held.
func (s *shardSource) untilDue(req request) time.Duration {
	if object := s.held(req); object != nil {
		return time.Until(s.due(object))
	}
	return 0
}

// held returns the object of a request, or nil if it is not the same or not selected any more.
func (s *shardSource) held(req request) client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	informer, known := s.informers[req.Shard]
	if !known {
		return nil
	}
	object, found, err := informer.GetStore().GetByKey(kcpcache.ToClusterAwareKey(req.Parent.String(), "", req.Name))
	if err != nil || !found {
		return nil
	}
	held, ok := object.(client.Object)
	if !ok || held.GetDeletionTimestamp() != nil || s.requestFor(req.Shard, held) != req {
		return nil
	}
	return held
}

// countDue returns how many objects with a logical cluster are due.
func (s *shardSource) countDue() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	count, now := 0, time.Now()
	for shard, informer := range s.informers {
		for _, object := range informer.GetStore().List() {
			if held, ok := object.(client.Object); ok && s.requestFor(shard, held).Cluster != "" && s.due(held).Before(now) {
				count++
			}
		}
	}
	return count
}
