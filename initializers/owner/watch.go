package owner

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	kcpinformers "github.com/kcp-dev/apimachinery/v2/third_party/informers"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Watcher watches the Workspaces that are Initializing, on all shards, each by itself: a shard that does not answer keeps
// nobody from seeing the others. What is Ready is not held, so that memory grows with what hangs only.
//
// Several goroutines may go over the Workspaces at once, but not while another follows the shards.
type Watcher struct {
	finder *Finder
	shards map[string]*shardWatch // by the URL of the virtual workspace
}

// shardWatch is what is known of one shard.
type shardWatch struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	// failure is why the last request failed. It points to nil if it did not.
	failure atomic.Pointer[error]
}

// NewWatcher returns a watcher of the kcp that finder looks at. It watches nothing before Follow.
func NewWatcher(finder *Finder) *Watcher {
	return &Watcher{finder: finder, shards: map[string]*shardWatch{}}
}

// Follow begins to watch the shards that are new, until ctx ends, and forgets those that are gone. If they cannot be
// told, it stays with those that it knows.
func (w *Watcher) Follow(ctx context.Context) error {
	urls, err := w.finder.shards(ctx)
	if err != nil {
		return err
	}
	for url, shard := range w.shards {
		if !urls.Has(url) {
			shard.stop()
			delete(w.shards, url)
		}
	}
	for url := range urls {
		if _, known := w.shards[url]; known {
			continue
		}
		c, err := wildcardClient(w.finder.config, url)
		if err != nil {
			return err
		}
		w.shards[url] = watchShard(ctx, url, c)
	}
	return nil
}

// Workspaces yields the Workspaces that are Initializing and were made before a time, as they were last seen. A shard that
// did not answer last yields an error too.
func (w *Watcher) Workspaces(before time.Time) iter.Seq2[*tenancyv1alpha1.Workspace, error] {
	return func(yield func(*tenancyv1alpha1.Workspace, error) bool) {
		for _, shard := range w.shards {
			if failure := shard.failure.Load(); failure != nil && *failure != nil && !yield(nil, *failure) {
				return
			}
			for _, object := range shard.informer.GetStore().List() {
				ws, ok := object.(*tenancyv1alpha1.Workspace)
				if ok && ws.CreationTimestamp.Time.Before(before) && !yield(ws, nil) {
					return
				}
			}
		}
	}
}

func watchShard(ctx context.Context, url string, c client.WithWatch) *shardWatch {
	shard := &shardWatch{}
	note := func(err error) error {
		err = explainFinding(url, err)
		shard.failure.Store(&err)
		return err
	}
	selected := func(options metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{Raw: &options, LabelSelector: ofPhase(corev1alpha1.LogicalClusterPhaseInitializing).AsSelector()}
	}
	// Of kcp's kind, because its keys hold the logical cluster: in two of them Workspaces may have the same name.
	shard.informer = kcpinformers.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &tenancyv1alpha1.WorkspaceList{}
			return list, note(c.List(ctx, list, selected(options)))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := c.Watch(ctx, &tenancyv1alpha1.WorkspaceList{}, selected(options))
			return events, note(err)
		},
	}, &tenancyv1alpha1.Workspace{}, 0, cache.Indexers{})
	// Each fails only on an informer that runs.
	_ = shard.informer.SetTransform(essentials)
	_ = shard.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		logf.FromContext(ctx).V(1).Info("watch the workspaces that are initializing", "shard", url, "error", err.Error())
	})
	ctx, shard.stop = context.WithCancel(ctx)
	go shard.informer.RunWithContext(ctx)
	return shard
}

// essentials is what is kept in mind of a Workspace, a small part of it.
func essentials(object any) (any, error) {
	ws, ok := object.(*tenancyv1alpha1.Workspace)
	if !ok {
		return nil, fmt.Errorf("what came is no Workspace but %T", object)
	}
	return &tenancyv1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{
			Name: ws.Name, UID: ws.UID, ResourceVersion: ws.ResourceVersion,
			CreationTimestamp: ws.CreationTimestamp, DeletionTimestamp: ws.DeletionTimestamp,
			Annotations: map[string]string{logicalcluster.AnnotationKey: logicalcluster.From(ws).String()},
		},
		Spec: tenancyv1alpha1.WorkspaceSpec{Cluster: ws.Spec.Cluster},
	}, nil
}
