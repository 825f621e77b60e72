package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/kcp"
)

// KindNotBound means that a workspace of kcp has the objects of a kind from elsewhere, or not at all, and not from an APIExport of the provider.
const KindNotBound Reason = "KindNotBound"

// Workspaces contains the machines and clusters in the logical clusters of a kcp that bind a provider's APIExport. It watches
// nothing: each lookup sends requests to kcp.
type Workspaces struct {
	config  *rest.Config
	client  *http.Client
	clients kcp.Clients
	options Options
	// ownerVersion and clusterVersion are the same as in reader.
	ownerVersion, clusterVersion versionHint
	// places contains the places that were found.
	places *cache.LRUExpireCache
}

// binding identifies the objects of a resource that a logical cluster has from the APIExports of a provider's logical cluster.
type binding struct {
	cluster, provider logicalcluster.Name
	resource          schema.GroupResource
}

const (
	// placedFor is how long a place is remembered, and maxPlaces how many are. That there is none is never remembered.
	placedFor, maxPlaces = time.Minute, 10_000
	// inWorkspace is the place of objects that no APIExport of the provider has, so that the provider's controllers find them only in the
	// workspace itself.
	inWorkspace = ""
)

// notOfProviders are the resources that a workspace may have from elsewhere. What is read there can only lead to a denial or a warning.
var notOfProviders = sets.New(OwnerMachines, KdcClusters.GroupResource())

// NewWorkspaces returns the workspaces of the kcp of config. They share one HTTP client.
func NewWorkspaces(config *rest.Config, options Options) (*Workspaces, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // as in NewObjects
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("HTTP client for kcp: %w", err)
	}
	clients, err := kcp.NewClients(config)
	if err != nil {
		return nil, err
	}
	return &Workspaces{config: config, client: client, clients: clients, options: options, places: cache.NewLRUExpireCache(maxPlaces)}, nil
}

// In returns the objects of one logical cluster that has them from the APIExports of a provider's logical cluster. The names may come from a
// request. It is an error if that of the logical cluster is invalid.
func (w *Workspaces) In(cluster, provider logicalcluster.Name) (*Workspace, error) {
	config, err := kcp.ConfigForName(w.config, cluster)
	if err != nil {
		return nil, err
	}
	at, discovery, err := w.at(config.Host)
	if err != nil {
		return nil, fmt.Errorf("client for logical cluster %q: %w", cluster, err)
	}
	in := &Workspace{
		reader: reader{
			dynamic: at, discovery: discovery, ownerVersion: &w.ownerVersion, clusterVersion: &w.clusterVersion, cloudSigma: w.options.cloudSigma(),
			kinds: w.options.Kinds,
		},
		workspaces: w, cluster: cluster, provider: provider,
	}
	in.through = in.clientFor
	return in, nil
}

