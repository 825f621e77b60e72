package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/leader"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/controllermanager"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/machine"
)

// auditLease is the Lease by which one of several replicas makes the audit.
const auditLease = "warrantgate-audit"

// owners decides whose instances are, by asking the clouds. The zero value asks none.
type owners struct {
	cloudAccess
	openStack *openstack.Cloud // nil where there is no access to one
	clouds    map[string]ownership.Cloud
	gate      *ownership.Gate // nil where there is no access to a cloud
	// writes are those that may not be stored yet.
	writes *inflight.Registry
}

// newOwners returns what decides with the access that the flags give. kubernetes is where a Secret would be read; it may be
// nil.
func newOwners(kubernetes *rest.Config, config v1beta1.GateConfiguration, flags cloudFlags, log logr.Logger) (owners, error) {
	o := owners{clouds: map[string]ownership.Cloud{}, writes: &inflight.Registry{}}
	var err error
	if o.cloudAccess, err = flags.access(config.CloudSigma, kubernetes, log); err != nil {
		return o, err
	}
	if o.openStack, err = newOpenStack(config.OpenStack, kubernetes); err != nil {
		return o, err
	}
	limits := map[string]int32{}
	if o.cloud != nil {
		name := string(v1beta1.ProviderCloudSigma)
		o.clouds[name], limits[name] = o.cloud, config.CloudSigma.Concurrency
	}
	if o.openStack != nil {
		name := string(v1beta1.ProviderOpenStack)
		o.clouds[name], limits[name] = o.openStack, config.OpenStack.Concurrency
	}
	if len(o.clouds) > 0 {
		o.gate, err = ownership.NewGate(o.clouds, limits)
	}
	return o, err
}

// Start frees at the end what the gate holds.
func (o owners) Start(ctx context.Context) error {
	<-ctx.Done()
	o.gate.Close()
	return nil
}

func (o owners) options(config v1beta1.GateConfiguration) clusterapi.Options {
	return clusterapi.Options{
		Kinds: kinds(config), SharedAccount: o.cloud != nil && !o.impersonating, ExemptNamespaces: config.Cluster.ExemptNamespaces,
	}
}

// holdings returns what holds changes of clusters against the instances of machines, nil where machines are not gated.
func (o owners) holdings(config v1beta1.GateConfiguration, machines cluster.Machines, in logicalcluster.Name) *cluster.Holdings {
	if o.gate == nil || config.Machine.Mode == v1beta1.Off {
		return nil
	}
	return cluster.NewHoldings(machines, o.gate, o.writes, in.String())
}

// kubernetesGates are the gates on the objects of Cluster API, and what they need. The zero value is none of them.
type kubernetesGates struct {
	recorder *events.Recorder
	// objects is nil where nothing that is on looks at any.
	objects   *clusterapi.Objects
	runnables []manager.Runnable
	handlers  map[string]http.Handler
}

// newKubernetesGates returns the gates of the API server that kubernetes reaches.
func newKubernetesGates(kubernetes *rest.Config, config v1beta1.GateConfiguration, owners owners, leaseNamespace string) (kubernetesGates, error) {
	if owners.gate == nil && (config.Machine.Mode != v1beta1.Off || config.Audit.Mode != v1beta1.Off) {
		return kubernetesGates{}, errors.New("machine.mode and audit.mode need an access to a cloud: give --impersonation-enabled and the " +
			"flags that say as whom CloudSigma is asked, configure openStack.authURLs, or set both modes to Off")
	}
	writer, err := events.NewKubernetesWriter(kubernetes)
	if err != nil {
		return kubernetesGates{}, err
	}
	g := kubernetesGates{recorder: events.NewRecorder(writer), handlers: map[string]http.Handler{}}
	if config.ReadsClusters() {
		options := owners.options(config)
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
	holdings := owners.holdings(config, g.objects, "")
	g.handle(cluster.Path, cluster.NewImpersonation(config.Cluster, impersonation.NewChecker(reviewer), g.objects, holdings), config.Cluster.Impersonation.Mode)
	policies, err := keystone.New(config.KeystonePolicy)
	if err != nil {
		return kubernetesGates{}, err
	}
	g.handle(keystone.Path, policies, config.KeystonePolicy.Mode)
	managers := config.ControllerManager
	g.handle(controllermanager.IdentityPath, controllermanager.NewIdentity(managers, owners.impersonating, g.objects), managers.Mode)
	g.handle(controllermanager.IntegrityPath, controllermanager.NewIntegrity(managers, owners.impersonating, g.objects), managers.Mode)
	if owners.openStack != nil {
		with := func(namespace, name string, data map[string][]byte) cluster.Proposed {
			return owners.openStack.WithSecret(namespace, name, data)
		}
		delegation := cluster.NewDelegation(config.Cluster, config.RolePolicy(), owners.openStack, with, g.objects, holdings)
		g.handle(cluster.DelegationPath, delegation, config.Cluster.Delegation.Mode)
	}
	if owners.gate == nil {
		return g, nil
	}
	g.handle(machine.Path, machine.New(config.Machine, kinds(config), g.objects, owners.gate).Sharing(owners.writes, g.objects.Version, ""), config.Machine.Mode)
	err = g.addAudit(kubernetes, config, owners, leaseNamespace)
	return g, err
}

func (g *kubernetesGates) addAudit(kubernetes *rest.Config, config v1beta1.GateConfiguration, owners owners, leaseNamespace string) error {
	if config.Audit.Mode == v1beta1.Off {
		return nil
	}
	election, err := leader.NewElection(kubernetes, leaseNamespace, auditLease)
	if err != nil {
		return err
	}
	g.runnables = append(g.runnables, &audit.Controller{
		Audit: newAudit(g.objects, owners, config), Recorder: g.recorder, Election: election,
		Synced: g.objects.Synced, Interval: config.Audit.Interval.Duration,
	})
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

// synced is a check of readiness.
func (g *kubernetesGates) synced(*http.Request) error {
	if err := g.objects.Synced(); err != nil {
		return fmt.Errorf("not everything has been read: %w", err)
	}
	return nil
}

func kinds(config v1beta1.GateConfiguration) []clusterapi.Kind {
	var kinds []clusterapi.Kind
	for _, kind := range config.MachineKinds() {
		read := clusterapi.Kind{MachineKind: kind, ParseInstanceID: ownership.ParseInstanceID, ParseProviderID: cloudsigma.ParseProviderID}
		if kind.Provider == v1beta1.ProviderOpenStack {
			read.ParseProviderID = openstack.ParseProviderID
		}
		kinds = append(kinds, read)
	}
	return kinds
}

// newAudit returns the audit, with as many requests to each cloud per second at most as the configuration says.
func newAudit(objects audit.Objects, owners owners, config v1beta1.GateConfiguration) *audit.Audit {
	limiters := map[string]*rate.Limiter{}
	for name := range owners.clouds {
		limiters[name] = limiter(config.Audit.RequestsPerSecond)
	}
	a := &audit.Audit{Objects: objects, Clouds: owners.clouds, Limiter: limiters}
	if owners.openStack != nil && config.Cluster.Delegation.Mode != v1beta1.Off {
		a.Delegation = func(ctx context.Context, identity ownership.Identity) error {
			_, err := owners.openStack.DelegationNow(ctx, identity, config.RolePolicy())
			return err
		}
	}
	return a
}
