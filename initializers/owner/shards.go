package owner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

const (
	// pageSize limits how many Workspaces are held at once, because a tenant can make each of them larger than a MiB. pageTimeout limits how
	// long a shard may take to return them.
	pageSize    = 10
	pageTimeout = 30 * time.Second
)

// Shards reads Workspaces of all shards, through the virtual workspaces of the APIExport tenancy.kcp.io: kcp allows wildcard
// requests to shards to administrators only. It needs list and watch on apiexports/content of that APIExport, in root.
type Shards struct {
	config *rest.Config
	root   client.Client
}

// NewShards returns the shards of the kcp that config reaches.
func NewShards(config *rest.Config) (*Shards, error) {
	inRoot, err := kcp.ConfigFor(config, kcp.Root)
	if err != nil {
		return nil, err
	}
	root, err := kcp.NewClient(inRoot)
	if err != nil {
		return nil, fmt.Errorf("client for root: %w", err)
	}
	return &Shards{config: inRoot, root: root}, nil
}

// workspaceURLs returns the URLs at which Workspaces are found, one for each shard.
func (s *Shards) workspaceURLs(ctx context.Context) (sets.Set[string], error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return kcp.WorkspaceURLs(ctx, s.root)
}

// initializerURLs returns the URLs at which LogicalClusters are found that wait for the initializer, one for each shard.
func (s *Shards) initializerURLs(ctx context.Context) (sets.Set[string], error) {
	var wt tenancyv1alpha1.WorkspaceType
	if err := s.readWarranted(ctx, &wt); err != nil {
		return nil, err
	}
	return initializerURLsOf(&wt), nil
}

// readWarranted reads the WorkspaceType warranted.
func (s *Shards) readWarranted(ctx context.Context, into *tenancyv1alpha1.WorkspaceType) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	if err := s.root.Get(ctx, client.ObjectKey{Name: warranted}, into); err != nil {
		return fmt.Errorf("read WorkspaceType %s in root: %w", warranted, err)
	}
	return nil
}

// initializerURLsOf returns the URLs of the virtual workspaces with the LogicalClusters that wait for the initializer of a type.
func initializerURLsOf(wt *tenancyv1alpha1.WorkspaceType) sets.Set[string] {
	urls := sets.New[string]()
	for _, endpoint := range wt.Status.VirtualWorkspaces {
		if strings.Contains(endpoint.URL, "/initializingworkspaces/") {
			urls.Insert(endpoint.URL)
		}
	}
	return urls
}

// list yields requests for those Workspaces in a phase that are wanted, have a logical cluster and are not being deleted, one shard after the
// other. A shard that does not answer yields an error, and the others follow.
func (s *Shards) list(ctx context.Context, phase corev1alpha1.LogicalClusterPhaseType, wanted func(*tenancyv1alpha1.Workspace) bool) iter.Seq2[request, error] {
	return func(yield func(request, error) bool) {
		urls, err := s.workspaceURLs(ctx)
		if err != nil {
			yield(request{}, err)
			return
		}
		for _, url := range sets.List(urls) {
			found, err := s.listShard(ctx, url, phase, wanted)
			for _, req := range found {
				if !yield(req, nil) {
					return
				}
			}
			if err != nil && !yield(request{}, err) {
				return
			}
		}
	}
}

// listShard returns the requests for one shard. It reads all pages before any of the Workspaces is repaired, because a list expires after
// some minutes.
func (s *Shards) listShard(
	ctx context.Context, url string, phase corev1alpha1.LogicalClusterPhaseType, wanted func(*tenancyv1alpha1.Workspace) bool,
) (found []request, err error) {
	c, err := s.clientAt(url, logicalcluster.Wildcard)
	if err != nil {
		return nil, err
	}
	_, err = listTrimmed(ctx, c, &tenancyv1alpha1.WorkspaceList{}, inPhase(phase), func(object client.Object) client.Object {
		if ws, ok := object.(*tenancyv1alpha1.Workspace); ok && clusterOf(ws) != "" && ws.DeletionTimestamp == nil && wanted(ws) {
			found = append(found, requestForWorkspace("", ws))
		}
		return nil
	})
	if err != nil {
		return nil, explainList(url, err)
	}
	return found, nil
}

// listTrimmed returns the objects of a list's kind that selector selects, trimmed, and without those of which trim returns nil. It reads them in
// small pages, because a tenant can make each of them larger than a MiB.
func listTrimmed(
	ctx context.Context, c client.Client, list client.ObjectList, selector labels.Selector, trim func(client.Object) client.Object,
) (runtime.Object, error) {
	pages := pager.ListPager{PageSize: pageSize, PageFn: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		page, _ := list.DeepCopyObject().(client.ObjectList)
		if err := c.List(ctx, page, &client.ListOptions{LabelSelector: selector, Limit: options.Limit, Continue: options.Continue}); err != nil {
			return nil, err
		}
		var trimmed []runtime.Object
		err := meta.EachListItem(page, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok {
				if kept := trim(object); kept != nil {
					trimmed = append(trimmed, kept)
				}
			}
			return nil
		})
		return page, errors.Join(err, meta.SetList(page, trimmed))
	}}
	found, _, err := pages.List(ctx, metav1.ListOptions{})
	return found, err
}

