package clusterapi

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/config/v1beta1"
)

// RecordAnnotation is the annotation of a CloudSigmaCluster or Secret that names a user, with the requester who named it. With it, the audit
// can check the permission again. Package impersonation has the format. cert-manager and the API for CertificateSigningRequests record the
// requester in the same way.
const RecordAnnotation = "warrantgate.dev/user-named-by"

// MaxRecord is the maximum size of a record, in bytes. It has room for the groups that identity providers put into a token, such as 200 UUIDs.
// The annotations of an object may have 256 KiB in total.
const MaxRecord = 8 << 10

// Named is the user that a CloudSigmaCluster names, and the records of who named it. A record is "" if it is missing or too large.
type Named struct {
	// User is the user as it is written, "" if no user is named.
	User string
	// Record is the record on the cluster.
	Record string
	// Secret is the Secret that contains the user, and SecretRecord the record on it. They are empty if spec.userEmail contains the user.
	Secret       types.NamespacedName
	SecretRecord string
	// Provider is the logical cluster of the provider on kcp, "" on Kubernetes.
	Provider logicalcluster.Name
}

// Named returns the user that a cluster names now. It is empty for a cluster of another provider, and if the user is unknown.
func (o *Objects) Named(ctx context.Context, cluster Cluster) (Named, error) {
	if cluster.Provider != v1beta1.ProviderCloudSigma {
		return Named{}, nil
	}
	object, err := o.Object(ctx, CloudSigmaClusters, cluster.Namespace, cluster.Name)
	if err != nil || object == nil {
		return Named{}, err
	}
	ref, err := ReadUserRef(object)
	if err != nil {
		return Named{}, nil //nolint:nilerr // it names no user
	}
	named := Named{User: ref.Email, Record: recordOf(object)}
	unusable := o.guarded(ref.SecretNamespace) != nil || !IsName(ref.SecretName) || !IsName(ref.SecretNamespace)
	if ref.Email != "" || unusable {
		return named, nil
	}
	secret, err := o.secrets.Secrets(ref.SecretNamespace).Get(ctx, ref.SecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Named{}, nil
	case err != nil:
		return Named{}, fmt.Errorf("read the Secret of spec.userRef: %w", err)
	}
	named.User, named.Secret = string(secret.Data[userEmailKey]), types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	named.SecretRecord = recordOf(secret)
	return named, nil
}

// recordOf returns the record of an object, "" if it is missing or too large.
func recordOf(object metav1.Object) string {
	if record := object.GetAnnotations()[RecordAnnotation]; len(record) <= MaxRecord {
		return record
	}
	return ""
}
