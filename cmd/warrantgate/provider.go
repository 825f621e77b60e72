package main

import (
	"context"
	"net/http"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/machine"
)

// providerPath is below which the gates on what a provider exports on kcp are served. They are apart from those of
// Kubernetes, where an object could claim to be of a logical cluster.
const providerPath = "/kcp"

// providerWildcard is the segment of a path that names the logical cluster of a provider. "install provider" writes it into the
// webhook configuration in that workspace, which only the provider can change. So kcp itself tells with each request whose APIExport
// the object is of, and one serve can be that of several providers.
const providerWildcard = "provider"

// impersonationPath is where the gate is served that asks in the workspace of the provider who may impersonate whom.
func impersonationPath(provider string) string { return providerPath + "/" + provider + cluster.Path }

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
		if err != nil {
			return nil, err
		}
		return machine.New(config.Machine, kinds(config), objects, owners.gate).Sharing(owners.writes, objects.Version, name.String()), nil
	})
	mode := config.Cluster.Impersonation.Mode
	server.Register(providerPath+machine.Path, webhooks.Handler(machines, config.Machine.Mode, recorder))
	server.Register(impersonationPath("{"+providerWildcard+"}"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		provider := logicalcluster.Name(r.PathValue(providerWildcard))
		if kcp.ValidateName(provider) != nil {
			http.NotFound(w, r)
			return
		}
		webhooks.Handler(impersonationGate(reached, workspaces, config, owners, provider), mode, recorder).ServeHTTP(w, r)
	}))
	server.Register(providerPath+cluster.Path, webhooks.Handler(unknownProvider{}, mode, recorder))
	return nil
}

// impersonationGate is the gate for the APIExports of one provider.
func impersonationGate(
	reached *rest.Config, workspaces *clusterapi.Workspaces, config v1beta1.GateConfiguration, owners owners, provider logicalcluster.Name,
) webhooks.Gate {
	return webhooks.PerCluster("cluster-impersonation", func(name logicalcluster.Name) (webhooks.Gate, error) {
		objects, err := workspaces.In(name)
		if err != nil {
			return nil, err
		}
		within, err := kcp.ConfigForName(reached, provider)
		if err != nil {
			return nil, err
		}
		reviewer, err := impersonation.NewReviewer(within)
		return cluster.NewImpersonation(
			config.Cluster, impersonation.NewProviderChecker(reviewer, provider), objects, owners.holdings(config, objects, name)), err
	})
}

// unknownProvider is the gate at the path that older releases have registered. Nothing says there whose APIExport the object
// is of, so that nobody can be asked: in the workspace of the object its owner is cluster-admin.
type unknownProvider struct{}

// Name implements webhooks.Gate.
func (unknownProvider) Name() string { return "cluster-impersonation" }

// Review implements webhooks.Gate.
func (unknownProvider) Review(context.Context, admission.Request) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Undecided, Reason: "ProviderUnknown", Message: "the webhook configuration in the provider's " +
		"workspace does not say whose it is; the provider has to run \"warrantgate install provider\" again"}
}

// exportable is the configuration without what cannot be judged in a workspace of kcp: credentials that are in Secrets there.
func exportable(config v1beta1.GateConfiguration) v1beta1.GateConfiguration {
	config.OpenStack = v1beta1.OpenStack{}
	config.Machine.Kinds = slices.DeleteFunc(slices.Clone(config.Machine.Kinds), func(kind v1beta1.MachineKind) bool {
		return kind.Provider == v1beta1.ProviderOpenStack
	})
	return config
}

// providerHooks are how these gates are registered in the logical cluster of a provider.
func providerHooks(config v1beta1.GateConfiguration, provider logicalcluster.Name) []webhooks.Hook {
	config = exportable(config)
	machines, clusters := machine.Hooks(config.Machine.Mode, config.MachineKinds()), cluster.ProviderHooks(config.Cluster)
	for i := range machines {
		machines[i].Path = providerPath + machines[i].Path
	}
	for i := range clusters {
		clusters[i].Path = impersonationPath(provider.String())
	}
	return append(machines, clusters...)
}
