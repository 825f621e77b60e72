// Package v1beta1 is the configuration file of warrantgate: config.warrantgate.dev/v1beta1, GateConfiguration. Package config reads it.
//
// The file configures decisions. Flags configure addresses, certificates and kubeconfigs. Nothing is configured by both.
package v1beta1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion is the apiVersion of the file.
	APIVersion = "config.warrantgate.dev/v1beta1"
	// Kind is the kind of the file.
	Kind = "GateConfiguration"
)

// Mode says what becomes of a gate's verdicts.
type Mode string

const (
	// Enforce carries verdicts out: changes are made and refusals refuse. The default.
	Enforce Mode = "Enforce"
	// Warn changes and refuses nothing. What would have happened is an admission warning, an Event and a metric.
	Warn Mode = "Warn"
	// Off judges nothing.
	Off Mode = "Off"
)

// UnmarshalJSON reads Off also without quotes, which YAML 1.1 takes for false.
func (m *Mode) UnmarshalJSON(raw []byte) error {
	if string(raw) == "false" {
		*m = Off
	} else if json.Unmarshal(raw, (*string)(m)) != nil {
		*m = Mode(raw) // not a text, which validation reports with the path of the field
	}
	return nil
}

// GateConfiguration is the whole file. Written out, it has what was written into it: nothing of what was left out, and the lists
// that are empty, which is to say none.
type GateConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Delegation says which delegations may be passed on. It is one policy for all gates.
	Delegation Delegation `json:"delegation,omitzero"`
	// Workspace configures the gates on kcp Workspaces.
	Workspace Workspace `json:"workspace,omitzero"`
	// Repair configures the healing of kcp workspaces that were made while no gate was there.
	Repair Repair `json:"repair,omitzero"`
	// Machine configures the gate on machine objects of Cluster API providers.
	Machine Machine `json:"machine,omitzero"`
	// Cluster configures the gates on cluster objects of Cluster API providers.
	Cluster Cluster `json:"cluster,omitzero"`
	// ControllerManager configures the gate on the Deployments, DaemonSets and StatefulSets of cloud controller managers.
	ControllerManager ControllerManager `json:"controllerManager,omitzero"`
	// Audit configures the pass over existing machines.
	Audit Audit `json:"audit,omitzero"`
	// CloudSigma says how CloudSigma is asked.
	CloudSigma CloudSigma `json:"cloudSigma,omitzero"`
	// OpenStack says how OpenStack is asked.
	OpenStack OpenStack `json:"openStack,omitzero"`
	// KeystonePolicy configures the gate on policies for Keystone.
	KeystonePolicy KeystonePolicy `json:"keystonePolicy,omitzero"`
}

// MachineKinds returns all kinds of machines that are judged: those built in and those of the file.
func (c GateConfiguration) MachineKinds() []MachineKind {
	builtIn := []MachineKind{cloudSigmaMachine}
	if c.OpenStack.Enabled() {
		builtIn = append(builtIn, openStackMachine)
	}
	return append(builtIn, c.Machine.Kinds...)
}

// ReadsMachines tells whether anything that is on looks at machines on Kubernetes beside the one that it judges.
func (c GateConfiguration) ReadsMachines() bool {
	return c.Machine.Mode != Off || c.Audit.Mode != Off
}

// ReadsClusters tells whether anything that is on looks at the clusters of machines on Kubernetes, and at their Secrets.
func (c GateConfiguration) ReadsClusters() bool {
	return c.ReadsMachines() || c.Cluster.Impersonation.Mode != Off || c.ControllerManager.Mode != Off ||
		c.OpenStack.Enabled() && c.Cluster.Delegation.Mode != Off
}

// Delegation is the delegation policy.
type Delegation struct {
	// KeepWarrants names warrants that a creator arrived with and that its recorded owner may keep. Default: none,
	// because such warrants were lent for one request. A warrant with an administrator's power is never kept.
	KeepWarrants KeepWarrants `json:"keepWarrants,omitzero"`
	// OpenStackRoles says which roles in OpenStack may be delegated to a cluster.
	OpenStackRoles Roles `json:"openStackRoles,omitzero"`
}

// KeepWarrants holds patterns of names: "*" stands for any run of characters but "/", "?" for one, "[a-z]" for a range.
type KeepWarrants struct {
	// Users are the users whose warrants are kept.
	Users []string `json:"users,omitzero"`
	// Groups keep a warrant all of whose groups match. system:authenticated need not be named.
	Groups []string `json:"groups,omitzero"`
}

// Workspace configures the gates on kcp Workspaces.
type Workspace struct {
	// OwnerRewrite is the gate that gives a workspace an owner that kcp can act as.
	OwnerRewrite Gate `json:"ownerRewrite,omitzero"`
	// OwnerIntegrity is the gate that keeps the recorded owner from being forged. `warrantgate install kcp` reads
	// the mode as well, because an admission policy holds the same rule while no warrantgate is running.
	OwnerIntegrity Gate `json:"ownerIntegrity,omitzero"`
}

// Gate is what every gate has.
type Gate struct {
	// Mode is Enforce, Warn or Off. Default: Enforce.
	Mode Mode `json:"mode,omitzero"`
}

// Repair is the healing of workspaces whose recorded owner is foreign in them.
type Repair struct {
	// Mode is Enforce, Warn or Off. Default: Enforce. Warn writes nothing and reports what would be healed, as Events.
	Mode Mode `json:"mode,omitzero"`
	// After is how long a workspace may be in Initializing before it counts as stuck, such as 90s. Default: 1m.
	After metav1.Duration `json:"after,omitzero"`
	// WorkspacesPerSecond is how many workspaces are looked into, and healed where it has to be, at most. Default: 50.
	WorkspacesPerSecond int32 `json:"workspacesPerSecond,omitzero"`
}
