package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

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
	"warrantgate.dev/internal/inflight"
)

// Indexes of what is watched.
const (
	// indexInstance finds machines by the UUIDs that they name.
	indexInstance = "instance"
	// indexCluster finds cluster objects by the namespace/name of the Cluster that they are of.
	indexCluster = "cluster"
	// indexUserSecret finds clusters by the Secret, namespace/name, that names their user.
	indexUserSecret = "userSecret"
)

// Objects are the machines and clusters of an API server. They are watched, so that a question about one costs no request
// as long as it is as it was last seen.
type Objects struct {
	reader
	kinds    []Kind
	machines []*watched // by the index of kinds
	clusters map[v1beta1.Provider]*watched
	// owners are the Machines of Cluster API, of which only names and labels are kept. It is nil where no machines are watched.
	owners *watched
}

// Options say what is to be read.
type Options struct {
	// Kinds are the kinds of machines.
	Kinds []Kind
	// ClustersOnly is true where only the clusters of these kinds are to be watched, and no machines.
	ClustersOnly bool
	// SharedAccount is true where one account stands for all clusters that name no user.
	SharedAccount bool
	// ExemptNamespaces are namespaces whose Secrets are not checked.
	ExemptNamespaces []string
}

// NewObjects returns the objects of the API server that config reaches. They are seen once Start runs.
func NewObjects(config *rest.Config, options Options) (*Objects, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server has its own fairness; ours would make an admission wait
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
			secrets: secrets, sharedAccount: options.SharedAccount, exempt: options.ExemptNamespaces,
		},
		clusters: map[v1beta1.Provider]*watched{},
	}
	for provider, kind := range clusterKindsOf(machineKinds(options.Kinds)) {
		indexers := cache.Indexers{indexCluster: kind.clusterOf}
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
		machines, err := newWatched(&o.reader, kind.Resource(), kind.essentials, cache.Indexers{indexInstance: kind.instancesOf})
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
	done := make(chan struct{})
	all := o.all()
	for _, w := range all {
		go func() {
			w.informer.RunWithContext(ctx)
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
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

// Synced returns why not all objects are known, nil if they are. Kinds that the API server does not serve have no objects;
// it is an error if it serves them in another version only, or if a watch has been broken for longer than half a minute.
func (o *Objects) Synced() error {
	var missing []error
	for _, w := range o.all() {
		missing = append(missing, w.synced())
	}
	return errors.Join(missing...)
}

// Holder returns a machine other than the given one that names the instance, nil if there is none: of those that were last seen to
// name it, and of also, each as it is now. The error says that it cannot be told.
func (o *Objects) Holder(ctx context.Context, id string, other Machine, also []inflight.Object) (*Machine, error) {
	for i, kind := range o.kinds {
		if kind.Provider != other.Kind.Provider {
			continue
		}
		if err := o.machines[i].synced(); err != nil {
			return nil, err
		}
		var candidates []types.NamespacedName
		for _, object := range o.machines[i].byIndex(indexInstance, id) {
			candidates = append(candidates, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
		}
		for _, object := range also {
			if object.Resource == kind.Resource() {
				candidates = append(candidates, types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
			}
		}
		for _, candidate := range candidates {
			seen := Machine{Kind: kind, ObjectMeta: metav1.ObjectMeta{Namespace: candidate.Namespace, Name: candidate.Name}}
			if seen.is(other) || seen.SameServer(other) {
				continue
			}
			// What was seen may be a moment old, and the ID have been given up since.
			holder, err := o.holds(ctx, kind, candidate, id)
			if err != nil || holder != nil {
				return holder, err
			}
		}
	}
	return nil, nil
}

// holds returns a machine if it names the instance now.
func (o *Objects) holds(ctx context.Context, kind Kind, machine types.NamespacedName, id string) (*Machine, error) {
	object, err := o.dynamic.Resource(kind.Resource()).Namespace(machine.Namespace).Get(ctx, machine.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err := o.installed(ctx, kind.Resource())
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %q: %w", kind.Kind, machine.Name, err)
	}
	holder, err := kind.Read(object)
	if err != nil || !slices.Contains(holder.IDs(), id) {
		return nil, nil //nolint:nilerr // what cannot be read names no instance
	}
	return &holder, nil
}

// Machines yields all machines as they were last seen.
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

// Clusters yields all clusters as they were last seen, each with a reference to its object.
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
