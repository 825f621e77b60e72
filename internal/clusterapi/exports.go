package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/ownership"
)

const (
	// exportPageTimeout limits how long a shard may take to return a page of pageSize objects.
	exportPageTimeout = 30 * time.Second
	// ownersTimeout limits the requests to one workspace for the Machines that own its machines. Their kind is the tenant's: a
	// conversion webhook of the tenant can delay each request.
	ownersTimeout = 10 * time.Second
)

// Export is an APIExport of a provider on kcp.
type Export struct {
	// Workspace is the path or the logical cluster of the workspace with the APIExport.
	Workspace logicalcluster.Path
	// Name is the name of the APIExport.
	Name string
}

func (e Export) String() string {
	return fmt.Sprintf("APIExport %q of workspace %s", e.Name, e.Workspace)
}

// Exports contains the machines and clusters in all workspaces of a kcp that bind APIExports of providers. It watches nothing. Refresh
// reads all objects, through the virtual workspaces of the APIExports. The other methods use what it read last.
//
// Objects of two workspaces may have the same namespace and name. Machine.LogicalCluster and Cluster.LogicalCluster distinguish them.
type Exports struct {
	config     *rest.Config
	client     *http.Client
	workspaces *Workspaces
	options    Options
	exports    []Export
	// refreshing is held by Refresh: otherwise an older read could replace a newer one.
	refreshing sync.Mutex
	read       atomic.Pointer[exported]
}

// exported is what Refresh read.
type exported struct {
	machines []Machine
	// clusters are the cluster objects, with the fields in use.
	clusters map[Cluster]*unstructured.Unstructured
	// owners are the workspaces whose Machines of Cluster API were read, by their logical cluster and the provider of the machines.
	owners map[[2]logicalcluster.Name]*ownersOf
	mu     sync.Mutex // for owners
}

// NewExports returns the objects of APIExports of the kcp of config.
func NewExports(config *rest.Config, exports []Export, options Options) (*Exports, error) {
	workspaces, err := NewWorkspaces(config, options)
	if err != nil {
		return nil, err
	}
	e := &Exports{config: workspaces.config, client: workspaces.client, workspaces: workspaces, options: options, exports: exports}
	e.read.Store(&exported{})
	return e, nil
}

// Refresh reads all objects. If a part of them cannot be read, it returns an error, and the other methods use the state from before:
// with a part of the machines, servers of the others would seem to be orphans. One call runs at a time.
func (e *Exports) Refresh(ctx context.Context) error {
	e.refreshing.Lock()
	defer e.refreshing.Unlock()
	read := &exported{clusters: map[Cluster]*unstructured.Unstructured{}, owners: map[[2]logicalcluster.Name]*ownersOf{}}
	for _, export := range e.exports {
		if err := e.readExport(ctx, export, read); err != nil {
			return fmt.Errorf("%s: %w", export, err)
		}
	}
	e.read.Store(read)
	return nil
}

func (e *Exports) readExport(ctx context.Context, export Export, into *exported) error {
	found, err := e.find(ctx, export)
	if err != nil {
		return err
	}
	for _, url := range found.urls {
		config := rest.CopyConfig(e.config)
		config.Host = url
		shard, err := dynamic.NewForConfigAndClient(config, e.client)
		if err != nil {
			return fmt.Errorf("client for %s: %w", url, err)
		}
		// Machines before clusters: a cluster that is created in between together with its machines is not missing.
		for _, kind := range e.options.Kinds {
			if !found.resources[kind.Resource().GroupResource()] {
				continue
			}
			if err := list(ctx, shard.Resource(kind.Resource()), func(in logicalcluster.Name, object *unstructured.Unstructured) error {
				return into.addMachine(in, found.home, kind, object)
			}); err != nil {
				return fmt.Errorf("list %s at %s: %w", kind.Resource().GroupResource(), url, err)
			}
		}
		for provider, kind := range clusterKindsOf(machineKinds(e.options.Kinds)) {
			if !found.resources[kind.resource.GroupResource()] {
				continue
			}
			if err := list(ctx, shard.Resource(kind.resource), func(in logicalcluster.Name, object *unstructured.Unstructured) error {
				return into.addCluster(Cluster{LogicalCluster: in, Exporter: found.home, Provider: provider}, kind, object)
			}); err != nil {
				return fmt.Errorf("list %s at %s: %w", kind.resource.GroupResource(), url, err)
			}
		}
	}
	return nil
}

