package kcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// WorkspacesExport is the APIExport of Workspaces in root, and the APIExportEndpointSlice of the same name. Every shard has bindings
	// of it, so the slice has one URL for each shard.
	WorkspacesExport = tenancy.GroupName
	// exportsPath is the path of the virtual workspaces of APIExports.
	exportsPath = "/services/apiexport/"
)

// WorkspaceURLs returns the URLs of the virtual workspaces with the Workspaces, one for each shard. It needs the permission to get
// the APIExportEndpointSlice in root.
func WorkspaceURLs(ctx context.Context, root client.Client) (sets.Set[string], error) {
	var slice apisv1alpha1.APIExportEndpointSlice
	if err := root.Get(ctx, client.ObjectKey{Name: WorkspacesExport}, &slice); err != nil {
		return nil, fmt.Errorf("find the shards (APIExportEndpointSlice %s in root): %w", WorkspacesExport, err)
	}
	urls := sets.New[string]()
	for _, endpoint := range slice.Status.APIExportEndpoints {
		urls.Insert(endpoint.URL)
	}
	return urls, nil
}

// Shards returns the URLs of all shards, also of those without consumers of an APIExport. It needs the same permission as WorkspaceURLs.
func Shards(ctx context.Context, root client.Client) (sets.Set[string], error) {
	workspaces, err := WorkspaceURLs(ctx, root)
	if err != nil {
		return nil, err
	}
	shards := sets.New[string]()
	for url := range workspaces {
		shard, _, _ := strings.Cut(url, exportsPath)
		shards.Insert(shard)
	}
	return shards, nil
}

// ExportURL returns the URL at which a shard serves the objects that logical clusters have from an APIExport: those of one logical cluster, or
// of all with logicalcluster.Wildcard. cluster is the logical cluster of the APIExport.
func ExportURL(shard string, cluster logicalcluster.Name, export string, in logicalcluster.Path) (string, error) {
	if err := ValidateName(cluster); err != nil {
		return "", err
	}
	if !exportName.MatchString(export) {
		return "", fmt.Errorf("%.*q is not the name of an APIExport", maxShownBytes, export)
	}
	return shard + exportsPath + cluster.String() + "/" + export + in.RequestPath(), nil
}

// ExportURLs returns the URLs at which the objects of an APIExport are read, those of all consumers of a shard at once, one for each
// shard with consumers. A shard without consumers does not serve them. cluster is the logical cluster of the APIExport, and provider is a
// client for it. It needs the permission to get the APIExportEndpointSlice of the APIExport, which has its name, besides that in root.
//
// The slice of the APIExport says which shards have consumers. A provider can write it, so it must not choose where requests with
// warrantgate's credentials are sent: the shards are those of root, and the paths are not taken from the slice.
func ExportURLs(ctx context.Context, root, provider client.Client, cluster logicalcluster.Name, export string) ([]string, error) {
	if _, err := ExportURL("", cluster, export, logicalcluster.Wildcard); err != nil {
		return nil, err
	}
	shards, err := Shards(ctx, root)
	if err != nil {
		return nil, err
	}
	var slice apisv1alpha1.APIExportEndpointSlice
	if err := provider.Get(ctx, client.ObjectKey{Name: export}, &slice); err != nil {
		return nil, fmt.Errorf("find the shards with consumers (APIExportEndpointSlice %s): %w", export, err)
	}
	urls := sets.New[string]()
	for _, endpoint := range slice.Status.APIExportEndpoints {
		shard, _, _ := strings.Cut(endpoint.URL, exportsPath)
		if !shards.Has(shard) {
			return nil, fmt.Errorf("the APIExportEndpointSlice %s has the URL %q, which is of no shard in the APIExportEndpointSlice %s of root",
				export, endpoint.URL, WorkspacesExport)
		}
		url, err := ExportURL(shard, cluster, export, logicalcluster.Wildcard)
		if err != nil {
			return nil, err
		}
		urls.Insert(url)
	}
	return sets.List(urls), nil
}

// FirstShard asks all shards at once, and returns what the first one of them has, without waiting for the others: a shard that does not answer
// must not delay what is about the logical clusters of others. If none has it, the error is that of all shards, in the order of urls, because
// Events with the same text are aggregated.
func FirstShard[T any](ctx context.Context, urls []string, ask func(ctx context.Context, url string) (T, bool, error)) (T, bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		shard int
		value T
		found bool
		err   error
	}
	answers := make(chan answer, len(urls))
	for shard, url := range urls {
		go func() {
			value, found, err := ask(ctx, url)
			answers <- answer{shard, value, found, err}
		}()
	}
	errs := make([]error, len(urls))
	for range urls {
		got := <-answers
		if got.found {
			return got.value, true, nil
		}
		errs[got.shard] = got.err
	}
	var none T
	return none, false, errors.Join(errs...)
}
