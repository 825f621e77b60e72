package identitytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/util/sets"

	"warrantgate.dev/internal/identity"
)

// Evaluate returns the effective users of an owner in a logical cluster.
type Evaluate func(owner identity.Owner, cluster logicalcluster.Name, globalServiceAccounts bool) []identity.Owner

// CheckElsewhere compares the permissions of the rewritten owner in a logical cluster, which is not the new one, with those of the creator
// without what was dropped. They are the same, except for the group of the new logical cluster, and for the name of a service account that
// was impersonated. Where kcp has no global service accounts, a service account with a home has no other permissions than the creator has where
// kcp has them.
func (c Case) CheckElsewhere(rewritten identity.Owner, cluster logicalcluster.Name, globalServiceAccounts bool, evaluate Evaluate) error {
	creator := c.passable(rewritten.Extra[identity.WarrantKey])
	if c.Impersonated() {
		creator.Username = rewritten.Username
	}
	before, now := subjects(evaluate(creator, cluster, globalServiceAccounts)), subjects(evaluate(rewritten, cluster, globalServiceAccounts))
	lost := before.Difference(now)
	if !globalServiceAccounts && creator.IsServiceAccount() {
		before, lost = subjects(evaluate(creator, cluster, true)), nil
	}
	gained := now.Difference(before).Delete("Group system:cluster:" + NewCluster.String())
	if len(gained)+len(lost) > 0 {
		return fmt.Errorf("in %s (global service accounts %t) the new owner gains %q and loses %q\ncreator: %s\nowner:   %s",
			cluster, globalServiceAccounts, sets.List(gained), sets.List(lost), c.Owner, rewritten)
	}
	return nil
}

// Impersonated reports whether the owner is a service account that names no home.
func (c Case) Impersonated() bool {
	return c.Owner.IsServiceAccount() && len(c.Owner.Extra[identity.ClusterNameKey]) == 0
}

// passable returns the creator without what a rewrite drops: privileged groups, and all warrants that the new owner does not have.
func (c Case) passable(warrants []string) identity.Owner {
	creator := c.Owner
	privileged, prefixes := identity.PrivilegedGroups()
	creator.Groups = slices.DeleteFunc(slices.Clone(creator.Groups), func(group string) bool {
		return slices.Contains(privileged, group) ||
			slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(group, prefix) })
	})
	creator.Extra = maps.Clone(creator.Extra)
	creator.Extra[identity.WarrantKey] = slices.DeleteFunc(slices.Clone(creator.Extra[identity.WarrantKey]), func(warrant string) bool {
		return !slices.Contains(warrants, warrant)
	})
	return creator
}

// subjects returns the subjects of RBAC that effective users match, without those that all clients match.
func subjects(effective []identity.Owner) sets.Set[string] {
	subjects := sets.New[string]()
	for _, as := range effective {
		subjects.Insert("User " + as.Username)
		for _, group := range as.Groups {
			subjects.Insert("Group " + group)
		}
	}
	return subjects.Delete("User system:anonymous", "Group system:unauthenticated")
}
