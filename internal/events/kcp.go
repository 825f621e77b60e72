package events

import (
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/kcp"
)

// NewKCPWriter returns a Writer for the kcp of config, a shard or the front-proxy. It ignores the path of a workspace in the host
// of config, because each Event has its own logical cluster.
func NewKCPWriter(config *rest.Config) (Writer, error) {
	config, err := kcp.BaseConfig(config)
	if err != nil {
		return nil, err
	}
	return newAPIWriter(kcp.LimitResponses(config), &apiWriter{
		pathOf: kcp.RequestPath,
		// The permission is granted in system:admin of each shard and applies to all workspaces of the shard. The user itself has no
		// access to system:admin, so the check runs in root.
		askedIn:  kcp.Root.RequestPath(),
		noAccess: "no access to workspaces",
		remedy:   "grant it with `warrantgate install kcp --shard-kubeconfig`",
	})
}
