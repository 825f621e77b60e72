package owner

import (
	"slices"

	"github.com/kcp-dev/sdk/apis/apis"
	"github.com/kcp-dev/sdk/apis/tenancy"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
)

const (
	// roleName names the roles of the repair and the initializer.
	roleName = "warrantgate-repair"
	// shardRoleName names the role in the shards.
	shardRoleName = "warrantgate-workspace-admin"
	// typeRoleName names the role of whoever creates workspaces of a type that extends warranted.
	typeRoleName = "warrantgate-warranted"
)

// RootObjects returns the type warranted, which everybody may use, as the types that come with kcp; and what lets a user,
// once it is in root, see the Workspaces of all shards, initialize those of the type, and agree with its replicas on
// which one does.
func RootObjects(username string) []client.Object {
	named := func(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs}
	}
	return slices.Concat(
		[]client.Object{WorkspaceType()},
		install.Role(typeRoleName, install.Group(user.AllAuthenticated), named(tenancy.GroupName, "workspacetypes", warranted, "use")),
		install.Role(roleName, install.User(username),
			named(apis.GroupName, "apiexportendpointslices", workspacesExport, "get"),
			named(apis.GroupName, "apiexports/content", workspacesExport, "list"),
			named(tenancy.GroupName, "workspacetypes", warranted, "get", "list", "watch", "initialize"),
			rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			named(coordinationv1.GroupName, "leases", leaseName, "get", "update"),
		),
	)
}

// ShardRoles returns what lets a user see whose a workspace is, in every workspace of a shard, once it is in the shard's
// logical cluster system:admin.
func ShardRoles(username string) []client.Object {
	return install.Role(shardRoleName, install.User(username), rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"},
		ResourceNames: []string{workspaceAdmin}, Verbs: []string{"get"},
	})
}
