package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
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
	clients    kcp.Clients
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
	clusters map[Cluster]*unstructured.Unstructured
	// owners are the workspaces whose Machines of Cluster API were read.
	owners map[logicalcluster.Name]*ownersOf
}

// NewExports returns the objects of APIExports of the kcp of config.
func NewExports(config *rest.Config, exports []Export, options Options) (*Exports, error) {
	workspaces, err := NewWorkspaces(config, options)
	if err != nil {
		return nil, err
	}
	clients, err := kcp.NewClients(config)
	if err != nil {
		return nil, err
	}
	e := &Exports{
		config: workspaces.config, client: workspaces.client, clients: clients, workspaces: workspaces, options: options, exports: exports,
	}
	e.read.Store(&exported{})
	return e, nil
}

// Refresh reads all objects. If a part of them cannot be read, it returns an error, and the other methods use the state from before:
// with a part of the machines, servers of the others would seem to be orphans. One call runs at a time.
func (e *Exports) Refresh(ctx context.Context) error {
	e.refreshing.Lock()
	defer e.refreshing.Unlock()
	read := &exported{clusters: map[Cluster]*unstructured.Unstructured{}, owners: map[logicalcluster.Name]*ownersOf{}}
	for _, export := range e.exports {
		if err := e.readExport(ctx, export, read); err != nil {
			return fmt.Errorf("%s: %w", export, err)
		}
	}
	e.read.Store(read)
	return nil
}

func (e *Exports) readExport(ctx context.Context, export Export, into *exported) error {
	urls, resources, err := e.find(ctx, export)
	if err != nil {
		return err
	}
	for _, url := range urls {
		config := rest.CopyConfig(e.config)
		config.Host = url
		shard, err := dynamic.NewForConfigAndClient(config, e.client)
		if err != nil {
			return fmt.Errorf("client for %s: %w", url, err)
		}
		// Machines before clusters: a cluster that is created in between together with its machines is not missing.
		for _, kind := range e.options.Kinds {
			if !resources[kind.Resource().GroupResource()] {
				continue
			}
			if err := list(ctx, shard.Resource(kind.Resource()), func(in logicalcluster.Name, object *unstructured.Unstructured) error {
				return into.addMachine(in, kind, object)
			}); err != nil {
				return fmt.Errorf("list %s at %s: %w", kind.Resource().GroupResource(), url, err)
			}
		}
		for provider, kind := range clusterKindsOf(machineKinds(e.options.Kinds)) {
			if !resources[kind.resource.GroupResource()] {
				continue
			}
			if err := list(ctx, shard.Resource(kind.resource), func(in logicalcluster.Name, object *unstructured.Unstructured) error {
				return into.addCluster(in, provider, kind, object)
			}); err != nil {
				return fmt.Errorf("list %s at %s: %w", kind.resource.GroupResource(), url, err)
			}
		}
	}
	return nil
}

// find returns the URLs at which the objects of an APIExport are, and its resources.
func (e *Exports) find(ctx context.Context, export Export) ([]string, map[schema.GroupResource]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, exportPageTimeout)
	defer cancel()
	inProvider, err := e.clients(export.Workspace)
	if err != nil {
		return nil, nil, err
	}
	root, err := e.clients(kcp.Root)
	if err != nil {
		return nil, nil, err
	}
	var found apisv1alpha2.APIExport
	if err := inProvider.Get(ctx, client.ObjectKey{Name: export.Name}, &found); err != nil {
		return nil, nil, err
	}
	urls, err := kcp.ExportURLs(ctx, root, inProvider, logicalcluster.From(&found), found.Name)
	if err != nil {
		return nil, nil, err
	}
	resources := map[schema.GroupResource]bool{}
	for _, resource := range found.Spec.Resources {
		resources[schema.GroupResource{Group: resource.Group, Resource: resource.Name}] = true
	}
	if !slices.ContainsFunc(e.options.Kinds, func(kind Kind) bool { return resources[kind.Resource().GroupResource()] }) &&
		!slices.ContainsFunc(slices.Collect(maps.Values(clusterKindsOf(machineKinds(e.options.Kinds)))), func(kind clusterKind) bool {
			return resources[kind.resource.GroupResource()]
		}) {
		return nil, nil, errors.New("it exports none of the kinds of machines and clusters that are configured")
	}
	return urls, resources, nil
}

// list calls add for each object of all workspaces, page by page. kcp sets the annotation with the logical cluster of an object that is
// read, whatever was written.
func list(
	ctx context.Context, resource dynamic.ResourceInterface, add func(in logicalcluster.Name, object *unstructured.Unstructured) error,
) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := listPage(ctx, resource, options)
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

func (x *exported) addCluster(in logicalcluster.Name, provider v1beta1.Provider, kind clusterKind, object *unstructured.Unstructured) error {
	kept, err := kind.essentialsOf(object)
	if err != nil {
		return err
	}
	cluster := Cluster{LogicalCluster: in, Provider: provider, Namespace: object.GetNamespace(), Name: kind.clusterName(object)}
	x.clusters[cluster] = asObject(kept)
	return nil
}

// addMachine skips machines that cannot be read, as Objects.Machines does.
func (x *exported) addMachine(in logicalcluster.Name, kind Kind, object *unstructured.Unstructured) error {
	kept, err := kind.essentials(object)
	if err != nil {
		return err
	}
	if machine, err := kind.Read(asObject(kept)); err == nil {
		machine.LogicalCluster = in
		x.machines = append(x.machines, machine)
	}
	return nil
}

// Machines yields all machines.
func (e *Exports) Machines() iter.Seq[Machine] { return slices.Values(e.read.Load().machines) }

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

// AccountNow returns the account of the provider of a cluster. It sends no request.
func (e *Exports) AccountNow(ctx context.Context, cluster Cluster) (ownership.Account, error) {
	kind := clusterKinds[cluster.Provider]
	object := e.read.Load().clusters[cluster]
	if object == nil {
		return ownership.Account{}, accountErrorf(ClusterMissing, "there is no %s %q in namespace %q", kind.kind, cluster.Name, cluster.Namespace)
	}
	return kind.account(&reader{sharedAccount: e.options.SharedAccount}, ctx, object)
}

// ownersOf reads the Machines of Cluster API of one workspace.
type ownersOf struct {
	workspace *Workspace
	// spent is how long the requests have taken.
	spent time.Duration
}

// OwnerSeen returns the Machine of Cluster API that owns a machine, or nil. It reads it in the machine's workspace.
func (e *Exports) OwnerSeen(ctx context.Context, machine Machine) (*Owner, error) {
	read := e.read.Load()
	of := read.owners[machine.LogicalCluster]
	if of == nil {
		workspace, err := e.workspaces.In(machine.LogicalCluster)
		if err != nil {
			return nil, err
		}
		of = &ownersOf{workspace: workspace}
		read.owners[machine.LogicalCluster] = of
	}
	if of.spent >= ownersTimeout {
		return nil, fmt.Errorf("the Machines of logical cluster %q were not read within %s", machine.LogicalCluster, ownersTimeout)
	}
	started := time.Now()
	defer func() { of.spent += time.Since(started) }()
	ctx, cancel := context.WithTimeout(ctx, ownersTimeout-of.spent)
	defer cancel()
	return of.workspace.Owner(ctx, machine)
}