// location says where the objects of an APIExport are.
type location struct {
	// home is the logical cluster of the APIExport.
	home logicalcluster.Name
	// urls are those of the virtual workspaces with its objects.
	urls      []string
	resources map[schema.GroupResource]bool
}

func (e *Exports) find(ctx context.Context, export Export) (location, error) {
	ctx, cancel := context.WithTimeout(ctx, exportPageTimeout)
	defer cancel()
	inProvider, err := e.workspaces.clients(export.Workspace)
	if err != nil {
		return location{}, err
	}
	root, err := e.workspaces.clients(kcp.Root)
	if err != nil {
		return location{}, err
	}
	var found apisv1alpha2.APIExport
	if err := inProvider.Get(ctx, client.ObjectKey{Name: export.Name}, &found); err != nil {
		return location{}, err
	}
	home := logicalcluster.From(&found)
	urls, err := kcp.ExportURLs(ctx, root, inProvider, home, found.Name)
	if err != nil {
		return location{}, err
	}
	resources := map[schema.GroupResource]bool{}
	for _, resource := range found.Spec.Resources {
		resources[schema.GroupResource{Group: resource.Group, Resource: resource.Name}] = true
	}
	if !slices.ContainsFunc(e.options.Kinds, func(kind Kind) bool { return resources[kind.Resource().GroupResource()] }) &&
		!slices.ContainsFunc(slices.Collect(maps.Values(clusterKindsOf(machineKinds(e.options.Kinds)))), func(kind clusterKind) bool {
			return resources[kind.resource.GroupResource()]
		}) {
		return location{}, errors.New("it exports none of the kinds of machines and clusters that are configured")
	}
	return location{home: home, urls: urls, resources: resources}, nil
}

// ExportsOf returns the names of the APIExports in a workspace that export one of the resources. workspace is a client for it.
func ExportsOf(ctx context.Context, workspace client.Client, exported func(schema.GroupResource) bool) ([]string, error) {
	var names []string
	for options := (client.ListOptions{Limit: pageSize}); ; {
		page := &apisv1alpha2.APIExportList{}
		if err := workspace.List(ctx, page, &options); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if slices.ContainsFunc(page.Items[i].Spec.Resources, func(resource apisv1alpha2.ResourceSchema) bool {
				return exported(schema.GroupResource{Group: resource.Group, Resource: resource.Name})
			}) {
				names = append(names, strings.Clone(page.Items[i].Name))
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return names, nil
		}
	}
}

