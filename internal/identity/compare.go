package identity

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
)

// SameOwner reports whether the owner of a LogicalCluster is the owner of its Workspace, or the result of Rewrite of that owner. kcp
// copies the owner from the Workspace once. Administrators of the workspace can then change it on the LogicalCluster. parent is the logical cluster
// that contains the Workspace, and name that of the LogicalCluster.
//
// When the logical cluster is Ready, kcp reduces the owner of the Workspace to the user name, and before v0.32 that of the LogicalCluster, too: from
// v0.32 on, spec.createdBy keeps the rest. From then on, only the names can be compared. If the owner of the Workspace cannot be read, SameOwner
// returns true. An owner that is too large can: its creator chooses its size.
func SameOwner(workspace, cluster string, parent, name logicalcluster.Name, requiredGroups string, ready bool) bool {
	recorded, err := parseOwner(workspace)
	if workspace == cluster || err != nil {
		return true
	}
	acting, err := parseOwner(cluster)
	if err != nil {
		return false
	}
	if acting.String() == recorded.String() {
		return true
	}
	arrived := recorded.Extra[WarrantKey]
	if rewritten, report := Rewrite(workspace, parent, name, requiredGroups, Policy{}); report.Changed() && rewritten.without(arrived).String() == acting.without(arrived).String() {
		return true
	}
	return ready && (recorded.isNameOnly() || acting.isNameOnly()) && sameName(recorded, acting)
}

// without returns the owner without the given warrants. A delegation policy, which is unknown here, may have kept them.
func (o Owner) without(warrants []string) Owner {
	if len(o.Extra[WarrantKey]) == 0 {
		return o
	}
	o.Extra = maps.Clone(o.Extra)
	o.Extra[WarrantKey] = slices.DeleteFunc(slices.Clone(o.Extra[WarrantKey]), func(raw string) bool { return slices.Contains(warrants, raw) })
	if len(o.Extra[WarrantKey]) == 0 {
		delete(o.Extra, WarrantKey)
	}
	return o
}

// isNameOnly reports whether kcp has reduced the owner to its name.
func (o Owner) isNameOnly() bool { return o.UID == "" && len(o.Groups) == 0 && len(o.Extra) == 0 }

// sameName reports whether two owners have the same user name, or names of the same service account: the name in its home, and the
// global name.
func sameName(a, b Owner) bool {
	if a.Username == b.Username {
		return true
	}
	homeA, namespaceA, nameA, ok := a.ServiceAccount()
	if !ok {
		return false
	}
	homeB, namespaceB, nameB, ok := b.ServiceAccount()
	return ok && namespaceA == namespaceB && nameA == nameB && (homeA.Empty() || homeB.Empty() || homeA == homeB)
}

// DescribeDifference returns the message for a LogicalCluster for which SameOwner returns false.
func DescribeDifference(workspace, cluster string) string {
	return fmt.Sprintf("kcp recorded user %q as the owner on the Workspace, but acts as user %q with what the LogicalCluster records: "+
		"it was changed there, as an administrator of the workspace can; delete the workspace", username(workspace), username(cluster))
}

// DescribeChange returns the message for a LogicalCluster that was updated and whose owner is not the one that the update contained.
func DescribeChange(written, stored string) string {
	return fmt.Sprintf("the update of the LogicalCluster contained user %q as the owner, but kcp stored user %q: a webhook or an admission policy "+
		"in the workspace changed it, which an administrator of the workspace can register; delete the workspace", username(written), username(stored))
}

func username(raw string) string {
	owner, err := parseOwner(raw)
	if err != nil {
		return ""
	}
	return owner.Username
}
