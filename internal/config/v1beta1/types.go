// Package v1beta1 is the configuration file of warrantgate: config.warrantgate.dev/v1beta1, GateConfiguration. Package config reads it.
//
// The file configures decisions. Flags configure addresses, certificates and kubeconfigs. Nothing is configured by both.
//
// +groupName=config.warrantgate.dev
package v1beta1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion is the apiVersion of the file.
	APIVersion = "config.warrantgate.dev/v1beta1"
	// Kind is the kind of the file.
	Kind = "GateConfiguration"
)

// Mode is what happens with the decisions of a gate. Default: Enforce; Off for controllerManager and keystonePolicy without selector and
// objects.
type Mode string

const (
	// Enforce changes and denies.
	Enforce Mode = "Enforce"
	// Warn admits all requests without a change. Admission warnings, Events and metrics say what would have happened.
	Warn Mode = "Warn"
	// Off evaluates nothing.
	Off Mode = "Off"
)

// +kubebuilder:object:root=true

// GateConfiguration is the whole file. An empty list means none.
type GateConfiguration struct {
	// All fields have omitzero: marshaling omits fields that the file omits, and keeps empty lists.

	metav1.TypeMeta `json:",inline"`

	Delegation        Delegation        `json:"delegation,omitzero"`
	Workspace         Workspace         `json:"workspace,omitzero"`
	Repair            Repair            `json:"repair,omitzero"`
	Machine           Machine           `json:"machine,omitzero"`
	Cluster           Cluster           `json:"cluster,omitzero"`
	ControllerManager ControllerManager `json:"controllerManager,omitzero"`
	Audit             Audit             `json:"audit,omitzero"`
	CloudSigma        CloudSigma        `json:"cloudSigma,omitzero"`
	OpenStack         OpenStack         `json:"openStack,omitzero"`
	KeystonePolicy    KeystonePolicy    `json:"keystonePolicy,omitzero"`
}

// MachineKinds returns all kinds of machines that are evaluated: the built-in ones and those of the file.
func (c GateConfiguration) MachineKinds() []MachineKind {
	kinds := []MachineKind{cloudSigmaMachine}
	if c.OpenStack.Enabled() {
		kinds = append(kinds, openStackMachine)
	}
	return append(kinds, c.Machine.Kinds...)
}

// HasExternalKinds reports whether there are kinds of machines whose cloud is not asked.
func (c GateConfiguration) HasExternalKinds() bool {
	return slices.ContainsFunc(c.Machine.Kinds, func(kind MachineKind) bool { return kind.Provider.IsExternal() })
}

// ReadsMachines reports whether a gate or the audit reads machines on Kubernetes besides the one of the request.
func (c GateConfiguration) ReadsMachines() bool {
	return c.Machine.Mode != Off || c.Audit.Mode != Off
}

// ReadsClusters reports whether a gate or the audit reads clusters on Kubernetes and their Secrets.
func (c GateConfiguration) ReadsClusters() bool {
	return c.ReadsMachines() || c.Cluster.Impersonation.Mode != Off || c.ControllerManager.Mode != Off ||
		c.OpenStack.Enabled() && c.Cluster.Delegation.Mode != Off
}

// Delegation is which delegations all gates accept.
type Delegation struct {
	// KeepWarrants selects warrants that a user without scopes keeps as the owner, never those with administrator groups.
	KeepWarrants   KeepWarrants `json:"keepWarrants,omitzero"`
	OpenStackRoles Roles        `json:"openStackRoles,omitzero"`
}

// KeepWarrants are patterns of names: "*" matches any characters except "/", "?" one character, "[a-z]" a range.
type KeepWarrants struct {
	// Users whose warrants are kept.
	Users []string `json:"users,omitzero"`
	// Groups keep a warrant if all of its groups match. system:authenticated always matches.
	Groups []string `json:"groups,omitzero"`
}

// Workspace configures the gates on kcp Workspaces.
type Workspace struct {
	// OwnerRewrite replaces a foreign owner by one that is valid in the workspace.
	OwnerRewrite Gate `json:"ownerRewrite,omitzero"`
	// OwnerIntegrity denies forged owners.
	OwnerIntegrity Gate `json:"ownerIntegrity,omitzero"`
}

// Gate is what all gates have.
type Gate struct {
	Mode Mode `json:"mode,omitzero"`
}

// NamedObject names an object of each kind that the gate evaluates.
type NamedObject struct {
	// +required
	// +kubebuilder:validation:Format=namespace
	Namespace string `json:"namespace"`
	// +required
	// +kubebuilder:validation:Format=name
	Name string `json:"name"`
}

// Repair configures the repair of workspaces whose recorded owner is foreign in them.
type Repair struct {
	Mode Mode `json:"mode,omitzero"`
	// After is the time in Initializing after which a workspace is stuck, such as 90s. Default: 1m.
	After metav1.Duration `json:"after,omitzero"`
	// WorkspacesPerSecond limits how many are checked and repaired. Default: 50.
	WorkspacesPerSecond int32 `json:"workspacesPerSecond,omitzero"`
}
