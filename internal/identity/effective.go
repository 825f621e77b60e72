package identity

import (
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Effective returns all identities whose permissions an owner has in a logical cluster, in kcp's order: the owner itself if it is in
// scope, the global name of a service account, the identities of its warrants, and the anonymous user.
//
// globalServiceAccounts is kcp's feature gate GlobalServiceAccount, which is on by default since v0.31. Warrants are decoded as in kcp,
// which is less strict than ParseWarrant.
func Effective(owner Owner, cluster logicalcluster.Name, globalServiceAccounts bool) []Owner {
	e := effective{cluster: cluster, globalServiceAccounts: globalServiceAccounts}
	e.add(owner)
	if e.authenticated {
		groups := append([]string{user.AllAuthenticated}, scopeGroups(owner)...)
		e.all = append(e.all, Owner{Username: user.Anonymous, Groups: groups})
	}
	if e.unauthenticated {
		e.all = append(e.all, Owner{Username: user.Anonymous, Groups: []string{user.AllUnauthenticated}})
	}
	return e.all
}

// effective is the state of one call of Effective.
type effective struct {
	cluster               logicalcluster.Name
	globalServiceAccounts bool

	all []Owner
	// authenticated and unauthenticated are true if such an identity was out of scope.
	authenticated, unauthenticated bool
}

func (e *effective) add(o Owner) {
	authenticated := slices.Contains(o.Groups, user.AllAuthenticated)
	switch {
	case o.InScope(e.cluster):
		e.all = append(e.all, o)
	case authenticated:
		e.authenticated = true
	default:
		e.unauthenticated = true
	}
	if homes := o.Extra[ClusterNameKey]; e.globalServiceAccounts && o.IsServiceAccount() && len(homes) == 1 {
		name := strings.TrimPrefix(o.Username, serviceaccount.ServiceAccountUsernamePrefix)
		global := Owner{Username: globalServiceAccountPrefix + homes[0] + ":" + name, Extra: o.Extra}
		for _, group := range o.Groups {
			if group == user.AllAuthenticated {
				global.Groups = append(global.Groups, group)
			}
		}
		global.Groups = append(global.Groups, scopeGroups(o)...)
		e.all = append(e.all, global)
	}
	for _, raw := range o.Extra[WarrantKey] {
		var w Warrant
		if err := json.Unmarshal([]byte(raw), &w); err != nil {
			continue // kcp ignores it
		}
		named := w.owner()
		if named.IsServiceAccount() && len(named.Extra[ClusterNameKey]) == 0 {
			continue // its home is unknown
		}
		named.Groups = slices.Concat(named.Groups, scopeGroups(named))
		e.add(named)
	}
}

// scopeGroups returns the groups that kcp adds for the scopes of an identity: system:cluster:<name>.
func scopeGroups(o Owner) []string {
	values := o.Extra[ScopesKey]
	if len(values) == 0 {
		return nil
	}
	// A user who impersonates another chooses scopes of up to a MiB.
	others := make([]sets.Set[string], 0, len(values)-1)
	for _, value := range values[1:] {
		others = append(others, sets.New(strings.Split(value, ",")...))
	}
	var groups []string
	for scope := range strings.SplitSeq(values[0], ",") {
		inAll := !slices.ContainsFunc(others, func(other sets.Set[string]) bool { return !other.Has(scope) })
		if inAll && strings.HasPrefix(scope, scopePrefix) {
			groups = append(groups, "system:"+scope)
		}
	}
	return groups
}

// maxHomes limits the homes of an owner, which reports describe one by one. A forged owner has room for thousands.
const maxHomes = 16

// Homes returns the home logical clusters of an owner and of the identities in its warrants, without nested ones: those that a service
// account claims, and the scopes of a user. They are in the order of occurrence, without duplicates, and at most maxHomes.
func Homes(owner Owner) []logicalcluster.Name {
	var homes []logicalcluster.Name
	add := func(name string) {
		if cluster := logicalcluster.Name(name); len(homes) < maxHomes && cluster.IsValid() && !strings.Contains(name, ":") && !slices.Contains(homes, cluster) {
			homes = append(homes, cluster)
		}
	}
	addAll := func(o Owner) {
		if o.IsServiceAccount() {
			for _, home := range o.homes() {
				add(home)
			}
			return
		}
		for _, group := range scopeGroups(o) {
			add(strings.TrimPrefix(group, "system:"+scopePrefix))
		}
	}
	if home, _, _, ok := owner.ServiceAccount(); ok {
		add(home.String())
	}
	addAll(owner)
	for _, raw := range owner.Extra[WarrantKey] {
		if w, err := ParseWarrant(raw); err == nil {
			addAll(w.owner())
		}
	}
	return homes
}

// ServiceAccount splits the name of a service account: its name in its home, or the global name that Rewrite sets. home is empty if it
// is unknown or ambiguous.
func (o Owner) ServiceAccount() (home logicalcluster.Name, namespace, name string, ok bool) {
	if global, isGlobal := strings.CutPrefix(o.Username, globalServiceAccountPrefix); isGlobal {
		parts := strings.Split(global, ":")
		if len(parts) != 3 {
			return "", "", "", false
		}
		return logicalcluster.Name(parts[0]), parts[1], parts[2], true
	}
	namespace, name, err := serviceaccount.SplitUsername(o.Username)
	if err != nil {
		return "", "", "", false
	}
	if homes := o.homes(); len(homes) == 1 {
		home = logicalcluster.Name(homes[0])
	}
	return home, namespace, name, true
}
