package events

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
)

const roleName = "warrantgate-events"

// KCPRoles returns what lets a user write Events in every workspace of a shard, and nothing else, once it is in the
// shard's logical cluster system:admin: access to workspaces at all, and create and patch of events.
func KCPRoles(username string) []client.Object {
	return install.Role(roleName, install.User(username),
		rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}}, Rule())
}

// Rule is the right to write Events, and nothing else.
func Rule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
}