// stuck yields requests for the Workspaces that are Initializing and were created before a time. It adds the number of the others to younger.
func (s *Shards) stuck(ctx context.Context, before time.Time, younger *int) iter.Seq2[request, error] {
	return s.list(ctx, corev1alpha1.LogicalClusterPhaseInitializing, func(ws *tenancyv1alpha1.Workspace) bool {
		old := ws.CreationTimestamp.Time.Before(before)
		if !old {
			*younger++
		}
		return old
	})
}

// suspicious yields requests for those Ready workspaces whose owner has the bare name of a service account. In a workspace, any service
// account that is created with this name has it. kcp keeps the name in the Workspace's annotation.
func (s *Shards) suspicious(ctx context.Context) iter.Seq2[request, error] {
	return s.list(ctx, corev1alpha1.LogicalClusterPhaseReady, func(ws *tenancyv1alpha1.Workspace) bool {
		owner, err := identity.ParseOwner(ws.Annotations[kcp.OwnerAnnotation])
		return err == nil && owner.IsServiceAccount()
	})
}

// workspaceTypes returns the WorkspaceTypes of a name in a logical cluster, on whichever shard it is: one, or none. All users who may list
// them may read them, including service accounts of other workspaces.
func (s *Shards) workspaceTypes(ctx context.Context, cluster logicalcluster.Name, name string) ([]tenancyv1alpha1.WorkspaceType, error) {
	list, err := named(ctx, s, cluster, name, &tenancyv1alpha1.WorkspaceTypeList{})
	return list.Items, err
}

// WorkspaceOf returns the Workspace which the LogicalCluster of a logical cluster names as its owner, nil if it is not that of the logical
// cluster. The administrator of a workspace can write this name, so it can be the Workspace of another tenant. The annotation of the Workspace is
// written by kcp only.
func (s *Shards) WorkspaceOf(
	ctx context.Context, cluster logicalcluster.Name, owner *corev1alpha1.LogicalClusterOwner,
) (*tenancyv1alpha1.Workspace, error) {
	list, err := named(ctx, s, logicalcluster.Name(owner.Cluster), owner.Name, &tenancyv1alpha1.WorkspaceList{})
	for i := range list.Items {
		if ws := &list.Items[i]; ws.UID == owner.UID && ws.Annotations[kcp.ClusterAnnotation] == cluster.String() {
			return ws, nil
		}
	}
	return nil, err
}

// named returns a list of the objects of a name in a logical cluster, which is on one of the shards. empty is the list to return if no shard
// has one.
func named[L client.ObjectList](ctx context.Context, s *Shards, cluster logicalcluster.Name, name string, empty L) (L, error) {
	if err := kcp.ValidateName(cluster); err != nil {
		return empty, err
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	urls, err := s.workspaceURLs(ctx)
	if err != nil {
		return empty, err
	}
	list, found, err := kcp.FirstShard(ctx, sets.List(urls), func(ctx context.Context, url string) (L, bool, error) {
		list, _ := empty.DeepCopyObject().(L)
		c, err := s.clientAt(url, cluster.Path())
		if err == nil {
			err = c.List(ctx, list, client.MatchingFields{"metadata.name": name})
		}
		if err != nil {
			return list, false, explainList(url, err)
		}
		return list, meta.LenList(list) > 0, nil
	})
	if !found {
		return empty, err
	}
	return list, nil
}

// clientAt returns a client for a logical cluster, or all of a shard, through the virtual workspace at url.
func (s *Shards) clientAt(url string, cluster logicalcluster.Path) (client.WithWatch, error) {
	config := rest.CopyConfig(s.config)
	config.QPS = -1 // at five small pages a second, a list of many Workspaces would take minutes
	config.Host = strings.TrimSuffix(url, "/") + cluster.RequestPath()
	c, err := kcp.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", url, err)
	}
	return c, nil
}

func inPhase(phase corev1alpha1.LogicalClusterPhaseType) labels.Selector {
	return labels.Set{tenancyv1alpha1.WorkspacePhaseLabel: string(phase)}.AsSelector()
}

// explainInitializing names what reading the LogicalClusters that wait for the initializer needs.
func explainInitializing(url string, err error) error {
	return fmt.Errorf("read the LogicalClusters at %s (this needs %s): %w", url,
		needed(err, "the permission initialize on the WorkspaceType "+warranted+" in root"), err)
}

// explainList names what listing Workspaces needs.
func explainList(url string, err error) error {
	return fmt.Errorf("see the workspaces at %s (this needs %s): %w", url,
		needed(err, "the permissions list and watch on apiexports/content of "+kcp.WorkspacesExport+" in root"), err)
}

// needed returns the permissions, unless the shard did not authenticate the user: the URL of a virtual workspace has the address of the
// shard, and the shard can have another client CA than the front-proxy.
func needed(err error, permissions string) string {
	if apierrors.IsUnauthorized(err) {
		return "credentials that the shard accepts, not only the front-proxy"
	}
	return permissions
}