// at returns clients for a URL.
func (w *Workspaces) at(url string) (dynamic.Interface, discoverer, error) {
	config := rest.CopyConfig(w.config)
	config.Host = url
	objects, err := dynamic.NewForConfigAndClient(config, w.client)
	if err != nil {
		return nil, nil, err
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	discovery, err := rest.UnversionedRESTClientForConfigAndClient(config, w.client)
	return objects, restDiscovery{discovery}, err
}

// Workspace contains the machines and clusters of one logical cluster that come from a provider.
//
// The tenant can create kinds of the same names, and kcp does not bind a kind of an APIExport over one that is there already. No webhook of the
// provider is called for a tenant's own kind. So the objects of kinds that the provider exports are read through the virtual workspaces of its
// APIExports, which have only the objects that are bound from there. Nothing that the tenant can write decides where they are read.
//
// Only spec.userEmail specifies a user: kcp does not call the webhooks of an APIExport for Secrets, so no gate would check changes of a user
// in a Secret.
type Workspace struct {
	reader
	workspaces        *Workspaces
	cluster, provider logicalcluster.Name
}

// Binds reports whether the logical cluster has the objects of a resource from an APIExport of the provider.
func (w *Workspace) Binds(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	place, _, err := w.place(ctx, resource)
	if isNotBound(err) {
		return false, nil
	}
	return place != inWorkspace, err
}

// isNotBound reports whether a logical cluster has no objects of a resource from the provider.
func isNotBound(err error) bool {
	accountErr, ok := errors.AsType[*AccountError](err)
	return ok && accountErr.Reason == KindNotBound
}

// clientFor implements reader.through.
func (w *Workspace) clientFor(ctx context.Context, resource schema.GroupVersionResource) (at dynamic.Interface, forget func(), err error) {
	place, forget, err := w.place(ctx, resource)
	if err != nil {
		return nil, nil, err
	}
	if place == inWorkspace {
		return w.dynamic, nil, nil
	}
	at, _, err = w.workspaces.at(place)
	return at, forget, err
}

// place returns where the objects of a resource are read: the URL of a virtual workspace, or inWorkspace. forget is nil if the place was looked
// up now. The error is an *AccountError if they are not bound from the provider.
func (w *Workspace) place(ctx context.Context, resource schema.GroupVersionResource) (place string, forget func(), err error) {
	places, key := w.workspaces.places, binding{cluster: w.cluster, provider: w.provider, resource: resource.GroupResource()}
	if known, found := places.Get(key); found {
		place, _ = known.(string) // nothing else is stored
		return place, func() { places.Remove(key) }, nil
	}
	if place, err = w.find(ctx, resource); err != nil {
		return "", nil, err
	}
	places.Add(key, place, placedFor)
	return place, nil, nil
}

func (w *Workspace) find(ctx context.Context, resource schema.GroupVersionResource) (string, error) {
	inProvider, err := w.workspaces.clients(w.provider.Path())
	if err != nil {
		return "", err
	}
	exports, err := ExportsOf(ctx, inProvider, func(exported schema.GroupResource) bool { return exported == resource.GroupResource() })
	if err != nil {
		return "", fmt.Errorf("list the APIExports of the provider: %w", err)
	}
	notBound := accountErrorf(KindNotBound, "%s of this workspace do not come from an APIExport of the provider, logical cluster %q; remove the APIBinding or "+
		"CustomResourceDefinition that they come from, and bind the provider's", resource.GroupResource(), w.provider)
	switch {
	case len(exports) == 0 && notOfProviders.Has(resource.GroupResource()):
		return inWorkspace, nil
	case len(exports) == 0:
		return "", notBound
	}
	root, err := w.workspaces.clients(kcp.Root)
	if err != nil {
		return "", err
	}
	shards, err := kcp.Shards(ctx, root)
	if err != nil {
		return "", err
	}
	var urls []string
	for _, export := range exports {
		for _, shard := range sets.List(shards) {
			url, err := kcp.ExportURL(shard, w.provider, export, w.cluster.Path())
			if err != nil {
				return "", err
			}
			urls = append(urls, url)
		}
	}
	url, found, err := kcp.FirstShard(ctx, urls, func(ctx context.Context, url string) (string, bool, error) {
		bound, err := w.isBoundAt(ctx, url, resource)
		return url, bound, err
	})
	if found || err != nil {
		return url, err
	}
	// A workspace that requires groups denies the requests of a virtual workspace, too.
	if _, err := w.discovery.versions(ctx, resource.GroupResource()); err != nil {
		return "", err
	}
	return "", notBound
}

// isBoundAt reports whether a virtual workspace of an APIExport has the objects of a resource of the logical cluster. It has none on the shards
// without the logical cluster.
func (w *Workspace) isBoundAt(ctx context.Context, url string, resource schema.GroupVersionResource) (bool, error) {
	objects, discovery, err := w.workspaces.at(url)
	if err != nil {
		return false, err
	}
	_, err = objects.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err == nil || !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	// Discovery needs the same permission as the list, but no binding.
	served, err := discovery.versions(ctx, resource.GroupResource())
	switch {
	case err != nil:
		return false, err
	case len(served) == 0:
		return false, fmt.Errorf("its virtual workspace does not serve %s yet", resource.GroupResource())
	case !slices.Contains(served, resource.Version):
		return false, &VersionError{Resource: resource, Served: served}
	}
	return false, nil
}

// Holder returns another machine of the logical cluster than the given one that names the instance, or nil if there is none. It
// lists the current machines. An error means that the holder is unknown.
func (w *Workspace) Holder(ctx context.Context, id string, other Machine, counts func(Machine) bool) (*Machine, error) {
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
		switch {
		case isNotBound(err) && kind.Resource() != other.Kind.Resource(): // the provider has no machines of the kind here
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", kind.Resource().GroupResource(), err)
		case holder != nil:
			return holder, nil
		}
	}
	return nil, nil
}
