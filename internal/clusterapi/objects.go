package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
)

// Indexes of watched objects.
const (
	// indexInstance finds machines by the UUIDs of their instances.
	indexInstance = "instance"
	// indexUserSecret finds clusters by the namespace/name of the Secret with their user.
	indexUserSecret = "userSecret"
	// indexDependency finds machines by their cluster and their owner.
	indexDependency = "dependency"
)

// Objects contains the machines and clusters of an API server. It watches them, so that most lookups need no request.
type Objects struct {
	reader
	machines []*watched // same order as kinds
	clusters map[v1beta1.Provider]*watched
	// owners contains the names and labels of the Machines of Cluster API. It is nil if no machines are watched.
	owners *watched
}

// Options select the objects to read.
type Options struct {
	// Kinds are the kinds of machines.
	Kinds []Kind
	// ClustersOnly is true to watch only the clusters of these kinds, and no machines.
	ClustersOnly bool
	// SharedAccount is true if one account is used for CloudSigma's clusters that name no user or have no object (legacy credentials).
	// SharedByAll is true if it is used for all clusters, also for those that name a user.
	SharedAccount, SharedByAll bool
	// DefaultRegion is the region of CloudSigma's clusters that name none. Regions are the allowed ones; by default, all valid ones are.
	DefaultRegion string
	Regions       []string
	// ExemptNamespaces are namespaces whose Secrets are not checked.
	ExemptNamespaces []string
}

// NewObjects returns the objects of the API server of config. Start starts the watches. It is an error if this is a workspace of kcp, where the kinds
// can be the tenant's own: see Workspace and Exports.
func NewObjects(config *rest.Config, options Options) (*Objects, error) {
	if kcp.IsWorkspace(config) {
		return nil, fmt.Errorf("%s is a workspace of kcp, where a tenant can have machines and clusters that are not the provider's: this is for Kubernetes API "+
			"servers; on kcp, see the Events of the machine, and the findings of the audit (audit.providers)", config.Host)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server limits requests itself; a client limit would only delay admissions
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for machines: %w", err)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for secrets: %w", err)
	}
	return newObjects(dynamicClient, restDiscovery{core.RESTClient()}, core, options)
}

func newObjects(
	dynamicClient dynamic.Interface, discovery discoverer, secrets corev1client.SecretsGetter, options Options,
) (_ *Objects, err error) {
	o := &Objects{
		reader: reader{
			dynamic: dynamicClient, discovery: discovery, ownerVersion: &versionHint{}, clusterVersion: &versionHint{},
			secrets: secrets, cloudSigma: options.cloudSigma(), exempt: options.ExemptNamespaces,
		},
		clusters: map[v1beta1.Provider]*watched{},
	}
	for provider, kind := range clusterKindsOf(machineKinds(options.Kinds)) {
		indexers := cache.Indexers{}
		if provider == v1beta1.ProviderCloudSigma {
			indexers[indexUserSecret] = userSecretOf
		}
		if o.clusters[provider], err = newWatched(&o.reader, kind.resource, kind.essentialsOf, indexers); err != nil {
			return nil, err
		}
	}
	if options.ClustersOnly {
		return o, nil
	}
	o.kinds = options.Kinds
	for _, kind := range o.kinds {
		machines, err := newWatched(&o.reader, kind.Resource(), kind.essentials, cache.Indexers{
			indexInstance: kind.instancesOf, indexDependency: kind.dependencies,
		})
		if err != nil {
			return nil, err
		}
		o.machines = append(o.machines, machines)
	}
	labels := func(object any) (any, error) { return keep(object) }
	if o.owners, err = newWatched(&o.reader, OwnerMachines.WithVersion(""), labels, cache.Indexers{}); err != nil {
		return nil, err
	}
	return o, nil
}

func machineKinds(kinds []Kind) []v1beta1.MachineKind {
	plain := make([]v1beta1.MachineKind, 0, len(kinds))
	for _, kind := range kinds {
		plain = append(plain, kind.MachineKind)
	}
	return plain
}

