package gates

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/machine"
)

// ProviderPath is below which the gates on what a provider exports on kcp are served. They are apart from those of
// Kubernetes, where an object could claim to be of a logical cluster.
const ProviderPath = "/kcp"

// ProviderWildcard is the segment of a path that names the logical cluster of a provider. "install provider" writes it into the
// webhook configuration in that workspace, which only the provider can change. So kcp itself tells with each request whose APIExport
// the object is of, and one serve can be that of several providers.
const ProviderWildcard = "provider"

// ImpersonationPath is where the gate is served that asks in the workspace of the provider who may impersonate whom.
func ImpersonationPath(provider string) string { return ProviderPath + "/" + provider + cluster.Path }

// Exportable is the configuration without what cannot be judged in a workspace of kcp: credentials that are in Secrets there.
func Exportable(config v1beta1.GateConfiguration) v1beta1.GateConfiguration {
	config.OpenStack = v1beta1.OpenStack{}
	config.Machine.Kinds = slices.DeleteFunc(slices.Clone(config.Machine.Kinds), func(kind v1beta1.MachineKind) bool {
		return kind.Provider == v1beta1.ProviderOpenStack
	})
	return config
}

// ProviderHooks are how these gates are registered in the logical cluster of a provider.
func ProviderHooks(config v1beta1.GateConfiguration, provider logicalcluster.Name) []webhooks.Hook {
	config = Exportable(config)
	machines, clusters := machine.Hooks(config.Machine.Mode, config.MachineKinds()), cluster.ProviderHooks(config.Cluster)
	for i := range machines {
		machines[i].Path = ProviderPath + machines[i].Path
	}
	for i := range clusters {
		clusters[i].Path = ImpersonationPath(provider.String())
	}
	return append(machines, clusters...)
}
