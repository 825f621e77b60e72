// Package clusterapi reads what the objects of Cluster API and its providers say: which instance a machine names, which
// cluster it is of, and as which user that cluster's provider acts.
//
// It judges nothing. What it finds out is a claim, for package ownership to decide.
package clusterapi

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/config/v1beta1"
)

// ClusterNameLabel names the Cluster that an object is of, by Cluster API's convention.
const ClusterNameLabel = "cluster.x-k8s.io/cluster-name"

// Kind is a kind of machines.
type Kind struct {
	v1beta1.MachineKind
	// ParseInstanceID and ParseProviderID return the UUID, in lower case, that a field of the machine means. The error is
	// for people and says what the field has to look like.
	ParseInstanceID, ParseProviderID func(value string) (string, error)
}

// Resource returns the resource that machines of the kind are read from.
func (k Kind) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.MachineKind.Resource}
}

// Machine is as much of a machine object as it takes to judge it.
type Machine struct {
	metav1.ObjectMeta
	// Kind is the kind of the object.
	Kind Kind
	// InstanceID and ProviderID are the two fields as they are written, "" where there is none.
	InstanceID, ProviderID string
	// Identity is what the machine brings for itself, zero if it acts with what its cluster brings.
	Identity IdentityRef
}

// Read reads a machine. The error is for people: a field that has to be a string is none.
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

// is tells whether both are the same object.
func (m Machine) is(other Machine) bool {
	return m.Kind.Resource() == other.Kind.Resource() && m.Namespace == other.Namespace && m.Name == other.Name
}

// SameServer tells whether both are the OpenStackMachine and the OpenStackServer of one server, which both name: Cluster API
// Provider OpenStack makes the OpenStackServer for the OpenStackMachine, and finds it by the name that they have in common. Each
// is judged by the credentials that it refers to itself.
func (m Machine) SameServer(other Machine) bool {
	kinds := m.Kind.isOf(openStackServer) && other.Kind.isOf(openStackMachine) || m.Kind.isOf(openStackMachine) && other.Kind.isOf(openStackServer)
	return kinds && m.Namespace == other.Namespace && m.Name == other.Name
}

// Resources of Cluster API Provider OpenStack that name a server.
var (
	openStackMachine = schema.GroupResource{Group: OpenStackClusters.Group, Resource: "openstackmachines"}
	openStackServer  = schema.GroupResource{Group: OpenStackClusters.Group, Resource: "openstackservers"}
)

func (k Kind) isOf(resource schema.GroupResource) bool {
	return k.Resource().GroupResource() == resource
}

// ClusterName is the name of the Cluster that the machine is of, "" if the machine does not say.
func (m Machine) ClusterName() string { return m.Labels[ClusterNameLabel] }

// Cluster returns what says as whom the machine's provider acts.
func (m Machine) Cluster() Cluster {
	return Cluster{Provider: m.Kind.Provider, Namespace: m.Namespace, Name: m.ClusterName(), Identity: m.Identity}
}

// IDs returns the UUIDs that the two fields mean, once if they mean the same. What cannot be parsed is left out.
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

// Reference refers to the object, as that of an Event.
func (m Machine) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: m.Kind.Resource().GroupVersion().String(), Kind: m.Kind.Kind,
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
	}
}

// String names the object as a person would.
func (m Machine) String() string {
	return fmt.Sprintf("%s %q of namespace %q", m.Kind.Kind, m.Name, m.Namespace)
}

// stringAt returns the string at a path such as status.instanceID, "" where there is nothing or null.
func stringAt(object *unstructured.Unstructured, path string) (string, error) {
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: the field above it is no object", path)
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
