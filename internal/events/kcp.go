package events

import (
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/kcp"
)

// NewKCPWriter returns a Writer for the kcp that config reaches, a shard or the front-proxy. A workspace in the path
// of config's host is left out: each logical cluster is addressed by itself.
func NewKCPWriter(config *rest.Config) (Writer, error) {
	config, err := kcp.BaseConfig(config)
	if err != nil {
		return nil, err
	}
	return newAPIWriter(config, &apiWriter{
		pathOf: kcp.RequestPath,
		// The right is given in each shard's system:admin, where it holds for every workspace of the shard, and cannot
		// be seen there by whom it is given to.
		askedIn:  kcp.Root.RequestPath(),
		noAccess: "no access to workspaces",
		remedy:   "give it with `warrantgate install kcp --shard-kubeconfig`",
	})
}
