package main

import (
	"net/http"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/machine"
)

// providerPath is below which the gates on what a provider exports on kcp are served. They are apart from those of
// Kubernetes, where an object could claim to be of a logical cluster.
const providerPath = "/kcp"

// registerProviderGates serves the gates on machines and clusters that a provider's APIExport has bound in the workspaces of
// a kcp.
func registerProviderGates(server webhook.Server, reached *rest.Config, config v1beta1.GateConfiguration, owners owners, recorder webhooks.EventRecorder) error {
	config = exportable(config)
	workspaces, err := clusterapi.NewWorkspaces(reached, owners.options(config))
	if err != nil {
		return err
	}
	machines := webhooks.PerCluster("machine-ownership", func(name logicalcluster.Name) (webhooks.Gate, error) {
		objects, err := workspaces.In(name)
		return machine.New(config.Machine, kinds(config), objects, owners.gate), err
	})
	clusters := webhooks.PerCluster("cluster-impersonation", func(name logicalcluster.Name) (webhooks.Gate, error) {
		objects, err := workspaces.In(name)
		if err != nil {
			return nil, err
		}
		within, err := kcp.ConfigFor(reached, name.Path())
		if err != nil {
			return nil, err
		}
		reviewer, err := cluster.NewReviewer(within)
		return cluster.New(config.Cluster.Impersonation.Mode, reviewer, objects), err
	})
	for path, handler := range map[string]http.Handler{
		machine.Path: webhooks.Handler(machines, config.Machine.Mode, recorder),
		cluster.Path: webhooks.Handler(clusters, config.Cluster.Impersonation.Mode, recorder),
	} {
		server.Register(providerPath+path, handler)
	}
	return nil
}

// exportable is the configuration without what cannot be judged in a workspace of kcp: credentials that are in Secrets there.
func exportable(config v1beta1.GateConfiguration) v1beta1.GateConfiguration {
	config.OpenStack = v1beta1.OpenStack{}
	config.Machine.Kinds = slices.DeleteFunc(slices.Clone(config.Machine.Kinds), func(kind v1beta1.MachineKind) bool {
		return kind.Provider == v1beta1.ProviderOpenStack
	})
	return config
}

// providerHooks are how these gates are registered.
func providerHooks(config v1beta1.GateConfiguration) []webhooks.Hook {
	config = exportable(config)
	hooks := append(machine.Hooks(config.Machine.Mode, config.MachineKinds()), cluster.ProviderHooks(config.Cluster.Impersonation.Mode)...)
	for i := range hooks {
		hooks[i].Path = providerPath + hooks[i].Path
	}
	return hooks
}
