package v1beta1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterDelegation configures the gate on the credentials that a cluster on OpenStack uses.
type ClusterDelegation struct {
	Mode    Mode          `json:"mode,omitzero"`
	Through DelegationWay `json:"through,omitzero"`
	// Kinds that refer to credentials, besides OpenStackCluster, OpenStackMachine and Secret.
	Kinds                              []CredentialKind   `json:"kinds,omitzero"`
	Operators                          OpenStackOperators `json:"operators,omitzero"`
	UnrestrictedApplicationCredentials UnrestrictedPolicy `json:"unrestrictedApplicationCredentials,omitzero"`
}

// OpenStackOperators are users and projects of the cloud operator, whose credentials are denied.
type OpenStackOperators struct {
	// Users that no cluster may act as, such as {name: admin, domain: Default}.
	Users []OpenStackPrincipal `json:"users,omitzero"`
	// Projects that no cluster may act in, such as {name: capi-mgmt}.
	Projects []OpenStackPrincipal `json:"projects,omitzero"`
}

// OpenStackPrincipal describes users or projects. All fields that are set must match. At least one is required.
// +kubebuilder:validation:MinProperties=1
type OpenStackPrincipal struct {
	// ID is compared exactly.
	ID string `json:"id,omitzero"`
	// Name is a pattern without regard to case: "*" matches any characters, "?" one character, "[a-z]" a range.
	Name string `json:"name,omitzero"`
	// Domain is its ID, or a pattern of its name. Default: any.
	Domain string `json:"domain,omitzero"`
}

// UnrestrictedPolicy is what happens to application credentials that can create further ones.
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
	// Trust is what Magnum uses: the identity of the Secret creates a trust. By default, Keystone denies that to application credentials.
	Trust DelegationWay = "Trust"
)

// Roles configures which OpenStack roles may be delegated to a cluster. Their case is ignored.
type Roles struct {
	// Required are roles without which a cluster does not work. Default: load-balancer_member.
	Required []string `json:"required,omitzero"`
	// Allowed are roles that may be delegated, too. Default: member, load-balancer_member, reader.
	Allowed []string `json:"allowed,omitzero"`
	// Denied are roles that must not be delegated. admin is always one.
	Denied []string `json:"denied,omitzero"`
}

// OpenStack configures the requests to OpenStack. The credentials are those of the clusters.
type OpenStack struct {
	// AuthURLs are the Keystones that a clouds.yaml may name, such as https://keystone.example.com:5000/v3. Without any, objects of OpenStack are not
	// evaluated.
	// +kubebuilder:validation:items:Format=url
	AuthURLs []string `json:"authURLs,omitzero"`
	// CAFile is a file of trusted CAs besides those of a Secret, in PEM. Default: those of the system.
	CAFile string `json:"caFile,omitzero"`
	// Concurrency limits the concurrent requests, which tenants share. Default: 16.
	Concurrency int32 `json:"concurrency,omitzero"`
}

// Enabled reports whether objects of OpenStack are evaluated.
func (o OpenStack) Enabled() bool { return len(o.AuthURLs) > 0 }

// KeystonePolicy configures the gate on ConfigMaps and Secrets with a policy for Keystone.
type KeystonePolicy struct {
	Mode Mode `json:"mode,omitzero"`
	// Selector selects ConfigMaps and Secrets by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitzero"`
	// Objects selects them by their names, whatever their labels. Use it if Pods mount them: they can be created again without labels.
	Objects []NamedObject `json:"objects,omitzero"`
	// Keys with a policy, such as policy.yaml. Default: all.
	// +kubebuilder:validation:items:Format=key
	Keys []string `json:"keys,omitzero"`
	// Base are the policies that Keystone loads before the checked ones, in its order. Overrides may refer to their rules, and are compared
	// with them. Only operators may write them. Default: those of Keystone.
	Base []KeystonePolicyBase `json:"base,omitzero"`
	// KeystoneRelease is the release of OpenStack, from "2022.2" (default) to "2026.2", or its name, such as "caracal".
	// +kubebuilder:validation:Format=release
	KeystoneRelease string `json:"keystoneRelease,omitzero"`
	// ManagerRoles are the roles of managers of one domain. Default: manager.
	ManagerRoles []string `json:"managerRoles,omitzero"`
	// ManagedRoles are those that managers may grant. Default: member and load-balancer_member (SCS standard scs-0302).
	ManagedRoles []string `json:"managedRoles,omitzero"`
	// KnownRules are patterns of rules of extensions of Keystone, such as "identity:scim_*". What they grant is not checked.
	KnownRules []string `json:"knownRules,omitzero"`
}

// IsConfigured reports whether a field other than the mode is set. The gate needs no cloud, so only such a field shows that it is wanted: an
// operator with an OpenStack may have no policies for Keystone in this API server.
func (p KeystonePolicy) IsConfigured() bool {
	unset := Default().KeystonePolicy
	unset.Mode = p.Mode
	return !equality.Semantic.DeepEqual(p, unset)
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
	// +required
	// +kubebuilder:validation:Format=namespace
	Namespace string `json:"namespace"`
	// +required
	// +kubebuilder:validation:Format=name
	Name string `json:"name"`
	// Keys with a policy, in the order in which Keystone loads them. Default: all, in the order of their names.
	// +kubebuilder:validation:items:Format=key
	Keys []string `json:"keys,omitzero"`
}
