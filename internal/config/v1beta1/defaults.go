package v1beta1

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	defaultRepairAfter         = time.Minute
	defaultWorkspacesPerSecond = 50
	defaultInstanceIDPath      = "status.instanceID"
	defaultProviderIDPath      = "spec.providerID"
	defaultIdentityRefPath     = "spec.identityRef"
	defaultClusterLabel        = "cluster.x-k8s.io/cluster-name"
	defaultSecretName          = "cloudsigma-impersonation"
	defaultManagerCommand      = "/ccm"
	defaultAuditInterval       = 10 * time.Minute
	defaultRequestsPerSecond   = 5
	defaultConcurrency         = 16

	// Roles in OpenStack's projects and domains.
	roleMember       = "member"
	roleReader       = "reader"
	roleLoadBalancer = "load-balancer_member"
	roleManager      = "manager"

	// defaultRegion is the default of CloudSigma's provider.
	defaultRegion = "zrh"

	// CloudSigma's own URLs, and the audiences in its Keycloak.
	defaultAPI                     = "https://direct.{region}.cloudsigma.com/api/2.0/"
	defaultLegacyAPI               = "https://{region}.cloudsigma.com/api/2.0/"
	defaultServiceProviderAPI      = "https://direct.{region}.cloudsigma.com/service_provider/api/v1/"
	defaultTokenPath               = "/realms/cloudsigma/protocol/openid-connect/token"
	defaultServiceProviderAudience = "service_provider_api"
	defaultTokenExchangeAudience   = "cloudsigma-api"
)

// cloudSigmaMachine is a built-in kind. A file cannot remove it; the mode Off disables the gate.
var cloudSigmaMachine = MachineKind{
	Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaMachine", Resource: "cloudsigmamachines",
	InstanceIDPath: defaultInstanceIDPath, ProviderIDPath: defaultProviderIDPath, Provider: ProviderCloudSigma,
}

// openStackMachine is a built-in kind if openStack is configured. A file cannot remove it.
var openStackMachine = MachineKind{
	Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "OpenStackMachine", Resource: "openstackmachines",
	InstanceIDPath: defaultInstanceIDPath, ProviderIDPath: defaultProviderIDPath, IdentityRefPath: defaultIdentityRefPath,
	Provider: ProviderOpenStack,
}

// Default returns the configuration without a file.
func Default() GateConfiguration {
	config := GateConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}}
	SetDefaults(&config)
	return config
}

// SetDefaults sets the omitted fields of config. It does not modify slices that a shallow copy of config shares.
func SetDefaults(config *GateConfiguration) {
	for _, mode := range []*Mode{
		&config.Workspace.OwnerRewrite.Mode, &config.Workspace.OwnerIntegrity.Mode, &config.Repair.Mode,
		&config.Machine.Mode, &config.Cluster.Impersonation.Mode, &config.Cluster.Delegation.Mode, &config.Audit.Mode,
	} {
		*mode = cmp.Or(*mode, Enforce)
	}
	config.Repair.After.Duration = cmp.Or(config.Repair.After.Duration, defaultRepairAfter)
	config.Repair.WorkspacesPerSecond = cmp.Or(config.Repair.WorkspacesPerSecond, defaultWorkspacesPerSecond)
	config.Audit.Interval.Duration = cmp.Or(config.Audit.Interval.Duration, defaultAuditInterval)
	config.Audit.RequestsPerSecond = cmp.Or(config.Audit.RequestsPerSecond, defaultRequestsPerSecond)
	setMachineDefaults(&config.Machine)
	setControllerManagerDefaults(&config.ControllerManager)
	setCloudSigmaDefaults(&config.CloudSigma)
	setRoleDefaults(&config.Delegation.OpenStackRoles)
	config.Cluster.Delegation.Through = cmp.Or(config.Cluster.Delegation.Through, ApplicationCredential)
	config.Cluster.Delegation.UnrestrictedApplicationCredentials = cmp.Or(config.Cluster.Delegation.UnrestrictedApplicationCredentials, WarnOfUnrestricted)
	config.Cluster.Delegation.Kinds = slices.Clone(config.Cluster.Delegation.Kinds)
	for i := range config.Cluster.Delegation.Kinds {
		kind := &config.Cluster.Delegation.Kinds[i]
		kind.IdentityRefPath = cmp.Or(kind.IdentityRefPath, defaultIdentityRefPath)
	}
	config.OpenStack.Concurrency = cmp.Or(config.OpenStack.Concurrency, defaultConcurrency)
	setKeystonePolicyDefaults(&config.KeystonePolicy)
}

// setRoleDefaults sets the omitted fields. An empty list is not an omitted one: it means no roles.
func setRoleDefaults(roles *Roles) {
	if roles.Required == nil {
		roles.Required = []string{roleLoadBalancer}
	}
	if roles.Allowed == nil {
		roles.Allowed = []string{roleMember, roleLoadBalancer, roleReader}
	}
}

func setKeystonePolicyDefaults(policy *KeystonePolicy) {
	if len(policy.Objects) > 0 {
		policy.Mode = cmp.Or(policy.Mode, Enforce)
	}
	policy.Mode = modeOf(policy.Mode, policy.Selector)
	if policy.ManagerRoles == nil {
		policy.ManagerRoles = []string{roleManager}
	}
	if policy.ManagedRoles == nil {
		policy.ManagedRoles = []string{roleMember, roleLoadBalancer}
	}
}

// modeOf returns the mode of a gate on the objects that selector selects. The default is Off without a selector.
func modeOf(mode Mode, selector *metav1.LabelSelector) Mode {
	if selector == nil {
		return cmp.Or(mode, Off)
	}
	return cmp.Or(mode, Enforce)
}

func setMachineDefaults(machine *Machine) {
	machine.Kinds = slices.Clone(machine.Kinds)
	for i := range machine.Kinds {
		kind := &machine.Kinds[i]
		if !kind.Provider.IsExternal() {
			kind.InstanceIDPath = cmp.Or(kind.InstanceIDPath, defaultInstanceIDPath)
		}
		kind.ProviderIDPath = cmp.Or(kind.ProviderIDPath, defaultProviderIDPath)
	}
}

func setControllerManagerDefaults(manager *ControllerManager) {
	if len(manager.Objects) > 0 {
		manager.Mode = cmp.Or(manager.Mode, Enforce)
	}
	manager.Mode = modeOf(manager.Mode, manager.Selector)
	manager.ClusterNameLabel = cmp.Or(manager.ClusterNameLabel, defaultClusterLabel)
	manager.SecretName = cmp.Or(manager.SecretName, defaultSecretName)
	if manager.Commands == nil { // an empty list means none
		manager.Commands = []string{defaultManagerCommand}
	}
}

func setCloudSigmaDefaults(cloud *CloudSigma) {
	cloud.DefaultRegion = cmp.Or(cloud.DefaultRegion, defaultRegion)
	cloud.API = cmp.Or(cloud.API, defaultAPI)
	// Who sets only api has a private endpoint, or a proxy, and does not expect that a password is sent to another host.
	legacyAPI := cloud.API
	if legacyAPI == defaultAPI {
		legacyAPI = defaultLegacyAPI
	}
	cloud.LegacyAPI = cmp.Or(cloud.LegacyAPI, legacyAPI)
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
