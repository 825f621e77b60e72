// Package gates lists the gates, their paths and their webhook configurations, which serve and install need, and the canaries with which commands
// find out whether an API server calls the gates.
package gates

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/controllermanager"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/machine"
)

// AuditLease is the Lease of the replica that runs the audit.
const AuditLease = "warrantgate-audit"

// KubernetesRegistration returns the webhook configurations of the gates that are not off, preceded by the policies that the API server
// evaluates itself.
func KubernetesRegistration(server webhooks.Server, config v1beta1.GateConfiguration) []client.Object {
	mutating, validating := controllermanager.Hooks(config.ControllerManager)
	validating = append(validating, machine.Hooks(config.Machine.Mode, config.Machine.UnknownPolicy(config.Audit.Mode != v1beta1.Off), config.MachineKinds())...)
	validating = append(validating, cluster.Hooks(config.Cluster)...)
	if config.OpenStack.Enabled() {
		validating = append(validating, cluster.DelegationHooks(config.Cluster)...)
	}
	validating = append(validating, keystone.Hooks(config.KeystonePolicy)...)
	return append(KubernetesPolicies(config), server.Registration(mutating, validating)...)
}

// KubernetesPolicies returns the policies that the API server evaluates itself.
func KubernetesPolicies(config v1beta1.GateConfiguration) []client.Object {
	return cluster.Policies(config.Cluster, config.CloudSigma.Regions)
}
