package serve

import (
	"context"
	"net/http"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/machine"
)

// registerProviderGates serves the gates on machines and clusters that a provider's APIExport has bound in the workspaces of
// a kcp.
func registerProviderGates(server webhook.Server, reached *rest.Config, config v1beta1.GateConfiguration, owners clouds.Owners, recorder webhooks.EventRecorder) error {
	config = gates.Exportable(config)
	workspaces, err := clusterapi.NewWorkspaces(reached, owners.Options(config))
	if err != nil {
		return err
	}
	machines := webhooks.PerCluster("machine-ownership", func(name logicalcluster.Name) (webhooks.Gate, error) {
		objects, err := workspaces.In(name)
		if err != nil {
			return nil, err
		}
		gate := machine.New(config.Machine, clouds.Kinds(config), objects, owners.Gate)
		return gate.Sharing(owners.Writes, objects.Version, name.String()).Settling(owners.FirstClaims, name.String()), nil
	})
	mode := config.Cluster.Impersonation.Mode
	server.Register(gates.ProviderPath+machine.Path, webhooks.Handler(machines, config.Machine.Mode, recorder))
	server.Register(gates.ImpersonationPath("{"+gates.ProviderWildcard+"}"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		provider := logicalcluster.Name(r.PathValue(gates.ProviderWildcard))
		if kcp.ValidateName(provider) != nil {
			http.NotFound(w, r)
			return
		}
		webhooks.Handler(impersonationGate(reached, workspaces, config, owners, provider), mode, recorder).ServeHTTP(w, r)
	}))
	server.Register(gates.ProviderPath+cluster.Path, webhooks.Handler(unknownProvider{}, mode, recorder))
	return nil
}

// impersonationGate is the gate for the APIExports of one provider.
func impersonationGate(
	reached *rest.Config, workspaces *clusterapi.Workspaces, config v1beta1.GateConfiguration, owners clouds.Owners, provider logicalcluster.Name,
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
			config.Cluster, impersonation.NewProviderChecker(reviewer, provider), objects, newHoldings(owners, config, objects, name)), err
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
