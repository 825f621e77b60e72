package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// CoreClusters is the resource of the Clusters of Cluster API.
var CoreClusters = schema.GroupResource{Group: OwnerMachines.Group, Resource: "clusters"}

// Reasons why the cluster object of a Cluster is unknown.
const (
	// ClusterReferenceDiffers: spec.infrastructureRef of a Cluster and the labels of cluster objects differ.
	ClusterReferenceDiffers Reason = "ClusterReferenceDiffers"
)

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
	object, err := r.referenced(ctx, kind, cluster, name)
	if err != nil {
		return ownership.Account{}, err
	}
	return kind.account(r, ctx, object)
}

// reference returns the current reference of the Cluster to a cluster object. It returns "" if the reference is empty or the
// Cluster does not exist. No provider acts then, and the gate checks the write that sets the reference.
func (r *reader) reference(ctx context.Context, cluster Cluster) (string, error) {
	object, err := r.core(ctx, CoreClusters, r.clusterVersion, cluster.Namespace, cluster.Name)
	switch {
	case err != nil:
		return "", fmt.Errorf("read Cluster %q: %w", cluster.Name, err)
	case object == nil:
		return "", nil
	}
	return InfrastructureName(object)
}

// referenced returns the cluster object that a Cluster refers to. The label must name the same Cluster, because users and other
// tools rely on it.
func (r *reader) referenced(ctx context.Context, kind clusterKind, cluster Cluster, name string) (*unstructured.Unstructured, error) {
	missing := accountErrorf(ClusterMissing, "Cluster %q refers to %s %.100q by %s, which does not exist in namespace %q",
		cluster.Name, kind.kind, name, InfrastructureRefPath, cluster.Namespace)
	if !IsName(name) {
		return nil, missing
	}
	labeled, err := r.labeled(ctx, kind, cluster)
	if err != nil {
		return nil, err
	}
	for i := range labeled {
		if other := labeled[i].GetName(); other != name {
			return nil, accountErrorf(ClusterReferenceDiffers, "Cluster %q refers to %s %.100q by %s, which the provider uses, but %s %q "+
				"has the label %s=%s; correct the reference or remove the label",
				cluster.Name, kind.kind, name, InfrastructureRefPath, kind.kind, other, ClusterNameLabel, cluster.Name)
		}
	}
	if len(labeled) == 1 {
		return &labeled[0], nil
	}
	object, err := r.get(ctx, kind.resource, cluster.Namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		if _, err := r.installed(ctx, kind.resource); err != nil {
			return nil, err
		}
		return nil, missing
	case err != nil:
		return nil, fmt.Errorf("read %s %q: %w", kind.kind, name, err)
	}
	// Cluster API sets the label when it first reconciles the object.
	if label := object.GetLabels()[ClusterNameLabel]; label != "" {
		return nil, accountErrorf(ClusterReferenceDiffers, "Cluster %q refers to %s %.100q by %s, which the provider uses, but that object has the label "+
			"%s=%s; correct the reference or the label", cluster.Name, kind.kind, name, InfrastructureRefPath, ClusterNameLabel, label)
	}
	return object, nil
}

// labeled returns the cluster objects with the label of a Cluster, with the fields in use only: a tenant can write many large ones.
func (r *reader) labeled(ctx context.Context, kind clusterKind, cluster Cluster) ([]unstructured.Unstructured, error) {
	if len(validation.IsValidLabelValue(cluster.Name)) > 0 {
		return nil, nil // invalid as a label value
	}
	var found []unstructured.Unstructured
	options := metav1.ListOptions{LabelSelector: ClusterNameLabel + "=" + cluster.Name}
	err := r.list(ctx, kind.resource, cluster.Namespace, options, func(object *unstructured.Unstructured) {
		if kept, err := kind.essentialsOf(object); err == nil {
			found = append(found, *asObject(kept))
		}
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, r.notInstalled(ctx, kind.resource)
	case err != nil:
		return nil, fmt.Errorf("list %s of cluster %q: %w", kind.resource.Resource, cluster.Name, err)
	}
	return found, nil
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

// to returns the names of the Clusters whose provider uses a cluster object: those that refer to it, and the Cluster in its label
// if that Cluster has no reference.
func (r references) to(object, says string) []string {
	var names []string
	for name, referenced := range r {
		if referenced == object {
			names = append(names, name)
		}
	}
	if r[says] == "" {
		names = append(names, says)
	}
	slices.Sort(names)
	return names
}

// ActingBy returns the clusters whose provider uses a cluster object now, for providers that use references. object is the new
// state of the cluster object.
func (r *reader) ActingBy(ctx context.Context, provider v1beta1.Provider, object *unstructured.Unstructured) ([]Cluster, error) {
	references, err := r.references(ctx, object.GetNamespace())
	if err != nil {
		return nil, err
	}
	var clusters []Cluster
	for _, name := range references.to(object.GetName(), ClusterNameOf(provider, object)) {
		clusters = append(clusters, Cluster{Provider: provider, Namespace: object.GetNamespace(), Name: name})
	}
	return clusters, nil
}