// list calls add for each object of all workspaces, page by page. kcp sets the annotation with the logical cluster of an object that is
// read, whatever was written.
func list(
	ctx context.Context, resource dynamic.ResourceInterface, add func(in logicalcluster.Name, object *unstructured.Unstructured) error,
) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := listPage(ctx, resource, options)
		var expired apierrors.APIStatus
		if apierrors.IsResourceExpired(err) && errors.As(err, &expired) && expired.Status().Continue != "" {
			options.Continue = expired.Status().Continue // the rest in its current state: a list of many objects takes longer than kcp keeps old states
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			in := logicalcluster.From(&page.Items[i])
			if err := kcp.ValidateName(in); err != nil {
				return err
			}
			if err := add(in, &page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

func listPage(ctx context.Context, resource dynamic.ResourceInterface, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, exportPageTimeout)
	defer cancel()
	return resource.List(ctx, options)
}

func (x *exported) addCluster(cluster Cluster, kind clusterKind, object *unstructured.Unstructured) error {
	kept, err := kind.essentialsOf(object)
	if err != nil {
		return err
	}
	cluster.Namespace, cluster.Name = object.GetNamespace(), object.GetName()
	x.clusters[cluster] = asObject(kept)
	return nil
}

// addMachine skips machines that cannot be read, as Objects.Machines does.
func (x *exported) addMachine(in, from logicalcluster.Name, kind Kind, object *unstructured.Unstructured) error {
	kept, err := kind.essentials(object)
	if err != nil {
		return err
	}
	if machine, err := kind.Read(asObject(kept)); err == nil {
		machine.LogicalCluster, machine.Exporter = in, from
		x.machines = append(x.machines, machine)
	}
	return nil
}

// Machines yields all machines.
func (e *Exports) Machines() iter.Seq[Machine] { return slices.Values(e.read.Load().machines) }

// Machine returns a machine, and whether it exists.
func (e *Exports) Machine(key MachineKey) (Machine, bool) {
	machines := e.read.Load().machines
	i := slices.IndexFunc(machines, func(machine Machine) bool { return machine.Key() == key })
	if i < 0 {
		return Machine{}, false
	}
	return machines[i], true
}

// Naming returns the machines of the provider of a machine that name an instance, in all workspaces. Of an external provider, it returns those of
// other namespaces.
func (e *Exports) Naming(id string, by Machine) []Machine {
	var naming []Machine
	for machine := range e.Machines() {
		own := machine.LogicalCluster == by.LogicalCluster && by.ownsAll(machine.Namespace)
		if machine.Kind.Provider == by.Kind.Provider && !own && slices.Contains(machine.IDs(), id) {
			naming = append(naming, machine)
		}
	}
	return naming
}

// Clusters yields all clusters, with references to their objects.
func (e *Exports) Clusters() iter.Seq2[Cluster, corev1.ObjectReference] {
	return func(yield func(Cluster, corev1.ObjectReference) bool) {
		for cluster, object := range e.read.Load().clusters {
			if !yield(cluster, reference(object)) {
				return
			}
		}
	}
}

// Account returns the account of the provider of a cluster. It sends no request.
func (e *Exports) Account(ctx context.Context, cluster Cluster) (ownership.Account, error) {
	kind := clusterKinds[cluster.Provider]
	object, exists := e.read.Load().clusters[cluster]
	settings := e.options.cloudSigma()
	if !exists {
		return settings.withoutObject(cluster.Provider,
			accountErrorf(ClusterMissing, "there is no %s %q in namespace %q", kind.kind, cluster.Name, cluster.Namespace))
	}
	return kind.account(&reader{cloudSigma: settings}, ctx, object)
}

// ownersOf reads the Machines of Cluster API of one workspace.
type ownersOf struct {
	workspace *Workspace
	mu        sync.Mutex // one request at a time
	// spent is how long the requests have taken.
	spent time.Duration
}

func (x *exported) ownersIn(cluster, provider logicalcluster.Name, workspaces *Workspaces) (*ownersOf, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := [2]logicalcluster.Name{cluster, provider}
	if of, found := x.owners[key]; found {
		return of, nil
	}
	workspace, err := workspaces.In(cluster, provider)
	if err != nil {
		return nil, err
	}
	of := &ownersOf{workspace: workspace}
	x.owners[key] = of
	return of, nil
}

// OwnerSeen returns the Machine of Cluster API that owns a machine, or nil. It reads it in the machine's workspace, as the gate does.
func (e *Exports) OwnerSeen(ctx context.Context, machine Machine) (*Owner, error) {
	of, err := e.read.Load().ownersIn(machine.LogicalCluster, machine.Exporter, e.workspaces)
	if err != nil {
		return nil, err
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.spent >= ownersTimeout {
		return nil, fmt.Errorf("the Machines of logical cluster %q were not read within %s", machine.LogicalCluster, ownersTimeout)
	}
	started := time.Now()
	defer func() { of.spent += time.Since(started) }()
	ctx, cancel := context.WithTimeout(ctx, ownersTimeout-of.spent)
	defer cancel()
	return of.workspace.Owner(ctx, machine)
}
