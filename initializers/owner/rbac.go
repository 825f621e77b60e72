package owner

import (
	"github.com/kcp-dev/sdk/apis/apis"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
)

// roleName names the roles of the repair.
const roleName = "warrantgate-repair"

// RootRoles returns what lets a user see the Workspaces of all shards, once it is in root: where the virtual workspaces
// of the APIExport tenancy.kcp.io are, and a list of what is in them; and lets its replicas agree on which one heals.
func RootRoles(username string) []client.Object {
	return install.Role(roleName, username,
		rbacv1.PolicyRule{
			APIGroups: []string{apis.GroupName}, Resources: []string{"apiexportendpointslices"},
			ResourceNames: []string{workspacesExport}, Verbs: []string{"get"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{apis.GroupName}, Resources: []string{"apiexports/content"},
			ResourceNames: []string{workspacesExport}, Verbs: []string{"list"},
		},
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			ResourceNames: []string{leaseName}, Verbs: []string{"get", "update"},
		})
}

// ShardRoles returns what lets a user see whose a workspace is, in every workspace of a shard, once it is in the shard's
// logical cluster system:admin.
func ShardRoles(username string) []client.Object {
	return install.Role(roleName, username, rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"},
		ResourceNames: []string{workspaceAdmin}, Verbs: []string{"get"},
	})
}
