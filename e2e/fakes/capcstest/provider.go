package capcstest

import (
	"context"
	"fmt"
	"sync"
	"time"

	cloudsigma "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

var (
	machineKind = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaMachine"}
	clusterKind = machineKind.GroupVersion().WithKind("CloudSigmaCluster")
	ownerKind   = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}
)

// clusterLabel is the label of Cluster API's objects with the name of their cluster.
const clusterLabel = "cluster.x-k8s.io/cluster-name"

// Options configure a provider.
type Options struct {
	// Cloud is where it creates servers.
	Cloud *cloudsigmatest.Cloud
	// Account is the service account with which it impersonates users. The zero value means no impersonation.
	Account cloudsigmatest.Client
	// Username and Password are those of the legacy account. They are enabled if they are set, also beside Account.
	Username, Password string
	// Region is the region of clusters without one, CLOUDSIGMA_REGION of the real provider. Default: zrh.
	Region string
	// Shorten is the number by which all times of the real provider are divided. Default: 100.
	Shorten int
	// Created is called after the provider created a server, and before it writes the server's UUID.
	Created func(machine client.ObjectKey, server string)
}

// Provider is a running provider, or one whose Reconcile is called by a test.
type Provider struct {
	options Options
	objects client.Client
	tokens  *tokens
	record  *record
	stop    func() error
}

var _ reconcile.Reconciler = (*Provider)(nil)

// New returns a provider that does not run.
func New(objects client.Client, options Options) *Provider {
	if options.Region == "" {
		options.Region = "zrh"
	}
	if options.Shorten == 0 {
		options.Shorten = 100
	}
	return &Provider{options: options, objects: objects, tokens: newTokens(options.Cloud, options.Account), record: newRecord()}
}

// Start runs a provider until Stop. It reconciles the machines of one namespace, one after the other as the real provider, as the user
// of config. That user needs the permissions that Install grants.
func Start(ctx context.Context, config *rest.Config, namespace string, options Options) (*Provider, error) {
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	p := New(objects, options)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
		Logger:  logr.Discard(),
	})
	if err != nil {
		return nil, err
	}
	machines := &unstructured.Unstructured{}
	machines.SetGroupVersionKind(machineKind)
	err = ctrl.NewControllerManagedBy(manager).For(machines).Named("capcs").WithOptions(controller.Options{
		MaxConcurrentReconciles: 1,
		UsePriorityQueue:        ptr.To(false), // nor has the controller-runtime of the real provider one
		SkipNameValidation:      ptr.To(true),  // several providers can run in one process
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			5*time.Millisecond, maxBackoff/time.Duration(p.options.Shorten)),
	}).Complete(p)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	return p, nil
}

// Stop ends a running provider, and returns when it has ended. It can be called more than once.
func (p *Provider) Stop() error { return p.stop() }

// after returns a time of the real provider, shortened.
func (p *Provider) after(wait time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: wait / time.Duration(p.options.Shorten)}
}

// apply makes the writes of an event. If one fails that is not ignored, it returns false and when to reconcile the machine again.
func (p *Provider) apply(
	ctx context.Context, after event, machine *unstructured.Unstructured, server *cloudsigma.Server,
) (result reconcile.Result, ok bool, err error) {
	for _, w := range writes[after] {
		if !w.change(machine, server) {
			continue
		}
		if w.to == status {
			err = p.objects.Status().Update(ctx, machine)
		} else {
			err = p.objects.Update(ctx, machine)
		}
		if err == nil || ctx.Err() == nil { // Stop cancels the last write
			p.record.wrote(machine, w.to, err)
		}
		switch {
		case err == nil || w.failed == ignored:
		case w.failed == backoff:
			return reconcile.Result{}, false, fmt.Errorf("update machine: %w", err)
		default:
			return p.after(w.failed), false, nil
		}
	}
	return reconcile.Result{}, true, nil
}
