// Package kcp addresses the logical clusters of a kcp.
package kcp

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
)

const clustersPath = "/clusters/"

// Root is the workspace that the tenancy.kcp.io APIExport lives in, and thus the one whose admission webhooks and
// policies judge the Workspaces of all others.
var Root = logicalcluster.NewPath("root")

// SystemAdmin is the logical cluster of a shard whose RBAC holds in every workspace of that shard.
var SystemAdmin = logicalcluster.NewPath("system:admin")

// BaseConfig returns config for the server that it reaches, a shard or the front-proxy, without the workspace that
// its host leads into.
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

// ConfigFor returns config for one logical cluster, by its name or path. A path that is invalid is an error, because many come
// from objects that tenants write, such as WorkspaceTypes. For names that come with requests see ConfigForName.
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
