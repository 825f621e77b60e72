package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/maypok86/otter/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/machine"
)

// registerProviderGates serves the gates on machines and clusters in the workspaces of a kcp that bind a provider's APIExport.
func registerProviderGates(
	server webhook.Server, reached *rest.Config, config v1beta1.GateConfiguration, owners clouds.Owners, recorder webhooks.EventRecorder,
) error {
	config = gates.Exportable(config)
	workspaces, err := clusterapi.NewWorkspaces(reached, owners.Options(config))
	if err != nil {
		return err
	}
	clients, err := kcp.NewClients(reached)
	if err != nil {
		return err
	}
	audited := newAuditedProviders(clients, config.Audit)
	for path, handler := range map[string]func(provider logicalcluster.Name) http.Handler{
		machine.Path: func(provider logicalcluster.Name) http.Handler {
			return webhooks.Handler(machineGate(workspaces, config, owners, provider, audited), config.Machine.Mode, recorder)
		},
		cluster.Path: func(provider logicalcluster.Name) http.Handler {
			return webhooks.Handler(impersonationGate(reached, workspaces, config, owners, provider), config.Cluster.Impersonation.Mode, recorder)
		},
	} {
		server.Register(gates.ProviderPath("{"+gates.ProviderWildcard+"}", path), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			provider := logicalcluster.Name(r.PathValue(gates.ProviderWildcard))
			if kcp.ValidateName(provider) != nil {
				http.NotFound(w, r)
				return
			}
			handler(provider).ServeHTTP(w, r.WithContext(webhooks.WithCaller(r.Context(), provider.String())))
		}))
	}
	return nil
}

// machineGate is the gate on machines for the APIExports of one provider.
func machineGate(
	workspaces *clusterapi.Workspaces, config v1beta1.GateConfiguration, owners clouds.Owners, provider logicalcluster.Name, audited *auditedProviders,
) webhooks.Gate {
	gated := config.Machine
	gated.Unknown = gated.UnknownPolicy(config.Audit.OnKCP())
	return webhooks.PerCluster("machine-ownership", func(name logicalcluster.Name) (webhooks.Gate, error) {
		objects, err := workspaces.In(name, provider)
		if err != nil {
			return nil, err
		}
		gate := machine.New(gated, clouds.Kinds(config), objects, owners.Gate).
			AuditedIf(func(ctx context.Context) bool { return audited.has(ctx, provider) })
		return webhooks.Bound(gate, objects, provider), nil
	})
}

// auditedProviders finds out which providers on kcp the audit checks. It is safe for concurrent use.
type auditedProviders struct {
	clients kcp.Clients
	audit   v1beta1.Audit
	// homes are the logical clusters of the APIExports that were read in the last minute: a workspace that is created again is another one.
	homes *otter.Cache[v1beta1.AuditProvider, logicalcluster.Name]
}

func newAuditedProviders(clients kcp.Clients, config v1beta1.Audit) *auditedProviders {
	return &auditedProviders{clients: clients, audit: config, homes: otter.Must(&otter.Options[v1beta1.AuditProvider, logicalcluster.Name]{
		ExpiryCalculator: otter.ExpiryWriting[v1beta1.AuditProvider, logicalcluster.Name](time.Minute),
	})}
}

// has reports whether the audit checks the machines of the provider in a logical cluster. An APIExport that cannot be read counts as one of
// another provider. The deadline of ctx may be over.
func (a *auditedProviders) has(ctx context.Context, provider logicalcluster.Name) bool {
	if !a.audit.OnKCP() {
		return false
	}
	return slices.ContainsFunc(a.audit.Providers, func(audited v1beta1.AuditProvider) bool {
		home, err := a.homes.Get(context.WithoutCancel(ctx), audited, otter.LoaderFunc[v1beta1.AuditProvider, logicalcluster.Name](a.home))
		if err != nil {
			logf.FromContext(ctx).Error(err, "an APIExport of audit.providers cannot be read", "workspace", audited.Workspace, "apiExport", audited.APIExport)
		}
		return err == nil && home == provider
	})
}

// home reads the APIExport of a provider.
func (a *auditedProviders) home(ctx context.Context, of v1beta1.AuditProvider) (logicalcluster.Name, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	inWorkspace, err := a.clients(logicalcluster.NewPath(of.Workspace))
	if err != nil {
		return "", err
	}
	var export apisv1alpha2.APIExport
	err = inWorkspace.Get(ctx, client.ObjectKey{Name: of.APIExport}, &export)
	return logicalcluster.From(&export), err
}

// impersonationGate is the gate on clusters for the APIExports of one provider.
func impersonationGate(
	reached *rest.Config, workspaces *clusterapi.Workspaces, config v1beta1.GateConfiguration, owners clouds.Owners, provider logicalcluster.Name,
) webhooks.Gate {
	return webhooks.PerCluster("cluster-impersonation", func(name logicalcluster.Name) (webhooks.Gate, error) {
		objects, err := workspaces.In(name, provider)
		if err != nil {
			return nil, err
		}
		within, err := kcp.ConfigForName(reached, provider)
		if err != nil {
			return nil, err
		}
		reviewer, err := impersonation.NewReviewer(within)
		if err != nil {
			return nil, err
		}
		checker := impersonation.NewProviderChecker(reviewer, provider)
		gate := cluster.NewImpersonation(config.Cluster, config.CloudSigma.Regions, checker, objects, newHoldings(owners, config, objects))
		return webhooks.Bound(gate, objects, provider), nil
	})
}

// needsKCP returns an error if the configuration lists providers on kcp, but the audit cannot read their machines or send requests to their
// cloud.
func needsKCP(config v1beta1.GateConfiguration, owners clouds.Owners, reached *rest.Config) error {
	if !config.Audit.OnKCP() || reached != nil && (owners.Cloud != nil || config.HasExternalKinds()) {
		return nil
	}
	return errors.New("audit.providers needs --kcp-kubeconfig and an access to CloudSigma: give both, or remove audit.providers from the configuration")
}

// newProviderAudit returns the audit of the providers on kcp, or nil if none is configured.
func newProviderAudit(
	reached *rest.Config, config v1beta1.GateConfiguration, owners clouds.Owners, recorder audit.EventRecorder,
) (*audit.Controller, error) {
	if !config.Audit.OnKCP() {
		return nil, nil //nolint:nilnil // there is nothing to audit
	}
	config = gates.Auditable(config)
	objects, err := clouds.NewExports(reached, owners, config)
	if err != nil {
		return nil, err
	}
	root, err := kcp.ConfigFor(reached, kcp.Root)
	if err != nil {
		return nil, err
	}
	election, err := newElection(root, metav1.NamespaceDefault, gates.AuditLease)
	if err != nil {
		return nil, fmt.Errorf("audit of providers on kcp: %w", err)
	}
	audited := clouds.NewAudit(objects, owners, config)
	audited.Refresh = objects.Refresh
	return &audit.Controller{
		Audit: audited, Recorder: recorder, Election: election, OnKCP: true,
		Synced: func() error { return nil }, Interval: config.Audit.Interval.Duration,
	}, nil
}
