package clusterapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// Cluster identifies the object with the identity that a machine's provider acts as. It is comparable.
type Cluster struct {
	// LogicalCluster is the logical cluster of kcp that contains the object, and Exporter that of the APIExport that it comes from. They are set
	// only where objects of several logical clusters are read together (Exports).
	LogicalCluster, Exporter logicalcluster.Name
	// Provider selects the kind of the cluster object.
	Provider v1beta1.Provider
	// Namespace and Name are those of the Cluster of Cluster API.
	Namespace, Name string
	// Identity is the machine's own identity. It takes precedence over that of the cluster. The zero value means that the machine
	// has none.
	Identity IdentityRef
}

// Reason is the reason why the identity of a cluster's provider is unknown, in CamelCase.
type Reason string

// Reasons.
const (
	// ClusterMissing: the cluster object does not exist.
	ClusterMissing Reason = "ClusterMissing"
	// UserMissing: the cluster names no user.
	UserMissing Reason = "UserMissing"
	// UserMalformed: there are blanks or line breaks around the email of the user.
	UserMalformed Reason = "UserMalformed"
	// UserSecretMissing: the Secret with the user does not exist.
	UserSecretMissing Reason = "UserSecretMissing"
	// UserRefUnguarded: a Secret contains the user, and no gate checks writes of the Secret.
	UserRefUnguarded Reason = "UserRefUnguarded"
	// RegionNotAllowed: the region of the cluster is invalid or not configured.
	RegionNotAllowed Reason = ownership.RegionNotAllowed
	// ClusterUnreadable: a field of the cluster has the wrong type.
	ClusterUnreadable Reason = "ClusterUnreadable"
	// IdentityMissing: the cluster object refers to no credentials.
	IdentityMissing Reason = "IdentityMissing"
	// NamespaceExempt: the Secret is in a namespace whose Secrets are not checked.
	NamespaceExempt Reason = "NamespaceExempt"
	// IdentityUnsupported: the cluster object refers to an unknown kind of credentials.
	IdentityUnsupported Reason = "IdentityUnsupported"
)

// AccountError means that the objects do not specify the identity of a cluster's provider. The text is for their author.
type AccountError struct {
	Reason  Reason
	Message string
}

// Error implements error.
func (e *AccountError) Error() string { return e.Message }

func accountErrorf(reason Reason, format string, args ...any) error {
	return &AccountError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// reader reads the current objects from the API server.
type reader struct {
	dynamic   dynamic.Interface
	discovery discoverer
	// through returns a client for the API server that has the objects of a resource. forget is not nil if that is remembered, and makes the next
	// call look it up. It is nil if dynamic has all objects.
	through func(ctx context.Context, resource schema.GroupVersionResource) (at dynamic.Interface, forget func(), err error)
	// ownerVersion and clusterVersion cache a served version of OwnerMachines and of CoreClusters.
	ownerVersion, clusterVersion *versionHint
	// secrets is nil if Secrets must not specify identities.
	secrets corev1client.SecretsGetter
	cloudSigma
	// exempt are the namespaces whose Secrets are not checked. Clusters may not use these Secrets.
	exempt []string
	// kinds are the kinds of machines, none if only clusters are read.
	kinds []Kind
}

// guarded returns an *AccountError if no gate checks writes of the Secrets of the namespace.
func (r *reader) guarded(namespace string) error {
	if slices.Contains(r.exempt, namespace) {
		return accountErrorf(NamespaceExempt, "the Secrets of namespace %q are not checked (cluster.exemptNamespaces), so no cluster may use them", namespace)
	}
	return nil
}

// clusterKind is a kind of cluster objects, which specify the identity of a provider.
type clusterKind struct {
	kind     string
	resource schema.GroupVersionResource
	// essentials are the paths of the fields in use.
	essentials []string
	// byReference is true if the provider finds the object by spec.infrastructureRef of the Cluster. The object may then have
	// another name than the Cluster.
	byReference bool
	// account returns the account that the object specifies.
	account func(*reader, context.Context, *unstructured.Unstructured) (ownership.Account, error)
}

// clusterKinds contains all known kinds.
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

// clusterKindsOf returns the cluster kinds of the providers of the machine kinds.
func clusterKindsOf(kinds []v1beta1.MachineKind) map[v1beta1.Provider]clusterKind {
	found := maps.Clone(clusterKinds)
	maps.DeleteFunc(found, func(provider v1beta1.Provider, _ clusterKind) bool {
		return !slices.ContainsFunc(kinds, func(kind v1beta1.MachineKind) bool { return kind.Provider == provider })
	})
	return found
}

// clusterName returns the name of the Cluster of a cluster object. Cluster API labels the object that a Cluster refers to, and sets a label back that
// somebody changes.
func (k clusterKind) clusterName(object *unstructured.Unstructured) string {
	if label := object.GetLabels()[ClusterNameLabel]; k.byReference && label != "" {
		return label
	}
	return object.GetName()
}

// Account returns the account of the provider of a cluster, by the current state of the objects. The error is an *AccountError if they specify
// no account.
func (r *reader) Account(ctx context.Context, cluster Cluster) (ownership.Account, error) {
	if cluster.Identity != (IdentityRef{}) {
		if err := r.guarded(cluster.Namespace); err != nil {
			return ownership.Account{}, err
		}
		return cluster.Identity.account(cluster.Namespace, "the machine")
	}
	kind, known := clusterKinds[cluster.Provider]
	if !known {
		return ownership.Account{}, accountErrorf(ClusterMissing, "provider %q has no known kind of clusters", cluster.Provider)
	}
	object, err := r.find(ctx, kind, cluster)
	if err != nil {
		return r.withoutObject(cluster.Provider, err)
	}
	return kind.account(r, ctx, object)
}

// find returns the cluster object of a Cluster. If the provider uses the reference of the Cluster and the reference is empty, find
// returns the object with the name of the Cluster. No provider acts until the reference is set, and the gate checks that write.
func (r *reader) find(ctx context.Context, kind clusterKind, cluster Cluster) (*unstructured.Unstructured, error) {
	name := cluster.Name
	if kind.byReference {
		referenced, err := r.reference(ctx, cluster)
		if err != nil {
			return nil, err
		}
		name = cmp.Or(referenced, name)
	}
	return r.named(ctx, kind, cluster, name)
}

// named returns the cluster object with a name, which may be what a Cluster refers to.
func (r *reader) named(ctx context.Context, kind clusterKind, cluster Cluster, name string) (*unstructured.Unstructured, error) {
	missing := accountErrorf(ClusterMissing, "there is no %s %q in namespace %q", kind.kind, cluster.Name, cluster.Namespace)
	if name != cluster.Name {
		missing = accountErrorf(ClusterMissing, "Cluster %q refers to %s %.100q by %s, which does not exist in namespace %q",
			cluster.Name, kind.kind, name, InfrastructureRefPath, cluster.Namespace)
	}
	if !IsName(name) {
		return nil, missing
	}
	object, err := r.get(ctx, kind.resource, cluster.Namespace, name)
	switch {
	case err == nil:
		return object, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read %s %q: %w", kind.kind, name, err)
	}
	if _, err := r.installed(ctx, kind.resource); err != nil {
		return nil, err
	}
	return nil, missing
}
