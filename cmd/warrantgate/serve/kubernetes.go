package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/audit/reports"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/controllermanager"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/machine"
)

// newHoldings returns the check of changes of clusters against the instances of their machines, or nil if machines are not gated.
func newHoldings(o clouds.Owners, config v1beta1.GateConfiguration, machines cluster.Machines) *cluster.Holdings {
	if o.Gate == nil || config.Machine.Mode == v1beta1.Off {
		return nil
	}
	return cluster.NewHoldings(machines, o.Gate)
}

// kubernetesGates are the gates on the objects of Cluster API, and their dependencies. The zero value has no gates.
type kubernetesGates struct {
	recorder *events.Recorder
	// objects is nil if no gate that is on reads any.
	objects   *clusterapi.Objects
	runnables []manager.Runnable
	handlers  map[string]http.Handler
}

// newKubernetesGates returns the gates of the API server that kubernetes reaches.
func newKubernetesGates(kubernetes *rest.Config, config v1beta1.GateConfiguration, owners clouds.Owners, leaseNamespace string) (kubernetesGates, error) {
	if owners.Gate == nil && (config.Machine.Mode != v1beta1.Off || config.Audit.Mode != v1beta1.Off) {
		return kubernetesGates{}, errors.New("machine.mode and audit.mode need an access to a cloud: give --impersonation-enabled and the " +
			"flags for the CloudSigma credentials, enable legacy credentials ($CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=true), " +
			"configure openStack.authURLs or machine.kinds of an external provider, or set both modes to Off")
	}
	writer, err := events.NewKubernetesWriter(kubernetes)
	if err != nil {
		return kubernetesGates{}, err
	}
	g := kubernetesGates{recorder: events.NewRecorder(writer), handlers: map[string]http.Handler{}}
	if config.ReadsClusters() {
		options := owners.Options(config)
		options.ClustersOnly = !config.ReadsMachines()
		if g.objects, err = clusterapi.NewObjects(kubernetes, options); err != nil {
			return kubernetesGates{}, err
		}
		g.runnables = append(g.runnables, g.objects)
	}
	reviewer, err := impersonation.NewReviewer(kubernetes)
	if err != nil {
		return kubernetesGates{}, err
	}
	if err := g.removeReports(kubernetes, config.Audit); err != nil {
		return kubernetesGates{}, err
	}
	checker := impersonation.NewChecker(reviewer)
	holdings := newHoldings(owners, config, g.objects)
	g.handle(cluster.Path, cluster.NewImpersonation(config.Cluster, config.CloudSigma.Regions, checker, g.objects, holdings), config.Cluster.Impersonation.Mode)
	if err := g.addKeystonePolicy(kubernetes, config.KeystonePolicy); err != nil {
		return kubernetesGates{}, err
	}
	managers := config.ControllerManager
	g.handle(controllermanager.IdentityPath, controllermanager.NewIdentity(managers, owners.Impersonating, g.objects), managers.Mode)
	g.handle(controllermanager.IntegrityPath, controllermanager.NewIntegrity(managers, owners.Impersonating, g.objects), managers.Mode)
	if owners.OpenStack != nil {
		with := func(namespace, name string, data map[string][]byte) cluster.Proposed {
			return owners.OpenStack.WithSecret(namespace, name, data)
		}
		delegation := cluster.NewDelegation(config.Cluster, config.CredentialPolicy(), owners.OpenStack, with, g.objects, holdings)
		g.handle(cluster.DelegationPath, delegation, config.Cluster.Delegation.Mode)
	}
	if owners.Gate == nil {
		return g, nil
	}
	gated := config.Machine
	gated.Unknown = gated.UnknownPolicy(config.Audit.Mode != v1beta1.Off)
	machines := machine.New(gated, clouds.Kinds(config), g.objects, owners.Gate)
	g.handle(machine.Path, machines, config.Machine.Mode)
	err = g.addAudit(kubernetes, config, owners, leaseNamespace)
	return g, err
}

func (g *kubernetesGates) addKeystonePolicy(kubernetes *rest.Config, config v1beta1.KeystonePolicy) error {
	client, err := corev1client.NewForConfig(kubernetes)
	if err != nil {
		return err
	}
	base := keystone.NewBase(config, client)
	gate, err := keystone.New(config, base)
	if err != nil {
		return err
	}
	g.handle(keystone.Path, gate, config.Mode)
	if len(config.BaseNames()) > 0 {
		g.runnables = append(g.runnables, base)
	}
	return nil
}

func (g *kubernetesGates) addAudit(kubernetes *rest.Config, config v1beta1.GateConfiguration, owners clouds.Owners, leaseNamespace string) error {
	if config.Audit.Mode == v1beta1.Off {
		return nil
	}
	election, err := newElection(kubernetes, leaseNamespace, gates.AuditLease)
	if err != nil {
		return err
	}
	audited := &audit.Controller{
		Audit: clouds.NewAudit(g.objects, owners, config), Recorder: g.recorder, Election: election,
		Synced: g.objects.Synced, Interval: config.Audit.Interval.Duration,
	}
	if config.Audit.Reports {
		if audited.Reports, err = reports.NewWriter(kubernetes, time.Now); err != nil {
			return err
		}
	}
	g.runnables = append(g.runnables, audited)
	return g.objects.OnChange(audited.Changed)
}

// removeReports deletes the reports of an earlier configuration if the audit writes none, again at its interval: a replica with the earlier
// configuration may end later.
func (g *kubernetesGates) removeReports(kubernetes *rest.Config, config v1beta1.Audit) error {
	if config.WritesReports() {
		return nil
	}
	writer, err := reports.NewWriter(kubernetes, time.Now)
	if err != nil {
		return err
	}
	g.runnables = append(g.runnables, manager.RunnableFunc(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := writer.Remove(ctx); err != nil && ctx.Err() == nil {
				logf.FromContext(ctx).Error(err, "reports of an earlier configuration could not be deleted; retrying")
			}
		}, config.Interval.Duration)
		return nil
	}))
	return nil
}

func (g *kubernetesGates) handle(path string, gate webhooks.Gate, mode v1beta1.Mode) {
	g.handlers[path] = webhooks.Handler(gate, mode, g.recorder)
}

func (g *kubernetesGates) register(server webhook.Server) {
	for path, handler := range g.handlers {
		server.Register(path, handler)
	}
}

// synced is a readiness check.
func (g *kubernetesGates) synced(*http.Request) error {
	if err := g.objects.Synced(); err != nil {
		return fmt.Errorf("not everything has been read: %w", err)
	}
	return nil
}
