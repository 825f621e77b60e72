package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// ErrClaimed means that the requester may be anybody.
var ErrClaimed = errors.New("the request came through a virtual workspace of kcp, where the author of a WorkspaceType or an APIExport can impersonate " +
	"everybody")

// ErrHomeOutOfScope means that the home of a service account is not trusted: it was impersonated in another logical cluster.
var ErrHomeOutOfScope = errors.New("its scopes do not include the home that it claims")

// errHomeUnknown means that it is unknown which service account an identity is.
var errHomeUnknown = errors.New("it does not come with exactly one home")

// Elsewhere returns the identity of a requester in a logical cluster other than the one of its request, to check its permissions there.
// An identity that is in scope there is returned unchanged. For one that is only claimed, the error is ErrClaimed.
//
// A user who may impersonate in one workspace, such as its owner, can add any home, scopes and warrants to the impersonated identity
// (kcp-dev/kcp#4226). kcp only adds the scope of that workspace. So an identity with scopes that exclude the cluster loses its warrants
// and its groups, except system:authenticated and the groups of its scopes (system:cluster:<name>). A service account gets its global
// name if its scopes include its home, because no impersonated identity can have both. Otherwise its home is forged or unknown, and
// Elsewhere returns an error. Every other identity becomes the anonymous user, as in kcp's authorizer.
//
// Any other identity without scopes comes from authentication or from system:masters, so it keeps its warrants.
func Elsewhere(owner Owner, cluster logicalcluster.Name) (Owner, error) {
	if isClaimed(owner) {
		return Owner{}, ErrClaimed
	}
	if owner.InScope(cluster) {
		return owner, nil
	}
	known := Owner{Username: user.Anonymous}
	if owner.IsServiceAccount() {
		home, err := owner.believedHome()
		if err != nil {
			return Owner{}, err
		}
		known.Username = globalServiceAccountPrefix + home.String() + ":" +
			strings.TrimPrefix(owner.Username, serviceaccount.ServiceAccountUsernamePrefix)
	}
	if slices.Contains(owner.Groups, user.AllAuthenticated) {
		known.Groups = []string{user.AllAuthenticated}
	}
	known.Groups = append(known.Groups, scopeGroups(owner)...)
	return known, nil
}

// believedHome returns the home of a service account. The error means that it is unknown, or that the scopes do not include it.
func (o Owner) believedHome() (logicalcluster.Name, error) {
	if _, _, err := serviceaccount.SplitUsername(o.Username); err != nil {
		return "", fmt.Errorf("%q is not the name of a service account", o.Username)
	}
	homes := o.homes()
	if len(homes) != 1 || len(o.Extra[ClusterNameKey]) != 1 || strings.Contains(homes[0], ":") || !logicalcluster.Name(homes[0]).IsValid() {
		return "", errHomeUnknown
	}
	home := logicalcluster.Name(homes[0])
	if !o.InScope(home) {
		return "", ErrHomeOutOfScope
	}
	return home, nil
}
