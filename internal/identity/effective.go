package identity

import (
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Effective returns everybody whose rights an owner has in a logical cluster, in kcp's order: the owner itself where it is
// in scope, the global name of a service account, those whom its warrants name, and whoever has no credentials.
//
// globalServiceAccounts is kcp's feature gate GlobalServiceAccount, on by default from v0.31. Warrants are read as kcp reads
// them, which is less strict than ParseWarrant, because the question is what kcp does and not what it should do.
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

// effective is one call of Effective: what was asked, and what has been found.
type effective struct {
	cluster               logicalcluster.Name
	globalServiceAccounts bool

	all []Owner
	// authenticated and unauthenticated tell which kinds of identities were met that are out of scope.
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
			continue // nobody knows which one it is
		}
		named.Groups = slices.Concat(named.Groups, scopeGroups(named))
		e.add(named)
	}
}

// scopeGroups returns the groups by which kcp marks where an identity is confined to.
func scopeGroups(o Owner) []string {
	values := o.Extra[ScopesKey]
	if len(values) == 0 {
		return nil
	}
	var groups []string
	for scope := range strings.SplitSeq(values[0], ",") {
		inAll := !slices.ContainsFunc(values[1:], func(value string) bool { return !slices.Contains(strings.Split(value, ","), scope) })
		if inAll && strings.HasPrefix(scope, scopePrefix) {
			groups = append(groups, "system:"+scope)
		}
	}
	return groups
}

// Homes returns the logical clusters where an owner, or one of those whom its own warrants name, is at home: where a service
// account lives, and what a person is scoped to. Each once, in the order in which they are met.
func Homes(owner Owner) []logicalcluster.Name {
	var homes []logicalcluster.Name
	add := func(name string) {
		if cluster := logicalcluster.Name(name); cluster.IsValid() && !strings.Contains(name, ":") && !slices.Contains(homes, cluster) {
			homes = append(homes, cluster)
		}
	}
	addAll := func(o Owner) {
		if o.IsServiceAccount() {
			for _, home := range o.homes() {
				add(home)
			}
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

// ServiceAccount takes the name of a service account apart: its own in its home, or the global one that a rewrite gives it.
// Home is empty where it is not known for certain.
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
