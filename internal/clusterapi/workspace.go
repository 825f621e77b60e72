package clusterapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/ownership"
)

// Workspaces contains the machines and clusters in the logical clusters of a kcp that bind a provider's APIExport. It watches
// nothing: each lookup sends requests to kcp.
type Workspaces struct {
	config  *rest.Config
	client  *http.Client
	options Options
	// ownerVersion and clusterVersion are the same as in reader.
	ownerVersion, clusterVersion versionHint
	// bound contains the bindings that were seen.
	bound *cache.LRUExpireCache
}

// binding identifies that a logical cluster binds a resource from an APIExport of a provider's.
type binding struct {
	cluster, provider logicalcluster.Name
	resource          schema.GroupResource
}

const (
	// boundFor is how long a binding is remembered, and maxBound how many are. Not binding is never remembered.
	boundFor, maxBound = time.Minute, 10_000
)

// NewWorkspaces returns the workspaces of the kcp of config. They share one HTTP client.
func NewWorkspaces(config *rest.Config, options Options) (*Workspaces, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // as in NewObjects
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("HTTP client for kcp: %w", err)
	}
	return &Workspaces{config: config, client: client, options: options, bound: cache.NewLRUExpireCache(maxBound)}, nil
}

// In returns the objects of one logical cluster. The name may come from a request. It is an error if the name is invalid.
func (w *Workspaces) In(cluster logicalcluster.Name) (*Workspace, error) {
	config, err := kcp.ConfigForName(w.config, cluster)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(config, w.client)
	if err != nil {
		return nil, fmt.Errorf("client for logical cluster %q: %w", cluster, err)
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	discovery, err := rest.UnversionedRESTClientForConfigAndClient(config, w.client)
	if err != nil {
		return nil, fmt.Errorf("client for logical cluster %q: %w", cluster, err)
	}
	return &Workspace{
		reader: reader{
			dynamic: dynamicClient, discovery: restDiscovery{discovery}, ownerVersion: &w.ownerVersion, clusterVersion: &w.clusterVersion,
			cloudSigma: w.options.cloudSigma(),
		},
		kinds: w.options.Kinds, cluster: cluster, bound: w.bound,
	}, nil
}

// Workspace contains the machines and clusters of one logical cluster. Only spec.userEmail specifies a user: kcp does not call the
// webhooks of an APIExport for Secrets, so no gate would check changes of a user in a Secret.
type Workspace struct {
	reader
	kinds   []Kind
	cluster logicalcluster.Name
	bound   *cache.LRUExpireCache
}

// Binds reports whether the logical cluster binds a resource from an APIExport of a provider's logical cluster. kcp writes both into the
// status of an APIBinding, and allows one APIBinding only for each resource.
func (w *Workspace) Binds(ctx context.Context, provider logicalcluster.Name, resource schema.GroupResource) (bool, error) {
	key := binding{cluster: w.cluster, provider: provider, resource: resource}
	if _, seen := w.bound.Get(key); seen {
		return true, nil
	}
	binds := false
	err := w.list(ctx, apisv1alpha1.SchemeGroupVersion.WithResource("apibindings"), "", metav1.ListOptions{}, func(object *unstructured.Unstructured) {
		if name, _, _ := unstructured.NestedString(object.Object, "status", "apiExportClusterName"); name != provider.String() {
			return
		}
		bound, _, _ := unstructured.NestedSlice(object.Object, "status", "boundResources")
		binds = binds || slices.ContainsFunc(bound, func(entry any) bool {
			fields, ok := entry.(map[string]any)
			return ok && fields["group"] == resource.Group && fields["resource"] == resource.Resource
		})
	})
	if err != nil {
		return false, fmt.Errorf("list APIBindings: %w", err)
	}
	if binds {
		w.bound.Add(key, nil, boundFor)
	}
	return binds, nil
}

// Account returns AccountNow, because nothing is watched.
func (w *Workspace) Account(ctx context.Context, cluster Cluster) (ownership.Account, error) {
	return w.AccountNow(ctx, cluster)
}

// IsCurrent is false, because nothing is watched.
func (*Workspace) IsCurrent(Cluster) bool { return false }

// Holder returns another machine of the logical cluster than the given one that names the instance, or nil if there is none. It
// lists the current machines. An error means that the holder is unknown.
func (w *Workspace) Holder(ctx context.Context, id string, other Machine, _ []inflight.Object, counts func(Machine) bool) (*Machine, error) {
	for _, kind := range w.kinds {
		if kind.Provider != other.Kind.Provider {
			continue
		}
		var holder *Machine
		err := w.list(ctx, kind.Resource(), "", metav1.ListOptions{}, func(object *unstructured.Unstructured) {
			machine, err := kind.Read(object)
			if holder != nil || err != nil || machine.is(other) || machine.SameServer(other) || !slices.Contains(machine.IDs(), id) || !counts(machine) {
				return // what cannot be read names no instance
			}
			holder = &machine
		})
		if apierrors.IsNotFound(err) && kind.Resource() != other.Kind.Resource() {
			if err = w.notInstalled(ctx, kind.Resource()); err == nil {
				continue // this workspace does not bind the kind
			}
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource().GroupResource(), err)
		}
		if holder != nil {
			return holder, nil
		}
	}
	return nil, nil
}

// Synced returns nil, because nothing is watched.
func (*Workspace) Synced() error { return nil }
