// Package clusterapi reads objects of Cluster API and its providers: the instance that a machine names, its cluster, and the user
// that the provider of this cluster acts as.
//
// It makes no decisions. Package ownership checks the claims that it reads.
package clusterapi

import (
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// ClusterNameLabel contains the name of the Cluster of an object, by the convention of Cluster API.
const ClusterNameLabel = "cluster.x-k8s.io/cluster-name"

// Kind is a kind of machines.
type Kind struct {
	v1beta1.MachineKind
	// ParseInstanceID and ParseProviderID return the UUID, in lower case, in a field of the machine; of an external provider, the ID as it is
	// compared. The error is for users and describes the format.
	ParseInstanceID, ParseProviderID func(value string) (string, error)
}

// Resource returns the resource for reading machines of the kind.
func (k Kind) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.MachineKind.Resource}
}

// Correction says what to do about a machine that names a wrong instance.
func (k Kind) Correction() string {
	if k.Provider.IsExternal() {
		return "correct the field of the object that the instance does not belong to"
	}
	if k.isOf(openStackMachine) { // its provider copies the field, see the order of writes in package openstack
		return "clear status.instanceID of its OpenStackServer, so that the provider adopts an instance of the project or creates one; " +
			"if spec.providerID of the OpenStackMachine is wrong, delete the Machine, because the provider does not permit a change"
	}
	return "clear the field, so that the provider adopts an instance of the user or creates one"
}

// Machine contains the fields of a machine object that gates and the audit use.
type Machine struct {
	metav1.ObjectMeta
	// LogicalCluster and Exporter are the same as in Cluster.
	LogicalCluster, Exporter logicalcluster.Name
	// Kind is the kind of the object.
	Kind Kind
	// InstanceID and ProviderID are the unparsed fields, "" if missing.
	InstanceID, ProviderID string
	// Identity is the machine's own identity, zero if it uses that of its cluster.
	Identity IdentityRef
}

// Read reads a machine. An error means that a field is not a string. It is for users.
func (k Kind) Read(object *unstructured.Unstructured) (Machine, error) {
	machine := k.metadataOf(object)
	var err error
	if machine.InstanceID, err = stringAt(object, k.InstanceIDPath); err != nil {
		return Machine{}, err
	}
	if machine.ProviderID, err = stringAt(object, k.ProviderIDPath); err != nil {
		return Machine{}, err
	}
	machine.Identity, err = readIdentityRef(object, k.IdentityRefPath)
	return machine, err
}

func (k Kind) metadataOf(object *unstructured.Unstructured) Machine {
	return Machine{Kind: k, ObjectMeta: metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		Labels: object.GetLabels(), OwnerReferences: object.GetOwnerReferences(), DeletionTimestamp: object.GetDeletionTimestamp(),
	}}
}

// small returns the machine without what only one of many machines may hold in memory, because a tenant can write a MiB of it: other labels,
// owner references, the identity, and IDs that are no UUIDs.
func (m Machine) small() Machine {
	m.InstanceID, m.ProviderID, m.OwnerReferences, m.Identity = short(m.InstanceID), short(m.ProviderID), nil, IdentityRef{}
	cluster, found := m.Labels[ClusterNameLabel]
	if m.Labels = nil; found {
		m.Labels = map[string]string{ClusterNameLabel: cluster}
	}
	return m
}

// ownsAll reports whether all objects of a namespace may name the ID of this one: those of an external provider in one namespace. There may be any
// number of them, so they are not read.
func (m Machine) ownsAll(namespace string) bool {
	return m.Kind.Provider.IsExternal() && namespace != "" && m.Namespace == namespace
}

// is reports whether both are the same object.
func (m Machine) is(other Machine) bool {
	return m.Kind.Resource() == other.Kind.Resource() && m.Namespace == other.Namespace && m.Name == other.Name
}

// SameServer reports whether both may name one server: the OpenStackMachine and the OpenStackServer of it, and objects of an external provider
// in one namespace. Both OpenStack objects contain its ID: Cluster API Provider OpenStack creates the OpenStackServer for the OpenStackMachine, and
// finds it by their common name. The gate checks each with the credentials that it refers to itself.
func (m Machine) SameServer(other Machine) bool {
	if m.Kind.Provider.IsExternal() {
		return m.LogicalCluster == other.LogicalCluster && m.Namespace != "" && m.Namespace == other.Namespace && !m.is(other)
	}
	kinds := m.Kind.isOf(openStackServer) && other.Kind.isOf(openStackMachine) || m.Kind.isOf(openStackMachine) && other.Kind.isOf(openStackServer)
	return kinds && m.LogicalCluster == other.LogicalCluster && m.Namespace == other.Namespace && m.Name == other.Name
}

// Resources of Cluster API Provider OpenStack that contain the ID of a server.
var (
	openStackMachine = schema.GroupResource{Group: OpenStackClusters.Group, Resource: "openstackmachines"}
	openStackServer  = schema.GroupResource{Group: OpenStackClusters.Group, Resource: "openstackservers"}
)

func (k Kind) isOf(resource schema.GroupResource) bool {
	return k.Resource().GroupResource() == resource
}

// ClusterName is the name of the machine's Cluster, "" if the machine has no label for it.
func (m Machine) ClusterName() string { return m.Labels[ClusterNameLabel] }

// Cluster returns the cluster with the identity that the machine's provider acts as.
func (m Machine) Cluster() Cluster {
	return Cluster{
		LogicalCluster: m.LogicalCluster, Exporter: m.Exporter, Provider: m.Kind.Provider, Namespace: m.Namespace, Name: m.ClusterName(), Identity: m.Identity,
	}
}

// Acting is a relative clause for messages, after Account.Owner: it names what acts with the account of the machine's provider.
func (m Machine) Acting(account ownership.Account) string {
	switch {
	case m.Identity != (IdentityRef{}):
		return "with which this machine acts"
	case account.Identity != (ownership.Identity{}):
		return fmt.Sprintf("with which cluster %q acts", m.ClusterName())
	}
	return fmt.Sprintf("which cluster %q acts as", m.ClusterName())
}

// IDs returns the UUIDs in the two fields without duplicates. It skips invalid values.
func (m Machine) IDs() []string {
	var ids []string
	if id, err := m.Kind.ParseInstanceID(m.InstanceID); err == nil {
		ids = append(ids, id)
	}
	if id, err := m.Kind.ParseProviderID(m.ProviderID); err == nil && (len(ids) == 0 || ids[0] != id) {
		ids = append(ids, id)
	}
	return ids
}

// Reference returns a reference to the object for Events.
func (m Machine) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: m.Kind.Resource().GroupVersion().String(), Kind: m.Kind.Kind,
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
	}
}

// String returns the kind, name and namespace for messages.
func (m Machine) String() string {
	return fmt.Sprintf("%s %q of namespace %q", m.Kind.Kind, m.Name, m.Namespace)
}

// stringAt returns the string at a path such as status.instanceID, or "" if the field is missing or null, or the path is "".
func stringAt(object *unstructured.Unstructured, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: the field above it is not an object", path)
	}
	if !found || value == nil {
		return "", nil
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s is %T where a string belongs", path, value)
	}
	return text, nil
}
