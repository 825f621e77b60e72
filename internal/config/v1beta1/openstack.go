package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterDelegation configures the gate on the credentials that a cluster on OpenStack acts with.
type ClusterDelegation struct {
	// Mode is Enforce, Warn or Off. Default: Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Through is how the cluster's identity is passed on. Default: ApplicationCredential.
	Through DelegationWay `json:"through,omitzero"`
	// Kinds are further kinds of objects that refer to credentials. OpenStackCluster, OpenStackMachine and Secret are built in.
	Kinds []CredentialKind `json:"kinds,omitzero"`
}

// DelegationWay is a way in which somebody's rights in OpenStack are passed on to a cluster.
type DelegationWay string

const (
	// ApplicationCredential is that of Cluster API: the cluster acts with what the Secret holds. The default.
	ApplicationCredential DelegationWay = "ApplicationCredential"
	// Trust is that of Magnum: the identity of the Secret creates a trust, which Keystone takes from no application
	// credential unless it is told to.
	Trust DelegationWay = "Trust"
)

// Roles says which roles in OpenStack may be delegated to a cluster. Roles are compared without regard to case, as Keystone
// itself does in its policy.
type Roles struct {
	// Required are the roles without which a cluster does not work. Default: load-balancer_member.
	Required []string `json:"required,omitzero"`
	// Allowed are the roles that may be delegated, besides those required. Default: member, load-balancer_member, reader.
	Allowed []string `json:"allowed,omitzero"`
	// Denied are roles that are refused by name. admin always is, whatever the file says.
	Denied []string `json:"denied,omitzero"`
}

// OpenStack says how OpenStack is asked. As whom is said by the Secrets that clusters refer to.
type OpenStack struct {
	// AuthURLs are the identity endpoints that a clouds.yaml may name, such as https://keystone.example.com:5000/v3. Default:
	// none, and then objects of OpenStack are not judged.
	AuthURLs []string `json:"authURLs,omitzero"`
	// CAFile holds the certificate authorities to trust besides those of a Secret, in PEM. Default: those of the system.
	CAFile string `json:"caFile,omitzero"`
	// Concurrency is how many questions are put to the cloud at the same time at most. Default: 16.
	Concurrency int32 `json:"concurrency,omitzero"`
}

// Enabled is true where objects of OpenStack are judged.
func (o OpenStack) Enabled() bool { return len(o.AuthURLs) > 0 }

// KeystonePolicy configures the gate on ConfigMaps and Secrets that hold a policy for Keystone.
type KeystonePolicy struct {
	// Mode is Enforce, Warn or Off. Default: Off, as long as neither selector nor objects say which objects they are, else Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Selector picks the ConfigMaps and Secrets by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitzero"`
	// Objects picks ConfigMaps and Secrets by their names, whatever labels they have. For those that Pods mount by name: they
	// could be deleted and created anew without labels.
	Objects []KeystonePolicyObject `json:"objects,omitzero"`
	// Keys are the keys that hold a policy, such as policy.yaml. Default: all.
	Keys []string `json:"keys,omitzero"`
	// ManagerRoles are the roles of those who manage a domain and nothing beyond. Default: manager.
	ManagerRoles []string `json:"managerRoles,omitzero"`
	// ManagedRoles are the roles that those may grant. Default: member and load-balancer_member (SCS standard scs-0302).
	ManagedRoles []string `json:"managedRoles,omitzero"`
}

// KeystonePolicyObject names a ConfigMap, a Secret, or one of each.
type KeystonePolicyObject struct {
	// Namespace of the object. Required.
	Namespace string `json:"namespace"`
	// Name of the object. Required.
	Name string `json:"name"`
}
