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

// kubernetesGates are the gates on the objects of Cluster API, and what they need. The zero value is none of them.
type kubernetesGates struct {
	recorder  *events.Recorder
	objects   *clusterapi.Objects
	runnables []manager.Runnable
	handlers  map[string]http.Handler
}

// newKubernetesGates returns the gates of the API server that kubernetes reaches.
func newKubernetesGates(
	kubernetes *rest.Config, config v1alpha1.GateConfiguration, flags cloudFlags, leaseNamespace string, log logr.Logger,
) (kubernetesGates, error) {
	access, err := flags.access(config.CloudSigma, kubernetes, log)
	if err != nil {
		return kubernetesGates{}, err
	}
	if access.cloud == nil && (config.Machine.Mode != v1alpha1.Off || config.Audit.Mode != v1alpha1.Off) {
		return kubernetesGates{}, errors.New("machine.mode and audit.mode need an access to CloudSigma: give --impersonation-enabled and the " +
			"flags that say as whom, or set both modes to Off")
	}
	writer, err := events.NewKubernetesWriter(kubernetes)
	if err != nil {
		return kubernetesGates{}, err
	}
	g := kubernetesGates{recorder: events.NewRecorder(writer), handlers: map[string]http.Handler{}}
	if g.objects, err = newObjects(kubernetes, config, access); err != nil {
		return kubernetesGates{}, err
	}
	g.runnables = append(g.runnables, g.objects)
	reviewer, err := cluster.NewReviewer(kubernetes)
	if err != nil {
		return kubernetesGates{}, err
	}
	g.handle(cluster.Path, cluster.New(config.Cluster.Impersonation.Mode, reviewer, g.objects), config.Cluster.Impersonation.Mode)
	managers := config.ControllerManager
	g.handle(controllermanager.IdentityPath, controllermanager.NewIdentity(managers, access.impersonating, g.objects), managers.Mode)
	g.handle(controllermanager.IntegrityPath, controllermanager.NewIntegrity(managers, access.impersonating, g.objects), managers.Mode)
	if access.cloud == nil {
		return g, nil
	}
	err = g.addCloud(kubernetes, config, access.cloud, leaseNamespace)
	return g, err
}

// addCloud adds what asks the cloud: the gate on machines and the audit.
func (g *kubernetesGates) addCloud(kubernetes *rest.Config, config v1alpha1.GateConfiguration, cloud ownership.Cloud, leaseNamespace string) error {
	clouds := map[string]ownership.Cloud{string(v1alpha1.ProviderCloudSigma): cloud}
	owners, err := ownership.NewGate(clouds, config.CloudSigma.Concurrency)
	if err != nil {
		return err
	}
	g.runnables = append(g.runnables, manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		owners.Close()
		return nil
	}))
	g.handle(machine.Path, machine.New(config.Machine, kinds(config), g.objects, owners), config.Machine.Mode)
	if config.Audit.Mode == v1alpha1.Off {
		return nil
	}
	election, err := leader.NewElection(kubernetes, leaseNamespace, auditLease)
	if err != nil {
		return err
	}
	g.runnables = append(g.runnables, &audit.Controller{
		Audit: newAudit(g.objects, clouds, config.Audit.Rate), Recorder: g.recorder, Election: election,
		Synced: g.objects.Synced, Interval: config.Audit.Interval.Duration,
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

func newObjects(kubernetes *rest.Config, config v1alpha1.GateConfiguration, access cloudAccess) (*clusterapi.Objects, error) {
	return clusterapi.NewObjects(kubernetes, clusterapi.Options{Kinds: kinds(config), SharedAccount: access.cloud != nil && !access.impersonating})
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
