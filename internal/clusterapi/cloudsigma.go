package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// CloudSigmaClusters is the resource of CloudSigmaCluster.
var CloudSigmaClusters = schema.GroupVersionResource{
	Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "cloudsigmaclusters",
}

// KdcClusters is the resource of KdcCluster, with the user of a cloud controller manager in an annotation.
var KdcClusters = schema.GroupVersionResource{Group: "k8s.kube-dc.com", Version: "v1alpha1", Resource: "kdcclusters"}

// userEmailKey is the key of the user in the Secret of spec.userRef.
const userEmailKey = "userEmail"

// regionPath is the field of a CloudSigmaCluster with the region.
const regionPath = "spec.region"

// BlanksAroundEmail is the message of CheckEmail.
const BlanksAroundEmail = "there are blanks, tabs or line breaks around the email address, which the provider sends as part of it; write it without them"

// CheckEmail returns an error if the provider would send blanks around an email to the identity provider. It returns nil for "".
func CheckEmail(email string) *AccountError {
	if strings.TrimSpace(email) == email {
		return nil
	}
	return &AccountError{Reason: UserMalformed, Message: BlanksAroundEmail}
}

// UserRef contains the fields of a CloudSigmaCluster that specify the user, as they are written. The provider trims none of them.
type UserRef struct {
	// Email is spec.userEmail. It takes precedence over the Secret.
	Email string
	// SecretNamespace and SecretName are spec.userRef. The default namespace is that of the cluster.
	SecretNamespace, SecretName string
}

// ReadUserRef reads spec.userEmail and spec.userRef of a CloudSigmaCluster. The error is an *AccountError.
func ReadUserRef(cluster *unstructured.Unstructured) (UserRef, error) {
	ref := UserRef{SecretNamespace: cluster.GetNamespace()}
	var namespace string
	for _, field := range []struct {
		path   string
		target *string
	}{{"spec.userEmail", &ref.Email}, {"spec.userRef.name", &ref.SecretName}, {"spec.userRef.namespace", &namespace}} {
		value, err := stringAt(cluster, field.path)
		if err != nil {
			return UserRef{}, accountErrorf(ClusterUnreadable, "CloudSigmaCluster %q: %v", cluster.GetName(), err)
		}
		*field.target = value
	}
	if namespace != "" {
		ref.SecretNamespace = namespace
	}
	return ref, nil
}

// User returns the user of ref in lower case, because emails are case-insensitive. The error is an *AccountError if the objects
// specify no user. Any other error means that they could not be read.
func (r *reader) User(ctx context.Context, ref UserRef) (string, error) {
	if invalid := CheckEmail(ref.Email); invalid != nil {
		return "", accountErrorf(invalid.Reason, "spec.userEmail: %s", invalid.Message)
	}
	if ref.Email != "" {
		return ownership.LowerEmail(ref.Email), nil
	}
	if ref.SecretName == "" {
		return "", accountErrorf(UserMissing, "it names no user: neither spec.userEmail nor spec.userRef is set")
	}
	if r.secrets == nil {
		return "", accountErrorf(UserRefUnguarded, "spec.userRef: in a workspace of kcp no gate keeps the Secret from being changed, "+
			"and no permission claim on secrets makes kcp call the webhooks of an APIExport for them; name the user in spec.userEmail")
	}
	if err := r.guarded(ref.SecretNamespace); err != nil {
		return "", err
	}
	missing := accountErrorf(UserSecretMissing, "spec.userRef: there is no Secret %.100q in namespace %.100q", ref.SecretName, ref.SecretNamespace)
	if !IsName(ref.SecretName) || !IsName(ref.SecretNamespace) {
		return "", missing
	}
	secret, err := r.secrets.Secrets(ref.SecretNamespace).Get(ctx, ref.SecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", missing
	case err != nil:
		return "", fmt.Errorf("read the Secret of spec.userRef: %w", err)
	}
	email := ownership.LowerEmail(string(secret.Data[userEmailKey]))
	if email == "" {
		return "", accountErrorf(UserMissing, "spec.userRef: Secret %q in namespace %q has nothing under the key %s",
			ref.SecretName, ref.SecretNamespace, userEmailKey)
	}
	if invalid := CheckEmail(email); invalid != nil {
		return "", accountErrorf(invalid.Reason, "spec.userRef: key %s of Secret %q in namespace %q: %s",
			userEmailKey, ref.SecretName, ref.SecretNamespace, invalid.Message)
	}
	return email, nil
}