// Start watches the objects until ctx ends.
func (o *Objects) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for _, w := range o.all() {
		running.Go(func() { w.informer.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

func (o *Objects) all() []*watched {
	all := slices.Clone(o.machines)
	if o.owners != nil {
		all = append(all, o.owners)
	}
	for _, provider := range slices.Sorted(maps.Keys(o.clusters)) {
		all = append(all, o.clusters[provider])
	}
	return all
}

// Synced returns an error while objects are unknown. Resources that the API server does not serve have no objects. It is an error
// if only another version is served, or if a watch has been broken for more than 30 seconds.
func (o *Objects) Synced() error {
	var missing []error
	for _, w := range o.all() {
		missing = append(missing, w.synced())
	}
	return errors.Join(missing...)
}

// Holder returns another machine than the given one that names the instance and counts, or nil if there is none. It checks the current
// state of the machines that were last seen with the instance. An error means that the holder is unknown.
func (o *Objects) Holder(ctx context.Context, id string, other Machine, counts func(Machine) bool) (*Machine, error) {
	for i, kind := range o.kinds {
		if kind.Provider != other.Kind.Provider {
			continue
		}
		if err := o.machines[i].synced(); err != nil {
			return nil, err
		}
		for _, object := range o.machines[i].byIndexWithout(indexInstance, id, other.ownsAll) {
			seen := kind.metadataOf(object)
			if seen.is(other) || seen.SameServer(other) {
				continue
			}
			// The last seen state may be old, and the machine may no longer name the ID.
			holder, err := o.holds(ctx, kind, types.NamespacedName{Namespace: seen.Namespace, Name: seen.Name}, id)
			if err != nil || holder != nil && counts(*holder) {
				return holder, err
			}
		}
	}
	return nil, nil
}

// holds returns a machine if it names the instance now.
func (o *Objects) holds(ctx context.Context, kind Kind, machine types.NamespacedName, id string) (*Machine, error) {
	object, err := o.get(ctx, kind.Resource(), machine.Namespace, machine.Name)
	if apierrors.IsNotFound(err) {
		_, err := o.installed(ctx, kind.Resource())
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %q: %w", kind.Kind, machine.Name, err)
	}
	holder, err := kind.Read(object)
	if err != nil || !slices.Contains(holder.IDs(), id) {
		return nil, nil //nolint:nilerr // a machine that cannot be read names no instance
	}
	return &holder, nil
}

// Machines yields all machines in their last seen state.
func (o *Objects) Machines() iter.Seq[Machine] {
	return func(yield func(Machine) bool) {
		for i, kind := range o.kinds {
			for _, object := range o.machines[i].list() {
				if machine, err := kind.Read(object); err == nil && !yield(machine) {
					return
				}
			}
		}
	}
}

// commandPage is the number of objects that MachinesNow reads with one request.
const commandPage = 500

// MachinesNow returns the current machines of a kind in a namespace, or in all if it is "", without the fields that the audit does not compare.
// There are none if the kind is not installed. It is for commands, whose memory no tenant shares.
func (o *Objects) MachinesNow(ctx context.Context, kind Kind, namespace string) ([]Machine, error) {
	var machines []Machine
	for options := (metav1.ListOptions{Limit: commandPage}); ; {
		page, err := o.dynamic.Resource(kind.Resource()).Namespace(namespace).List(ctx, options)
		switch {
		case apierrors.IsNotFound(err):
			return nil, o.notInstalled(ctx, kind.Resource())
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", kind.Resource().GroupResource(), err)
		}
		for i := range page.Items {
			if machine, err := kind.Read(&page.Items[i]); err == nil { // what cannot be read names no instance
				kept := machine.small()
				kept.Identity = machine.Identity
				machines = append(machines, kept)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return machines, nil
		}
	}
}

// Clusters yields all clusters in their last seen state, with references to their objects.
func (o *Objects) Clusters() iter.Seq2[Cluster, corev1.ObjectReference] {
	return func(yield func(Cluster, corev1.ObjectReference) bool) {
		for provider, kind := range clusterKinds {
			clusters, watched := o.clusters[provider]
			if !watched {
				continue
			}
			for _, object := range clusters.list() {
				cluster := Cluster{Provider: provider, Namespace: object.GetNamespace(), Name: kind.clusterName(object)}
				if !yield(cluster, reference(object)) {
					return
				}
			}
		}
	}
}

func reference(object *unstructured.Unstructured) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}
