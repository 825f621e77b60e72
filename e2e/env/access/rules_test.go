package access_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"warrantgate.dev/e2e/env/access"
)

func TestRuleNames(t *testing.T) {
	got := access.RuleNames("watcher", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"own"}, Verbs: []string{"get"}},
		{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}},
	})
	want := []string{
		`watcher: create,patch events [""]`, `watcher: create,patch events ["events.k8s.io"]`,
		`watcher: get secrets own [""]`, `watcher: access / []`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("RuleNames() (-want +got):\n%s", diff)
	}
}
