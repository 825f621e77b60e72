package clusterapi

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// Cluster is what says as whom a machine's provider acts. It is comparable.
type Cluster struct {
	// Provider says which kind of cluster objects it is among.
	Provider v1beta1.Provider
	// Namespace and Name are those of the Cluster of Cluster API.
	Namespace, Name string
	// Identity is what a machine brings for itself. It goes before that of the cluster; the zero value is nothing.
	Identity IdentityRef
}

// Reason says in one word why it is not known as whom a cluster's provider acts.
type Reason string

// Reasons.
const (
	// ClusterMissing: there is no such cluster object.
	ClusterMissing Reason = "ClusterMissing"
	// UserMissing: the cluster names no user.
	UserMissing Reason = "UserMissing"
	// UserSecretMissing: the Secret that should name the user does not exist.
	UserSecretMissing Reason = "UserSecretMissing"
	// UserRefUnguarded: a Secret names the user, where anybody who may write it could name another.
	UserRefUnguarded Reason = "UserRefUnguarded"
	// RegionMissing: the cluster names no region.
	RegionMissing Reason = "RegionMissing"
	// ClusterUnreadable: a field of the cluster has the wrong type.
	ClusterUnreadable Reason = "ClusterUnreadable"
	// ClusterAmbiguous: more than one object says that it is the cluster.
	ClusterAmbiguous Reason = "ClusterAmbiguous"
	// IdentityMissing: the cluster refers to no credentials.
	IdentityMissing Reason = "IdentityMissing"
	// NamespaceExempt: the Secret is in a namespace whose Secrets are not checked.
	NamespaceExempt Reason = "NamespaceExempt"
	// IdentityUnsupported: the cluster refers to credentials of a kind that is not known.
	IdentityUnsupported Reason = "IdentityUnsupported"
)

// AccountError says that the objects do not tell as whom a cluster's provider acts. It is for the person who wrote them.
type AccountError struct {
	Reason  Reason
	Message string
}

// Error implements error.
func (e *AccountError) Error() string { return e.Message }

