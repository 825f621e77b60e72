package events

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
)

const roleName = "warrantgate-events"

// KCPRoles returns the roles to write Events in every workspace of a shard, for the shard's logical cluster system:admin: workspace
// access, and create and patch of events. They permit nothing else.
func KCPRoles(username string) []client.Object {
	return install.Role(roleName, install.User(username),
		rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}}, Rule())
}

// Rule returns the permission to write Events.
func Rule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
}
