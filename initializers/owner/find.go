package owner

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/kcp"
)

const (
	// workspacesExport is the APIExport, and the APIExportEndpointSlice of the same name, of Workspaces in root.
	workspacesExport = tenancy.GroupName
	// pageSize bounds how many Workspaces are held at once, and pageTime how long a shard may take for them.
	pageSize = 250
	pageTime = 30 * time.Second
)

// Finder finds Workspaces on all shards, through the virtual workspaces of the APIExport tenancy.kcp.io: kcp answers
// wildcard requests to shards to administrators only. It takes the right to content of that APIExport, in root.
type Finder struct {
	config *rest.Config
	root   client.Client
}

// NewFinder returns a Finder for the kcp that config reaches.
func NewFinder(config *rest.Config) (*Finder, error) {
	inRoot, err := kcp.ConfigFor(config, kcp.Root)
	if err != nil {
		return nil, err
	}
	root, err := kcp.NewClient(inRoot)
	if err != nil {
		return nil, fmt.Errorf("client for root: %w", err)
	}
	return &Finder{config: inRoot, root: root}, nil
}

// Workspaces yields the Workspaces of a phase that were made before a time, shard by shard. A shard that does not answer
// yields an error, and the others follow.
func (f *Finder) Workspaces(ctx context.Context, phase corev1alpha1.LogicalClusterPhaseType, before time.Time) iter.Seq2[*tenancyv1alpha1.Workspace, error] {
	return func(yield func(*tenancyv1alpha1.Workspace, error) bool) {
		urls, err := f.shards(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, url := range sets.List(urls) {
			for ws, err := range f.onShard(ctx, url, phase) {
				if err == nil && !ws.CreationTimestamp.Time.Before(before) {
					continue
				}
				if !yield(ws, err) {
					return
				}
			}
		}
	}
}

// onShard yields the Workspaces of a phase on one shard, page by page.
func (f *Finder) onShard(ctx context.Context, url string, phase corev1alpha1.LogicalClusterPhaseType) iter.Seq2[*tenancyv1alpha1.Workspace, error] {
	return func(yield func(*tenancyv1alpha1.Workspace, error) bool) {
		c, err := wildcardClient(f.config, url)
		if err != nil {
			yield(nil, err)
			return
		}
		page := client.ListOptions{Limit: pageSize, LabelSelector: ofPhase(phase).AsSelector()}
		for {
			list, err := listPage(ctx, c, &page)
			if err != nil {
				yield(nil, explainFinding(url, err))
				return
			}
			for i := range list.Items {
				if !yield(&list.Items[i], nil) {
					return
				}
			}
			if page.Continue = list.Continue; page.Continue == "" {
				return
			}
		}
	}
}

// listPage gives up on a shard that does not answer in time, so that the others get their turn.
func listPage(ctx context.Context, c client.Client, page *client.ListOptions) (tenancyv1alpha1.WorkspaceList, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	var list tenancyv1alpha1.WorkspaceList
	err := c.List(ctx, &list, page)
	return list, err
}

// shards returns the URLs of the virtual workspaces, one for each shard.
func (f *Finder) shards(ctx context.Context) (sets.Set[string], error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	var slice apisv1alpha1.APIExportEndpointSlice
	if err := f.root.Get(ctx, client.ObjectKey{Name: workspacesExport}, &slice); err != nil {
		return nil, fmt.Errorf("find the shards (APIExportEndpointSlice %s in root): %w", workspacesExport, err)
	}
	urls := sets.New[string]()
	for _, endpoint := range slice.Status.APIExportEndpoints {
		urls.Insert(endpoint.URL)
	}
	return urls, nil
}

// wildcardClient reads what is in all logical clusters of a shard, through a virtual workspace at url.
func wildcardClient(config *rest.Config, url string) (client.WithWatch, error) {
	config = rest.CopyConfig(config)
	config.Host = strings.TrimSuffix(url, "/") + logicalcluster.Wildcard.RequestPath()
	c, err := kcp.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", url, err)
	}
	return c, nil
}

func ofPhase(phase corev1alpha1.LogicalClusterPhaseType) labels.Set {
	return labels.Set{tenancyv1alpha1.WorkspacePhaseLabel: string(phase)}
}

// explainFinding says of a failure to see Workspaces what it takes.
func explainFinding(url string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("see the workspaces at %s (this takes the rights list and watch on apiexports/content of %s in root): %w",
		url, workspacesExport, err)
}
