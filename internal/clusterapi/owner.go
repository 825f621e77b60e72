package clusterapi

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OwnerMachines is the resource of the Machines of Cluster API. They own the machines of providers.
var OwnerMachines = schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}

// OwnerKind is the kind of OwnerMachines.
const OwnerKind = "Machine"

// Reasons why the Machine of Cluster API is unknown that a provider uses.
const (
	// OwnerMachineMissing: an owner reference names a Machine that does not exist.
	OwnerMachineMissing Reason = "OwnerMachineMissing"
	// OwnerMachineAmbiguous: owner references name more than one Machine.
	OwnerMachineAmbiguous Reason = "OwnerMachineAmbiguous"
	// OwnerClusterMismatch: a machine and its owner, a Machine, belong to different clusters.
	OwnerClusterMismatch Reason = "OwnerClusterMismatch"
)

// Owners returns the names of the Machines of Cluster API that own the machine, without duplicates, in the order of the references.
//
// Providers find the cluster of a machine with GetOwnerMachine of sigs.k8s.io/cluster-api/util. It uses the first reference to kind
// Machine of that group, in any version, by name and in the machine's namespace. It compares neither the UID nor the field
// controller.
func (m Machine) Owners() []string {
	var names []string
	for _, ref := range ownersAmong(m.OwnerReferences) {
		names = append(names, ref.Name)
	}
	return names
}

// ownersAmong returns the first reference to each Machine of Cluster API. It takes time in proportion to the number of references: a tenant can
// write ten thousands, and the watch of the machines of all tenants reads them.
func ownersAmong(references []metav1.OwnerReference) []metav1.OwnerReference {
	var owners []metav1.OwnerReference
	seen := map[string]bool{}
	for _, ref := range references {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && version.Group == OwnerMachines.Group && ref.Kind == OwnerKind && !seen[ref.Name] {
			seen[ref.Name] = true
			owners = append(owners, ref)
		}
	}
	return owners
}

// Owner is the Machine of Cluster API that a provider uses.
type Owner struct {
	// Name is the name of the Machine.
	Name string
	// ClusterName is the Cluster in the Machine's label, "" without a label.
	ClusterName string
}

// Mismatch is the message for a machine and an owner of different clusters. Both are in the same namespace. Cluster API keeps the label of a
// Machine at its spec.clusterName, and gives it to the machine: that is denied while the machine names an instance of another user.
func (o Owner) Mismatch(machine Machine) string {
	of := "belongs to no cluster"
	if o.ClusterName != "" {
		of = fmt.Sprintf("belongs to cluster %q", o.ClusterName)
	}
	return fmt.Sprintf("its owner, Machine %q, %s by its label %s, which the provider uses, but the machine has the label of cluster %q; "+
		"set the same label on both; if Cluster API sets it back, clear %s and %s",
		o.Name, of, ClusterNameLabel, machine.ClusterName(), machine.Kind.InstanceIDPath, machine.Kind.ProviderIDPath)
}

// OwnerSeen returns the last seen owner if a watch works and the owner belongs to the cluster of the machine. Otherwise it returns
// Owner.
func (o *Objects) OwnerSeen(ctx context.Context, machine Machine) (*Owner, error) {
	if names := machine.Owners(); len(names) == 1 && o.owners != nil && o.owners.current() {
		object, found, err := o.owners.informer.GetStore().GetByKey(machine.Namespace + "/" + names[0])
		if err == nil && found && asObject(object).GetLabels()[ClusterNameLabel] == machine.ClusterName() {
			return &Owner{Name: names[0], ClusterName: machine.ClusterName()}, nil
		}
	}
	return o.Owner(ctx, machine)
}

// Owner returns the current Machine of Cluster API that owns a machine, or nil. The error is an *AccountError if the owner
// references have to be corrected.
func (r *reader) Owner(ctx context.Context, machine Machine) (*Owner, error) {
	names := machine.Owners()
	switch len(names) {
	case 0:
		return nil, nil
	case 1:
	default: // the result would depend on their order, which users do not see
		return nil, accountErrorf(OwnerMachineAmbiguous, "its owner references name %d Machines; keep one of them", len(names))
	}
	missing := accountErrorf(OwnerMachineMissing, "its owner references name Machine %.100q, which does not exist; create it first, or remove the reference",
		names[0])
	if !IsName(names[0]) {
		return nil, missing
	}
	object, err := r.core(ctx, OwnerMachines, r.ownerVersion, machine.Namespace, names[0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("read Machine %q: %w", names[0], err)
	case object == nil:
		return nil, missing
	}
	return &Owner{Name: names[0], ClusterName: object.GetLabels()[ClusterNameLabel]}, nil
}

// core reads an object of Cluster API itself, or returns nil. The fields in use are equal in all versions.
func (r *reader) core(
	ctx context.Context, resource schema.GroupResource, hint *versionHint, namespace, name string,
) (*unstructured.Unstructured, error) {
	for _, discover := range []bool{false, true} {
		versioned, found, err := hint.resource(ctx, r.discovery, resource, discover)
		if err != nil || !found {
			return nil, err
		}
		object, err := r.get(ctx, versioned, namespace, name)
		if err == nil {
			return object, nil
		}
		// The object does not exist, or the version is no longer served.
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return nil, nil
}

// versionHint caches a served version of a resource.
type versionHint struct{ version atomic.Pointer[string] }

// resource returns the resource in a served version. It runs discovery if no version is cached or discover is true.
func (h *versionHint) resource(
	ctx context.Context, discovery discoverer, resource schema.GroupResource, discover bool,
) (schema.GroupVersionResource, bool, error) {
	version := h.version.Load()
	if version == nil || discover {
		versions, err := discovery.versions(ctx, resource)
		if err != nil || len(versions) == 0 {
			return schema.GroupVersionResource{}, false, err
		}
		version = &versions[0]
		h.version.Store(version)
	}
	return resource.WithVersion(*version), true, nil
}

// Owned returns the current machines of a namespace with owner references to the Machine of Cluster API.
func (r *reader) Owned(ctx context.Context, namespace, owner string) ([]Machine, error) {
	var owned []Machine
	for _, kind := range r.kinds {
		if kind.Provider.IsExternal() { // its cluster is not evaluated
			continue
		}
		if err := r.each(ctx, kind.Resource(), namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) {
			machine := kind.metadataOf(object)
			if !slices.Contains(machine.Owners(), owner) {
				return
			}
			if read, err := kind.Read(object); err == nil {
				machine = read
			}
			owned = append(owned, machine.small())
		}); err != nil {
			return nil, err
		}
	}
	return owned, nil
}