func accountErrorf(reason Reason, format string, args ...any) error {
	return &AccountError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// reader reads what the API server says now.
type reader struct {
	dynamic   dynamic.Interface
	discovery discoverer
	// ownerVersion is a version in which OwnerMachines were served, clusterVersion one in which CoreClusters were.
	ownerVersion, clusterVersion *versionHint
	// secrets is nil where no Secret may say as whom a provider acts.
	secrets       corev1client.SecretsGetter
	sharedAccount bool
	// exempt are the namespaces whose Secrets are not checked, so that no cluster may act by them.
	exempt []string
}

// guarded returns an *AccountError where nothing keeps a Secret from being changed.
func (r *reader) guarded(namespace string) error {
	if slices.Contains(r.exempt, namespace) {
		return accountErrorf(NamespaceExempt, "the Secrets of namespace %q are not checked (cluster.exemptNamespaces), so no cluster may act by them", namespace)
	}
	return nil
}

// clusterKind is one of the kinds of cluster objects that say as whom a provider acts.
type clusterKind struct {
	kind     string
	resource schema.GroupVersionResource
	// essentials are the fields that are looked at.
	essentials []string
	// byReference is true where the provider finds the object by spec.infrastructureRef of the Cluster. Its name need not be that
	// of the Cluster, whose name is in its label then.
	byReference bool
	// account reads the account from the object.
	account func(*reader, context.Context, *unstructured.Unstructured) (ownership.Account, error)
}

// clusterKinds are all that are known.
var clusterKinds = map[v1beta1.Provider]clusterKind{
	v1beta1.ProviderCloudSigma: {
		kind: "CloudSigmaCluster", resource: CloudSigmaClusters, essentials: []string{"spec.region", "spec.userEmail", "spec.userRef"},
		account: (*reader).cloudSigmaAccount,
	},
	v1beta1.ProviderOpenStack: {
		kind: "OpenStackCluster", resource: OpenStackClusters, essentials: []string{identityRefPath}, byReference: true,
		account: (*reader).openStackAccount,
	},
}

// clusterKindsOf are those of the providers of the machines.
func clusterKindsOf(kinds []v1beta1.MachineKind) map[v1beta1.Provider]clusterKind {
	found := maps.Clone(clusterKinds)
	maps.DeleteFunc(found, func(provider v1beta1.Provider, _ clusterKind) bool {
		return !slices.ContainsFunc(kinds, func(kind v1beta1.MachineKind) bool { return kind.Provider == provider })
	})
	return found
}

// clusterName is the name of the Cluster that a cluster object is of.
func (k clusterKind) clusterName(object *unstructured.Unstructured) string {
	if label := object.GetLabels()[ClusterNameLabel]; k.byReference && label != "" {
		return label
	}
	return object.GetName()
}

// Account returns as whom the provider of a cluster acts. It goes by what was last seen of the cluster.
func (o *Objects) Account(ctx context.Context, cluster Cluster) (ownership.Account, error) {
	if seen, watched := o.clusters[cluster.Provider]; watched && seen.synced() == nil && cluster.Identity == (IdentityRef{}) {
		if objects := seen.byIndex(indexCluster, cluster.Namespace+"/"+cluster.Name); len(objects) == 1 {
			return clusterKinds[cluster.Provider].account(&o.reader, ctx, objects[0])
		}
	}
	return o.AccountNow(ctx, cluster)
}

// IsCurrent tells whether Account goes by a watch of all that the provider of a cluster goes by, and this watch is not broken.
// What Account returns is then as old as a watch takes to show a write, which is milliseconds.
func (o *Objects) IsCurrent(cluster Cluster) bool {
	seen := o.clusters[cluster.Provider]
	return seen != nil && seen.current() && !clusterKinds[cluster.Provider].byReference
}

// AccountNow is Account by what the API server says now.
func (r *reader) AccountNow(ctx context.Context, cluster Cluster) (ownership.Account, error) {
	if cluster.Identity != (IdentityRef{}) {
		if err := r.guarded(cluster.Namespace); err != nil {
			return ownership.Account{}, err
		}
		return cluster.Identity.account(cluster.Namespace, "the machine")
	}
	kind, known := clusterKinds[cluster.Provider]
	if !known {
		return ownership.Account{}, accountErrorf(ClusterMissing, "no kind of clusters is known of provider %q", cluster.Provider)
	}
	object, err := r.find(ctx, kind, cluster)
	if err != nil {
		return ownership.Account{}, err
	}
	return kind.account(r, ctx, object)
}

// find returns the cluster object of a Cluster. Where the provider goes by the reference of the Cluster, and there is none yet,
// the object that says it is of the Cluster stands for it: no provider acts until there is a reference, which is judged then.
func (r *reader) find(ctx context.Context, kind clusterKind, cluster Cluster) (*unstructured.Unstructured, error) {
	objects := r.dynamic.Resource(kind.resource).Namespace(cluster.Namespace)
	if kind.byReference {
		referenced, err := r.reference(ctx, cluster)
		switch {
		case err != nil:
			return nil, err
		case referenced != "":
			return r.referenced(ctx, kind, cluster, referenced)
		}
		labeled, err := objects.List(ctx, metav1.ListOptions{LabelSelector: ClusterNameLabel + "=" + cluster.Name})
		switch {
		case err != nil:
			return nil, fmt.Errorf("list %s of cluster %q: %w", kind.resource.Resource, cluster.Name, err)
		case len(labeled.Items) > 1:
			return nil, accountErrorf(ClusterAmbiguous, "%d objects of kind %s in namespace %q have the label %s=%s; take it off all but one",
				len(labeled.Items), kind.kind, cluster.Namespace, ClusterNameLabel, cluster.Name)
		case len(labeled.Items) == 1:
			return r.onlyOne(ctx, kind, cluster, &labeled.Items[0])
		}
	}
	object, err := objects.Get(ctx, cluster.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if _, err := r.installed(ctx, kind.resource); err != nil {
			return nil, err
		}
		return nil, accountErrorf(ClusterMissing, "there is no %s %q in namespace %q", kind.kind, cluster.Name, cluster.Namespace)
	case err == nil && kind.byReference && kind.clusterName(object) != cluster.Name:
		return nil, accountErrorf(ClusterMissing, "there is no %s %q in namespace %q", kind.kind, cluster.Name, cluster.Namespace)
	case err != nil:
		return nil, fmt.Errorf("read %s %q: %w", kind.kind, cluster.Name, err)
	}
	return object, nil
}

// onlyOne returns the object that has the label of a Cluster, if no other one has the name of the Cluster and no label: the
// provider would act as that one says once the label is gone.
func (r *reader) onlyOne(ctx context.Context, kind clusterKind, cluster Cluster, labeled *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if labeled.GetName() == cluster.Name {
		return labeled, nil
	}
	named, err := r.dynamic.Resource(kind.resource).Namespace(cluster.Namespace).Get(ctx, cluster.Name, metav1.GetOptions{})
	switch {
	case err == nil && kind.clusterName(named) == cluster.Name:
		return nil, accountErrorf(ClusterAmbiguous, "%s %q in namespace %q has the label %s=%s, and another one has this name; delete one of them, or label the other",
			kind.kind, labeled.GetName(), cluster.Namespace, ClusterNameLabel, cluster.Name)
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read %s %q: %w", kind.kind, cluster.Name, err)
	}
	return labeled, nil
}
