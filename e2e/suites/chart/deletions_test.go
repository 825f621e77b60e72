//go:build e2e

package chart_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deletions are the deleted objects of the release.
type deletions struct {
	mu    sync.Mutex
	found []deletion
}

// deletion is the deletion of an object. With one etcd, the order of revisions is the order of time.
type deletion struct {
	what     string
	revision uint64
}

// watchDeletions watches kinds until the spec ends.
func (w *world) watchDeletions(ctx context.Context, lists ...client.ObjectList) *deletions {
	GinkgoHelper()
	watcher, err := client.NewWithWatch(api.Config(), client.Options{})
	Expect(err).NotTo(HaveOccurred())
	d := &deletions{}
	for _, list := range lists {
		watched, err := watcher.Watch(ctx, list)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(watched.Stop)
		go func() {
			for event := range watched.ResultChan() {
				if event.Type == watch.Deleted {
					d.add(event.Object)
				}
			}
		}()
	}
	return d
}

func (d *deletions) add(object runtime.Object) {
	named, ok := object.(client.Object)
	if !ok || named.GetName() != release {
		return
	}
	revision, err := strconv.ParseUint(named.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = append(d.found, deletion{what: describe(object), revision: revision})
}

func describe(object runtime.Object) string {
	switch typed := object.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		if len(typed.Webhooks) == 0 {
			return "no webhooks"
		}
		return "webhooks"
	case *corev1.Service:
		return "service"
	case *appsv1.Deployment:
		return "deployment"
	default:
		return "something else"
	}
}

// inOrder returns the deleted objects in the order of their deletion.
func (d *deletions) inOrder() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.SortFunc(d.found, func(a, b deletion) int { return cmp.Compare(a.revision, b.revision) })
	found := make([]string, 0, len(d.found))
	for _, one := range d.found {
		found = append(found, one.what)
	}
	return found
}