func (r *reader) cloudSigmaAccount(ctx context.Context, cluster *unstructured.Unstructured) (ownership.Account, error) {
	account := ownership.Account{Cloud: string(v1beta1.ProviderCloudSigma)}
	region, err := stringAt(cluster, regionPath)
	if err != nil {
		return ownership.Account{}, accountErrorf(ClusterUnreadable, "CloudSigmaCluster %q: %v", cluster.GetName(), err)
	}
	account.Region = r.regionOr(region)
	if err := ownership.CheckRegion(account.Region, r.regions); err != nil {
		where := regionPath
		if region == "" {
			where = "spec.region is empty, and the default (cloudSigma.defaultRegion)"
		}
		return ownership.Account{}, accountErrorf(RegionNotAllowed, "CloudSigmaCluster %q: %s: %v", cluster.GetName(), where, err)
	}
	if r.byAll {
		return account, nil
	}
	ref, err := ReadUserRef(cluster)
	if err != nil {
		return ownership.Account{}, err
	}
	if ref.Email == "" && ref.SecretName != "" && ref.SecretNamespace != cluster.GetNamespace() {
		account.UserSecret = types.NamespacedName{Namespace: ref.SecretNamespace, Name: ref.SecretName}
	}
	user, err := r.User(ctx, ref)
	if account.User = short(user); err == nil || r.isShared(err, UserMissing, UserSecretMissing) { // as the provider does
		return account, nil
	}
	if invalid, ok := errors.AsType[*AccountError](err); ok {
		return ownership.Account{}, accountErrorf(invalid.Reason, "CloudSigmaCluster %q: %s", cluster.GetName(), invalid.Message)
	}
	return ownership.Account{}, fmt.Errorf("CloudSigmaCluster %q: %w", cluster.GetName(), err)
}

// cloudSigma has the options for CloudSigma. The zero value shares no account.
type cloudSigma struct {
	// withoutUser is true if clusters that name no user, or whose Secret or object is missing, share one account (legacy credentials), and
	// byAll if all clusters do. The provider does the same.
	withoutUser, byAll bool
	// defaultRegion and regions are the same as in Options.
	defaultRegion string
	regions       []string
}

func (o Options) cloudSigma() cloudSigma {
	return cloudSigma{withoutUser: o.SharedAccount, byAll: o.SharedByAll, defaultRegion: o.DefaultRegion, regions: o.Regions}
}

// regionOr returns the region of a cluster that names one, and the default otherwise, as the provider does. It trims no blanks, either. The
// regions of many clusters are held in memory together.
func (s cloudSigma) regionOr(named string) string { return cmp.Or(short(named), s.defaultRegion) }

// SharedAccount is true if clusters that name no user share one account (legacy credentials).
func (s cloudSigma) SharedAccount() bool { return s.withoutUser }

// isShared is true if err has one of these reasons, and clusters without a user share an account.
func (s cloudSigma) isShared(err error, reasons ...Reason) bool {
	invalid, ok := errors.AsType[*AccountError](err)
	return ok && s.withoutUser && slices.Contains(reasons, invalid.Reason)
}

// withoutObject returns the shared account if err means that a Cluster has no object that names a user. Otherwise it returns err.
func (s cloudSigma) withoutObject(provider v1beta1.Provider, err error) (ownership.Account, error) {
	if provider != v1beta1.ProviderCloudSigma || !s.isShared(err, ClusterMissing) {
		return ownership.Account{}, err
	}
	return ownership.Account{Cloud: string(provider), Region: s.defaultRegion}, nil
}
