package certificates

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
)

// roleName names the role on kcp.
const roleName = "warrantgate-certificates"

// KCPRoles returns what lets a user put its authority into those of the objects that are webhook configurations, once it is
// in root, which kcp lets everybody enter: get and patch of these by name. RBAC cannot bind a patch to the one field.
func KCPRoles(username string, objects []client.Object) []client.Object {
	var rules []rbacv1.PolicyRule
	for _, configuration := range objects {
		if !isConfiguration(configuration) {
			continue
		}
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups:     []string{admissionregistrationv1.GroupName},
			Resources:     []string{strings.ToLower(configuration.GetObjectKind().GroupVersionKind().Kind) + "s"},
			ResourceNames: []string{configuration.GetName()}, Verbs: []string{"get", "patch"},
		})
	}
	return install.Role(roleName, install.User(username), rules...)
}
