package owner

import (
	"slices"

	"github.com/kcp-dev/sdk/apis/apis"
	"github.com/kcp-dev/sdk/apis/core"
	"github.com/kcp-dev/sdk/apis/tenancy"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/leader"
)

const (
	// roleName names the roles of the repair and the initializer.
	roleName = "warrantgate-repair"
	// shardRoleName names the role in the shards.
	shardRoleName = "warrantgate-explain"
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
			named(apis.GroupName, "apiexports/content", workspacesExport, "list", "watch"),
			named(tenancy.GroupName, "workspacetypes", warranted, "get", "list", "watch", "initialize"),
			rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			named(coordinationv1.GroupName, "leases", leaseName, "get", "update"),
		),
	)
}

// Lease returns what the replicas make in root to agree on which one heals. An uninstall takes it out once they may not make it
// any more.
func Lease() client.Object {
	return leader.Lease(metav1.NamespaceDefault, leaseName)
}

// ShardRoles returns what lets a user see, in every workspace of a shard, whose a workspace is and what else keeps it from
// becoming Ready, and note on a Workspace that it was healed, once it is in the shard's logical cluster system:admin. kcp
// lets nobody write the status of a Workspace, where the note would belong.
func ShardRoles(username string) []client.Object {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	workspaceAdmins := rule(rbacv1.GroupName, "clusterrolebindings", "get")
	workspaceAdmins.ResourceNames = []string{workspaceAdmin}
	return install.Role(shardRoleName, install.User(username),
		workspaceAdmins,
		rule(core.GroupName, "logicalclusters", "get"),
		rule(tenancy.GroupName, "workspaces", "get", "patch"),
		rule(tenancy.GroupName, "workspacetypes", "get"),
		rule(apis.GroupName, "apiexports", "get"),
		rule(apis.GroupName, "apibindings", "list"),
		rule(authorizationv1.GroupName, "subjectaccessreviews", "create"))
}
