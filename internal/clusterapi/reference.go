package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// CoreClusters is the resource of the Clusters of Cluster API.
var CoreClusters = schema.GroupResource{Group: OwnerMachines.Group, Resource: "clusters"}

// InfrastructureRefPath is the field of a Cluster with the reference to the provider's cluster object.
const InfrastructureRefPath = "spec.infrastructureRef"

// InfrastructureName returns the name of the cluster object in the reference of a Cluster, or "".
//
// Cluster API Provider OpenStack uses only the name: it reads the OpenStackCluster of that name in the namespace of the Cluster. It
// does not compare kind, group (apiVersion in v1beta1, apiGroup in v1beta2) and namespace of the reference. The provider for
// CloudSigma does not use the reference. It uses the name of the Cluster.
func InfrastructureName(cluster *unstructured.Unstructured) (string, error) {
	name, err := stringAt(cluster, InfrastructureRefPath+".name")
	if err != nil {
		return "", accountErrorf(ClusterUnreadable, "Cluster %q: %v", cluster.GetName(), err)
	}
	return name, nil
}

// AccountBy returns the account of a cluster's provider if the Cluster refers to the named object. The error is an *AccountError if
// the objects specify no account.
func (r *reader) AccountBy(ctx context.Context, cluster Cluster, name string) (ownership.Account, error) {
	kind := clusterKinds[cluster.Provider]
	object, err := r.named(ctx, kind, cluster, name)
	if err != nil {
		return ownership.Account{}, err
	}
	return kind.account(r, ctx, object)
}

// reference returns the current reference of the Cluster to a cluster object. It returns "" if the reference is empty or there
// is no Cluster. No provider acts then, and the gate checks the write that sets the reference.
func (r *reader) reference(ctx context.Context, cluster Cluster) (string, error) {
	if !IsName(cluster.Name) { // a tenant can store a machine without a cluster while it is not evaluated
		return "", nil
	}
	object, err := r.core(ctx, CoreClusters, r.clusterVersion, cluster.Namespace, cluster.Name)
	switch {
	case err != nil:
		return "", fmt.Errorf("read Cluster %q: %w", cluster.Name, err)
	case object == nil:
		return "", nil
	}
	return InfrastructureName(object)
}

// references contains the names of the cluster objects that the Clusters of a namespace refer to, by the name of the Cluster.
type references map[string]string

// references returns the current references of a namespace.
func (r *reader) references(ctx context.Context, namespace string) (references, error) {
	found := references{}
	resource, served, err := r.clusterVersion.resource(ctx, r.discovery, CoreClusters, true)
	if err != nil || !served {
		return found, err
	}
	var unreadable error
	err = r.each(ctx, resource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) {
		name, err := InfrastructureName(object)
		unreadable = errors.Join(unreadable, err)
		found[object.GetName()] = short(name) // no object has a name that is too long
	})
	return found, errors.Join(err, unreadable)
}

// to returns the names of the Clusters whose provider uses a cluster object: those that refer to it, and the Cluster of the same name
// if that has no reference.
func (r references) to(object string) []string {
	var names []string
	for name, referenced := range r {
		if referenced == object {
			names = append(names, name)
		}
	}
	if r[object] == "" {
		names = append(names, object)
	}
	slices.Sort(names)
	return names
}

// ActingBy returns the clusters whose provider uses a cluster object now, for providers that use references.
func (r *reader) ActingBy(ctx context.Context, provider v1beta1.Provider, namespace, name string) ([]Cluster, error) {
	references, err := r.references(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var clusters []Cluster
	for _, cluster := range references.to(name) {
		clusters = append(clusters, Cluster{Provider: provider, Namespace: namespace, Name: cluster})
	}
	return clusters, nil
}
