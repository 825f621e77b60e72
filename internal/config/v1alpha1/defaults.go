package v1alpha1

import (
	"cmp"
	"time"
)

const (
	defaultRepairAfter    = time.Minute
	defaultRepairRate     = 50
	defaultInstanceIDPath = "status.instanceID"
	defaultProviderIDPath = "spec.providerID"
	defaultClusterLabel   = "cluster.x-k8s.io/cluster-name"
	defaultSecret         = "cloudsigma-impersonation"
	defaultAuditInterval  = 10 * time.Minute
	defaultAuditRate      = 5
	defaultConcurrency    = 16

	// CloudSigma's own places, and what its Keycloak calls them.
	defaultAPI                     = "https://{region}.cloudsigma.com/api/2.0/"
	defaultServiceProviderAPI      = "https://direct.{region}.cloudsigma.com/service_provider/api/v1/"
	defaultTokenPath               = "/realms/cloudsigma/protocol/openid-connect/token"
	defaultServiceProviderAudience = "service_provider_api"
	defaultTokenExchangeAudience   = "cloudsigma-api"
)

// cloudSigmaMachine is the kind that is built in. No file can leave it out: to judge no machines, the mode is Off.
var cloudSigmaMachine = MachineKind{
	Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaMachine", Resource: "cloudsigmamachines",
	InstanceIDPath: defaultInstanceIDPath, ProviderIDPath: defaultProviderIDPath, Provider: ProviderCloudSigma,
}

func setDefaults(config *GateConfiguration) {
	for _, mode := range []*Mode{
		&config.Workspace.OwnerRewrite.Mode, &config.Workspace.OwnerIntegrity.Mode, &config.Repair.Mode,
		&config.Machine.Mode, &config.Cluster.Impersonation.Mode, &config.Audit.Mode,
	} {
		*mode = cmp.Or(*mode, Enforce)
	}
	config.Repair.After.Duration = cmp.Or(config.Repair.After.Duration, defaultRepairAfter)
	config.Repair.Rate = cmp.Or(config.Repair.Rate, defaultRepairRate)
	config.Audit.Interval.Duration = cmp.Or(config.Audit.Interval.Duration, defaultAuditInterval)
	config.Audit.Rate = cmp.Or(config.Audit.Rate, defaultAuditRate)
	setMachineDefaults(&config.Machine)
	setControllerManagerDefaults(&config.ControllerManager)
	setCloudSigmaDefaults(&config.CloudSigma)
}

func setMachineDefaults(machine *Machine) {
	machine.Unknown = cmp.Or(machine.Unknown, Refuse)
	for i := range machine.Kinds {
		kind := &machine.Kinds[i]
		kind.InstanceIDPath = cmp.Or(kind.InstanceIDPath, defaultInstanceIDPath)
		kind.ProviderIDPath = cmp.Or(kind.ProviderIDPath, defaultProviderIDPath)
	}
}

func setControllerManagerDefaults(manager *ControllerManager) {
	if manager.Mode == "" {
		manager.Mode = Enforce
		if manager.Selector == nil {
			manager.Mode = Off
		}
	}
	manager.ClusterNameLabel = cmp.Or(manager.ClusterNameLabel, defaultClusterLabel)
	manager.Secret = cmp.Or(manager.Secret, defaultSecret)
}

func setCloudSigmaDefaults(cloud *CloudSigma) {
	cloud.API = cmp.Or(cloud.API, defaultAPI)
	cloud.ServiceProviderAPI = cmp.Or(cloud.ServiceProviderAPI, defaultServiceProviderAPI)
	cloud.TokenPath = cmp.Or(cloud.TokenPath, defaultTokenPath)
	cloud.Flow = cmp.Or(cloud.Flow, ServiceProvider)
	audience := defaultServiceProviderAudience
	if cloud.Flow == TokenExchange {
		audience = defaultTokenExchangeAudience
	}
	cloud.Audience = cmp.Or(cloud.Audience, audience)
	cloud.Concurrency = cmp.Or(cloud.Concurrency, defaultConcurrency)
}
