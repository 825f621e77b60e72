package owner

import (
	"slices"

	"github.com/kcp-dev/sdk/apis/apis"
	"github.com/kcp-dev/sdk/apis/core"
	"github.com/kcp-dev/sdk/apis/tenancy"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
)

const (
	// warranted is the WorkspaceType in root whose initializer keeps workspaces from becoming Ready before their owner is correct. Other
	// types extend it.
	warranted = "warranted"

	// LeaseName is the Lease of the replica that runs both controllers. It is in namespace default of root.
	LeaseName = "warrantgate-repair"

	// roleName is the role of the repair and the initializer in root.
	roleName = "warrantgate-repair"
	// shardRoleName is their role on each shard.
	shardRoleName = "warrantgate-explain"
	// typeRoleName is the role of users who create workspaces of a type that extends warranted.
	typeRoleName = "warrantgate-warranted"
)

// initializer is the initializer of the WorkspaceType warranted, as LogicalClusters name it.
var initializer = initialization.InitializerForReference(tenancyv1alpha1.WorkspaceTypeReference{
	Path: kcp.Root.String(), Name: warranted,
})

// WorkspaceType returns the type warranted. It has no permissions in the workspaces: their owner is written from outside, and
// nothing else is.
func WorkspaceType() client.Object {
	wt := &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: warranted},
		Spec:       tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true},
	}
	wt.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("WorkspaceType"))
	return wt
}

// RootObjects returns the objects in root: the type warranted, which everybody may use, as the types that come with kcp; and the RBAC
// with which a user lists the Workspaces of all shards, initializes those of the type, and holds the Lease.
func RootObjects(username string) []client.Object {
	named := func(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs}
	}
	return slices.Concat(
		[]client.Object{WorkspaceType()},
		install.Role(typeRoleName, install.Group(user.AllAuthenticated), named(tenancy.GroupName, "workspacetypes", warranted, "use")),
		install.Role(roleName, install.User(username),
			named(apis.GroupName, "apiexportendpointslices", kcp.WorkspacesExport, "get"),
			named(apis.GroupName, "apiexports/content", kcp.WorkspacesExport, "list", "watch"),
			named(tenancy.GroupName, "workspacetypes", warranted, "get", "initialize"),
			rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			named(coordinationv1.GroupName, "leases", LeaseName, "get", "update"),
		),
	)
}

// Lease returns the Lease in root, which the replicas create. An uninstall removes it after their permission to create it.
func Lease() client.Object {
	return install.Lease(metav1.NamespaceDefault, LeaseName)
}

// ShardRoles returns the RBAC in the logical cluster system:admin of a shard with which a user reads, in every workspace of that shard, the
// owner and the other causes that keep the workspace from becoming Ready. With it the user also annotates a Workspace after a repair. kcp
// allows no user to write the status of a Workspace, where that would belong.
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
