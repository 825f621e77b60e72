package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1alpha1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/leader"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/controllermanager"
	"warrantgate.dev/webhooks/machine"
)

// auditLease is the Lease by which one of several replicas makes the audit.
const auditLease = "warrantgate-audit"

// owners decides whose instances are, by asking the clouds. The zero value asks none.
type owners struct {
	cloudAccess
	clouds map[string]ownership.Cloud
	gate   *ownership.Gate // nil where there is no access to a cloud
}

// newOwners returns what decides with the access that the flags give. kubernetes is where a Secret would be read; it may be
// nil.
func newOwners(kubernetes *rest.Config, config v1alpha1.GateConfiguration, flags cloudFlags, log logr.Logger) (owners, error) {
	access, err := flags.access(config.CloudSigma, kubernetes, log)
	if err != nil || access.cloud == nil {
		return owners{cloudAccess: access}, err
	}
	o := owners{cloudAccess: access, clouds: map[string]ownership.Cloud{string(v1alpha1.ProviderCloudSigma): access.cloud}}
	o.gate, err = ownership.NewGate(o.clouds, config.CloudSigma.Concurrency)
	return o, err
}

// Start frees at the end what the gate holds.
func (o owners) Start(ctx context.Context) error {
	<-ctx.Done()
	o.gate.Close()
	return nil
}

func (o owners) options(config v1alpha1.GateConfiguration) clusterapi.Options {
	return clusterapi.Options{Kinds: kinds(config), SharedAccount: o.cloud != nil && !o.impersonating}
}

// kubernetesGates are the gates on the objects of Cluster API, and what they need. The zero value is none of them.
type kubernetesGates struct {
	recorder  *events.Recorder
	objects   *clusterapi.Objects
	runnables []manager.Runnable
	handlers  map[string]http.Handler
}

// newKubernetesGates returns the gates of the API server that kubernetes reaches.
func newKubernetesGates(kubernetes *rest.Config, config v1alpha1.GateConfiguration, owners owners, leaseNamespace string) (kubernetesGates, error) {
	if owners.gate == nil && (config.Machine.Mode != v1alpha1.Off || config.Audit.Mode != v1alpha1.Off) {
		return kubernetesGates{}, errors.New("machine.mode and audit.mode need an access to CloudSigma: give --impersonation-enabled and the " +
			"flags that say as whom, or set both modes to Off")
	}
	writer, err := events.NewKubernetesWriter(kubernetes)
	if err != nil {
		return kubernetesGates{}, err
	}
	g := kubernetesGates{recorder: events.NewRecorder(writer), handlers: map[string]http.Handler{}}
	if g.objects, err = clusterapi.NewObjects(kubernetes, owners.options(config)); err != nil {
		return kubernetesGates{}, err
	}
	g.runnables = append(g.runnables, g.objects)
	reviewer, err := cluster.NewReviewer(kubernetes)
	if err != nil {
		return kubernetesGates{}, err
	}
	g.handle(cluster.Path, cluster.New(config.Cluster.Impersonation.Mode, reviewer, g.objects), config.Cluster.Impersonation.Mode)
	managers := config.ControllerManager
	g.handle(controllermanager.IdentityPath, controllermanager.NewIdentity(managers, owners.impersonating, g.objects), managers.Mode)
	g.handle(controllermanager.IntegrityPath, controllermanager.NewIntegrity(managers, owners.impersonating, g.objects), managers.Mode)
	if owners.gate == nil {
		return g, nil
	}
	g.handle(machine.Path, machine.New(config.Machine, kinds(config), g.objects, owners.gate), config.Machine.Mode)
	err = g.addAudit(kubernetes, config.Audit, owners, leaseNamespace)
	return g, err
}

func (g *kubernetesGates) addAudit(kubernetes *rest.Config, config v1alpha1.Audit, owners owners, leaseNamespace string) error {
	if config.Mode == v1alpha1.Off {
		return nil
	}
	election, err := leader.NewElection(kubernetes, leaseNamespace, auditLease)
	if err != nil {
		return err
	}
	g.runnables = append(g.runnables, &audit.Controller{
		Audit: newAudit(g.objects, owners.clouds, config.Rate), Recorder: g.recorder, Election: election,
		Synced: g.objects.Synced, Interval: config.Interval.Duration,
	})
	return nil
}

func (g *kubernetesGates) handle(path string, gate webhooks.Gate, mode v1alpha1.Mode) {
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

func kinds(config v1alpha1.GateConfiguration) []clusterapi.Kind {
	var kinds []clusterapi.Kind
	for _, kind := range config.MachineKinds() {
		kinds = append(kinds, clusterapi.Kind{
			MachineKind: kind, ParseInstanceID: cloudsigma.ParseInstanceID, ParseProviderID: cloudsigma.ParseProviderID,
		})
	}
	return kinds
}

// newAudit returns the audit, with so many requests to each cloud per second at most.
func newAudit(objects audit.Objects, clouds map[string]ownership.Cloud, perSecond int32) *audit.Audit {
	limiters := map[string]*rate.Limiter{}
	for name := range clouds {
		limiters[name] = limiter(perSecond)
	}
	return &audit.Audit{Objects: objects, Clouds: clouds, Limiter: limiters}
}
