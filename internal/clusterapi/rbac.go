package clusterapi

import (
	"maps"
	"slices"

	"github.com/kcp-dev/sdk/apis/apis"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/audit/reports"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
)

const (
	// roleName is the name of the roles on Kubernetes.
	roleName = "warrantgate"
	// workspaceRoleName is the name of the role in the shards of kcp.
	workspaceRoleName = "warrantgate-machines"
	// providerRoleName is the name of the role in the workspace of a provider on kcp, exportRoleName that for the objects of its APIExports.
	providerRoleName = "warrantgate-reviews"
	exportRoleName   = "warrantgate-exports"
	// auditRoleName is the name of the role of the audit in the workspace root of kcp.
	auditRoleName = "warrantgate-audit"
)

// Roles returns the roles that serve needs for the enabled gates and the audit: to read machines and their clusters, to read the
// Secrets that these refer to, to create SubjectAccessReviews, to write Events and reports, and to hold the Lease of the audit. Reports of an
// earlier configuration are deleted.
//
// The clusters decide which Secrets contain users, so the permission to read Secrets has no resource names. It is only get, not
// list or watch.
func Roles(config v1beta1.GateConfiguration, username, leaseNamespace, lease string) []client.Object {
	subject := install.User(username)
	roles := install.Role(roleName, subject, rules(config)...)
	if config.Audit.Mode == v1beta1.Off {
		return roles
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: roleName}, Rules: []rbacv1.PolicyRule{
		rule(coordinationv1.GroupName, "leases", "create"),
		{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{lease}, Verbs: []string{"get", "update"}},
	}}
	role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("Role"))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: roleName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: roleName},
		Subjects:   []rbacv1.Subject{subject},
	}
	binding.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
	return append(roles, role, binding)
}

func rules(config v1beta1.GateConfiguration) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{events.Rule(), reports.Rule(config.Audit.WritesReports())}
	if config.Cluster.Impersonation.Mode != v1beta1.Off {
		rules = append(rules, rule(authorizationv1.GroupName, "subjectaccessreviews", "create"))
	}
	if names := config.KeystonePolicy.BaseNames(); len(names) > 0 {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{corev1.GroupName}, Resources: []string{"configmaps"}, ResourceNames: names, Verbs: []string{"get"},
		})
	}
	if !config.ReadsClusters() {
		return rules
	}
	if config.Cluster.Impersonation.Mode != v1beta1.Off {
		rules = append(rules, rule(KdcClusters.Group, KdcClusters.Resource, "get"))
	}
	rules = append(rules, rule(corev1.GroupName, "secrets", "get"))
	kinds := config.MachineKinds()
	clusters := clusterKindsOf(kinds)
	for _, provider := range slices.Sorted(maps.Keys(clusters)) {
		cluster := clusters[provider].resource
		rules = append(rules, rule(cluster.Group, cluster.Resource, "get", "list", "watch"))
	}
	if _, byReference := clusters[v1beta1.ProviderOpenStack]; byReference {
		rules = append(rules, rule(CoreClusters.Group, CoreClusters.Resource, "get", "list"))
	}
	if config.ReadsMachines() {
		for _, kind := range kinds {
			rules = append(rules, rule(kind.Group, kind.Resource, "get", "list", "watch"))
		}
		rules = append(rules, rule(OwnerMachines.Group, OwnerMachines.Resource, "get", "list", "watch"))
	}
	// A Secret may contain credentials for another Keystone if no object refers to them.
	if config.OpenStack.Enabled() && config.Cluster.Delegation.Mode != v1beta1.Off {
		if !config.ReadsMachines() {
			rules = append(rules, rule(OpenStackMachines.Group, OpenStackMachines.Resource, "list"))
		}
		for _, kind := range config.Cluster.Delegation.Kinds {
			rules = append(rules, rule(kind.Group, kind.Resource, "list"))
		}
	}
	return rules
}

// WorkspaceRoles returns roles for a shard's logical cluster system:admin. They permit a user, in every workspace of the shard, to read the
// objects that a workspace may have from elsewhere than a provider, and to write Events, and to find the shards in root.
func WorkspaceRoles(username string) []client.Object {
	return install.Role(workspaceRoleName, install.User(username),
		rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/apis/*"}, Verbs: []string{"get"}}, // discovery
		rule(OwnerMachines.Group, OwnerMachines.Resource, "get"),
		rule(KdcClusters.Group, KdcClusters.Resource, "get"),
		named("apiexportendpointslices", []string{kcp.WorkspacesExport}, "get"),
		events.Rule())
}

// ProviderRoles returns the roles that permit a user to create SubjectAccessReviews and to read APIExports in the workspace of a provider.
// WorkspaceRoles give access to that workspace.
func ProviderRoles(username string) []client.Object {
	return install.Role(providerRoleName, install.User(username),
		rule(authorizationv1.GroupName, "subjectaccessreviews", "create"), rule(apis.GroupName, "apiexports", "get", "list"))
}

// ExportRoles returns the roles that permit a user to read the objects of APIExports, by their names, in all workspaces that bind them. They
// are for the workspace of a provider.
//
// The permission includes objects that an APIExport claims in these workspaces, because kcp does not distinguish kinds.
func ExportRoles(exports []string, username string) []client.Object {
	return install.Role(exportRoleName, install.User(username),
		named("apiexportendpointslices", exports, "get"), named("apiexports/content", exports, "get", "list"))
}

// AuditRoles returns the roles that permit a user to find the shards and to hold the Lease of the audit, in the workspace root of kcp.
func AuditRoles(username, lease string) []client.Object {
	return install.Role(auditRoleName, install.User(username),
		named("apiexportendpointslices", []string{kcp.WorkspacesExport}, "get"),
		rule(coordinationv1.GroupName, "leases", "create"),
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{lease}, Verbs: []string{"get", "update"}})
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// named returns the rule for objects of the group of APIExports, by their names.
func named(resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{apis.GroupName}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}
