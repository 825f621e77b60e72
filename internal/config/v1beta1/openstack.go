package v1beta1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterDelegation configures the gate on the credentials that a cluster on OpenStack uses.
type ClusterDelegation struct {
	// Mode is Enforce, Warn or Off. Default: Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Through is how roles are delegated to a cluster. Default: ApplicationCredential.
	Through DelegationWay `json:"through,omitzero"`
	// Kinds are further kinds of objects that refer to credentials. OpenStackCluster, OpenStackMachine and Secret are built in.
	Kinds []CredentialKind `json:"kinds,omitzero"`
	// Operators are users and projects of the cloud operator. Credentials of these are denied. Default: none.
	Operators OpenStackOperators `json:"operators,omitzero"`
	// UnrestrictedApplicationCredentials is what happens to application credentials that can create further ones: Warn or Deny. Default:
	// Warn.
	UnrestrictedApplicationCredentials UnrestrictedPolicy `json:"unrestrictedApplicationCredentials,omitzero"`
}

// OpenStackOperators configures whose credentials are denied: users and projects of the cloud operator.
type OpenStackOperators struct {
	// Users are users that no cluster may act as, such as {name: admin, domain: Default}. Default: none.
	Users []OpenStackPrincipal `json:"users,omitzero"`
	// Projects are projects that no cluster may act in, such as {name: capi-mgmt}. Default: none.
	Projects []OpenStackPrincipal `json:"projects,omitzero"`
}

// OpenStackPrincipal describes users or projects. All fields that are set must match. At least one is required.
// +kubebuilder:validation:MinProperties=1
type OpenStackPrincipal struct {
	// ID is the exact ID, which never changes.
	ID string `json:"id,omitzero"`
	// Name is a pattern of names, compared case-insensitively: "*" matches any characters, "?" one character, "[a-z]" a range.
	Name string `json:"name,omitzero"`
	// Domain is the ID of the domain, or a pattern of its name. Default: any domain.
	Domain string `json:"domain,omitzero"`
}

// UnrestrictedPolicy is what happens to unrestricted application credentials.
type UnrestrictedPolicy string

const (
	// WarnOfUnrestricted admits them with a warning and an Event. The default.
	WarnOfUnrestricted UnrestrictedPolicy = "Warn"
	// DenyUnrestricted denies them.
	DenyUnrestricted UnrestrictedPolicy = "Deny"
)

// DelegationWay is how OpenStack roles are delegated to a cluster.
type DelegationWay string

const (
	// ApplicationCredential is what Cluster API uses: the cluster acts with the credentials of the Secret. The default.
	ApplicationCredential DelegationWay = "ApplicationCredential"
	// Trust is what Magnum uses: the identity of the Secret creates a trust. Keystone does not allow that for application
	// credentials unless it is configured to.
	Trust DelegationWay = "Trust"
)

// Roles configures which OpenStack roles may be delegated to a cluster. Names are compared case-insensitively, as in Keystone's
// policy.
type Roles struct {
	// Required are roles without which a cluster does not work. Default: load-balancer_member.
	Required []string `json:"required,omitzero"`
	// Allowed are roles that may be delegated in addition to the required ones. Default: member, load-balancer_member, reader.
	Allowed []string `json:"allowed,omitzero"`
	// Denied are roles that must not be delegated. admin is always denied.
	Denied []string `json:"denied,omitzero"`
}

// OpenStack configures the requests to OpenStack. The credentials come from the Secrets that clusters refer to.
type OpenStack struct {
	// AuthURLs are the Keystone URLs that a clouds.yaml may name, such as https://keystone.example.com:5000/v3. Default: none, so
	// that objects of OpenStack are not evaluated.
	// +kubebuilder:validation:items:Format=url
	AuthURLs []string `json:"authURLs,omitzero"`
	// CAFile is a file of trusted CA certificates besides those of a Secret, in PEM. Default: those of the system.
	CAFile string `json:"caFile,omitzero"`
	// Concurrency limits the concurrent requests to the cloud, which tenants share. Default: 16.
	Concurrency int32 `json:"concurrency,omitzero"`
}

// Enabled reports whether objects of OpenStack are evaluated.
func (o OpenStack) Enabled() bool { return len(o.AuthURLs) > 0 }

// KeystonePolicy configures the gate on ConfigMaps and Secrets with a policy for Keystone.
type KeystonePolicy struct {
	// Mode is Enforce, Warn or Off. Default: Off without selector and objects, Enforce otherwise.
	Mode Mode `json:"mode,omitzero"`
	// Selector selects the ConfigMaps and Secrets by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitzero"`
	// Objects selects ConfigMaps and Secrets by their names, whatever their labels. Use it for those that Pods mount by name, because
	// these can be deleted and created again without labels.
	Objects []KeystonePolicyObject `json:"objects,omitzero"`
	// Keys are the keys with a policy, such as policy.yaml. Default: all.
	// +kubebuilder:validation:items:Format=key
	Keys []string `json:"keys,omitzero"`
	// Base are ConfigMaps with the policies that Keystone loads before the checked policies, in its order. Overrides may refer to their rules,
	// and are compared with them. Only operators may have permission to write them. Default: none, and then Keystone's defaults apply.
	Base []KeystonePolicyBase `json:"base,omitzero"`
	// KeystoneRelease is the release of OpenStack whose Keystone loads the policies, from "2022.2" (default) to "2026.2", or its name, such as
	// "caracal".
	// +kubebuilder:validation:Format=release
	KeystoneRelease string `json:"keystoneRelease,omitzero"`
	// ManagerRoles are the roles that manage one domain. Default: manager.
	ManagerRoles []string `json:"managerRoles,omitzero"`
	// ManagedRoles are the roles that managers may grant. Default: member and load-balancer_member (SCS standard scs-0302).
	ManagedRoles []string `json:"managedRoles,omitzero"`
	// KnownRules are patterns of the names of rules that extensions of Keystone evaluate, such as "identity:scim_*". What such a rule
	// grants is not checked. Default: none.
	KnownRules []string `json:"knownRules,omitzero"`
}

// BaseNames are the names of the ConfigMaps of the base, sorted, if the gate is on.
func (p KeystonePolicy) BaseNames() []string {
	if p.Mode == Off {
		return nil
	}
	var names []string
	for _, base := range p.Base {
		names = append(names, base.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// KeystonePolicyBase names a ConfigMap with policies that Keystone loads before others.
type KeystonePolicyBase struct {
	// Namespace of the ConfigMap. Required.
	// +required
	// +kubebuilder:validation:Format=namespace
	Namespace string `json:"namespace"`
	// Name of the ConfigMap. Required.
	// +required
	// +kubebuilder:validation:Format=name
	Name string `json:"name"`
	// Keys are the keys that hold a policy, in the order in which Keystone loads them. Default: all, in the order of their names.
	// +kubebuilder:validation:items:Format=key
	Keys []string `json:"keys,omitzero"`
}

// KeystonePolicyObject names a ConfigMap, a Secret, or one of each.
type KeystonePolicyObject struct {
	// Namespace of the object. Required.
	// +required
	// +kubebuilder:validation:Format=namespace
	Namespace string `json:"namespace"`
	// Name of the object. Required.
	// +required
	// +kubebuilder:validation:Format=name
	Name string `json:"name"`
}
