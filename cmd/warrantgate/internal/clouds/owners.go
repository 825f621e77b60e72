// Package clouds has the access to the clouds that flags, environment and configuration define, for serve and for the audit.
package clouds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

// Owners determines the owners of instances by requests to the clouds. The zero value sends none.
type Owners struct {
	Access
	// OpenStack is nil if there is no access to an OpenStack.
	OpenStack *openstack.Cloud
	clouds    map[string]ownership.Cloud
	// failures are why there is no access to a cloud although the flags or the configuration give it, by the name of the cloud.
	failures map[string]error
	// Gate is nil if there is no access to any cloud, and no kind of machines that needs none.
	Gate *ownership.Gate
}

// NewOwners returns the Owners for the access that the flags give. It reads Secrets through kubernetes, which may be nil. With an error, the
// Owners send requests to the other clouds only.
func NewOwners(kubernetes *rest.Config, config v1beta1.GateConfiguration, flags Flags, log logr.Logger) (Owners, error) {
	const sigma, stack = string(v1beta1.ProviderCloudSigma), string(v1beta1.ProviderOpenStack)
	o := Owners{clouds: map[string]ownership.Cloud{}, failures: map[string]error{}}
	o.Access, o.failures[sigma] = flags.CloudSigma(config.CloudSigma, kubernetes, log)
	o.OpenStack, o.failures[stack] = newOpenStack(config.OpenStack, kubernetes)
	err := errors.Join(o.failures[sigma], o.failures[stack])
	limits := map[string]int32{}
	if o.Cloud != nil {
		o.clouds[sigma], limits[sigma] = o.Cloud, config.CloudSigma.Concurrency
	}
	if o.OpenStack != nil {
		o.clouds[stack], limits[stack] = o.OpenStack, config.OpenStack.Concurrency
	}
	if len(o.clouds) > 0 || config.HasExternalKinds() {
		o.Gate = ownership.NewGate(o.clouds, limits)
	}
	return o, err
}

// Start logs why the credentials for CloudSigma cannot be read, and releases what the gate holds when ctx ends.
func (o Owners) Start(ctx context.Context) error {
	if o.credentials != nil {
		if _, err := o.credentials(ctx); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "CloudSigma cannot be asked about machines; its credentials are read again when a machine claims a server")
		}
	}
	<-ctx.Done()
	o.Gate.Close()
	return nil
}

// Reaches reports whether requests are sent to a cloud. The error is why not, if the flags or the configuration are wrong.
func (o Owners) Reaches(cloud string) (bool, error) { return o.clouds[cloud] != nil, o.failures[cloud] }

// API returns the URL of the API that requests about an account are sent to. It has the errors of ownership.Cloud.
func (o Owners) API(ctx context.Context, account ownership.Account) (string, error) {
	cloud, known := o.clouds[account.Cloud].(interface {
		API(ctx context.Context, account ownership.Account) (string, error)
	})
	if !known {
		return "", fmt.Errorf("no access to the cloud %q is configured", account.Cloud)
	}
	return cloud.API(ctx, account)
}

// Options returns the options for reading machines and clusters.
func (o Owners) Options(config v1beta1.GateConfiguration) clusterapi.Options {
	return clusterapi.Options{
		Kinds: Kinds(config), SharedAccount: o.Legacy, SharedByAll: o.Legacy && !o.Impersonating,
		DefaultRegion: config.CloudSigma.DefaultRegion, Regions: config.CloudSigma.Regions, ExemptNamespaces: config.Cluster.ExemptNamespaces,
	}
}

// NewExports returns a reader of the machines and clusters of those providers on kcp that the configuration lists.
func NewExports(reached *rest.Config, owners Owners, config v1beta1.GateConfiguration) (*clusterapi.Exports, error) {
	var exports []clusterapi.Export
	for _, provider := range config.Audit.Providers {
		exports = append(exports, clusterapi.Export{Workspace: logicalcluster.NewPath(provider.Workspace), Name: provider.APIExport})
	}
	return clusterapi.NewExports(reached, exports, owners.Options(config))
}

// Kinds returns the kinds of machines of the configuration, with the ID format of their clouds.
func Kinds(config v1beta1.GateConfiguration) []clusterapi.Kind {
	var kinds []clusterapi.Kind
	for _, kind := range config.MachineKinds() {
		parse := cloudsigma.ProviderIDs.Parse
		switch {
		case kind.Provider == v1beta1.ProviderOpenStack:
			parse = openstack.ProviderIDs.Parse
		case kind.Provider.IsExternal():
			parse, _ = ownership.ExternalIDs(kind.IDPattern) // validated with the configuration
		}
		kinds = append(kinds, clusterapi.Kind{MachineKind: kind, ParseInstanceID: ownership.ParseInstanceID, ParseProviderID: parse})
	}
	return kinds
}

// NewAudit returns the audit, for owners with a gate. It sends at most as many requests per second to each cloud as the configuration says.
func NewAudit(objects audit.Objects, owners Owners, config v1beta1.GateConfiguration) *audit.Audit {
	limiters := map[string]*rate.Limiter{}
	for name := range owners.clouds {
		limiters[name] = cli.Limiter(config.Audit.RequestsPerSecond)
	}
	a := &audit.Audit{Objects: objects, Clouds: owners.clouds, Limiter: limiters, Now: time.Now, Confirmed: owners.Gate.Confirmed}
	if owners.OpenStack != nil && config.Cluster.Delegation.Mode != v1beta1.Off {
		a.Delegation = func(ctx context.Context, identity ownership.Identity) error {
			_, err := owners.OpenStack.DelegationNow(ctx, identity, config.CredentialPolicy())
			return err
		}
	}
	return a
}
