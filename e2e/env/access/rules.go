package access

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// RuleNames returns a name for each rule of a role: the role and everything that the rule allows. All names of a role are different.
func RuleNames(role string, rules []rbacv1.PolicyRule) []string {
	var names []string
	for _, rule := range rules {
		names = append(names, fmt.Sprintf("%s: %s %s %q", role, strings.Join(rule.Verbs, ","),
			strings.Join(slices.Concat(rule.NonResourceURLs, rule.Resources, rule.ResourceNames), " "), rule.APIGroups))
	}
	return names
}
