// Package kcp builds URLs and clients for the logical clusters of a kcp.
package kcp

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
)

const clustersPath = "/clusters/"

// Root is the workspace of the tenancy.kcp.io APIExport. Admission webhooks and policies in it apply to the Workspaces of all
// workspaces.
var Root = logicalcluster.NewPath("root")

// SystemAdmin is the logical cluster of a shard whose RBAC applies to every workspace of that shard.
var SystemAdmin = logicalcluster.NewPath("system:admin")

// BaseConfig returns config for the server, a shard or the front-proxy, without the path of a workspace.
func BaseConfig(config *rest.Config) (*rest.Config, error) {
	host, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("address of kcp %q: %w", config.Host, err)
	}
	if i := strings.Index(host.Path+"/", clustersPath); i >= 0 {
		host.Path = host.Path[:i]
	}
	base := rest.CopyConfig(config)
	base.Host = strings.TrimSuffix(host.String(), "/")
	return base, nil
}

// IsWorkspace reports whether config is for a logical cluster of a kcp. Proxies of Kubernetes API servers, too, have "clusters" in their paths, but not
// at the beginning.
func IsWorkspace(config *rest.Config) bool {
	host, err := url.Parse(config.Host)
	return err == nil && strings.HasPrefix(host.Path, clustersPath)
}

// ConfigFor returns config for one logical cluster, by name or path. It rejects invalid paths, because tenants write paths into
// objects such as WorkspaceTypes. For names from requests, use ConfigForName.
func ConfigFor(config *rest.Config, cluster logicalcluster.Path) (*rest.Config, error) {
	if err := validatePath(cluster); err != nil {
		return nil, err
	}
	base, err := BaseConfig(config)
	if err != nil {
		return nil, err
	}
	base.Host += cluster.RequestPath()
	return base, nil
}
