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

// ErrHomeOutOfScope is why a service account is not believed its home: it was impersonated, or is confined elsewhere.
var ErrHomeOutOfScope = errors.New("its scopes do not include the home that it claims")

// errHomeUnknown is why it cannot be told which service account an identity is.
var errHomeUnknown = errors.New("it does not come with exactly one home")

// Elsewhere returns as whom a logical cluster other than the one in which an identity sends a request knows that identity, for a
// question about its permissions there. It is the identity itself where that is in scope.
//
// Whoever may impersonate in one workspace, as its owner may, can add any home, scopes and warrants to the identity that it
// takes (kcp-dev/kcp#4226). kcp only adds the scope of that workspace. So an identity that is confined to other logical clusters
// is believed as little as possible: its warrants are dropped, and so are all groups but system:authenticated and those by which
// kcp marks the scopes. A service account goes by its global name if its scopes include its home; nobody else can have both. The
// error says of a service account that does not fulfill this that its home is forged or unknown. Everybody else is the anonymous
// user there, as in kcp's own authorizer, and has what is granted to the scopes' groups (system:cluster:<name>).
//
// An identity without scopes comes from authentication or from system:masters, so that its warrants stand.
func Elsewhere(owner Owner, cluster logicalcluster.Name) (Owner, error) {
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

// believedHome returns the home of a service account whose scopes include it.
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
