package clusterapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
)

// The test compares whole lists, so that every added permission of the audit on kcp fails it.
func TestRolesOfTheAuditOnKCP(t *testing.T) {
	named := func(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs}
	}
	for name, tc := range map[string]struct {
		roles []client.Object
		want  []rbacv1.PolicyRule
	}{
		"warrantgate-exports": {clusterapi.ExportRoles([]string{"capcs"}, "alice"), []rbacv1.PolicyRule{
			named("apis.kcp.io", "apiexportendpointslices", "capcs", "get"), named("apis.kcp.io", "apiexports/content", "capcs", "get", "list"),
		}},
		"warrantgate-audit": {clusterapi.AuditRoles("alice", "lease"), []rbacv1.PolicyRule{
			named("apis.kcp.io", "apiexportendpointslices", "tenancy.kcp.io", "get"),
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			named("coordination.k8s.io", "leases", "lease", "get", "update"),
		}},
	} {
		role, isRole := tc.roles[0].(*rbacv1.ClusterRole)
		binding, isBinding := tc.roles[1].(*rbacv1.ClusterRoleBinding)
		if !isRole || !isBinding || len(tc.roles) != 2 {
			t.Fatalf("%s: %v", name, tc.roles)
		}
		if diff := cmp.Diff(tc.want, role.Rules); diff != "" || role.Name != name {
			t.Errorf("%s: rules (-want +got):\n%s", role.Name, diff)
		}
		if len(binding.Subjects) != 1 || binding.Subjects[0].Kind != rbacv1.UserKind || binding.Subjects[0].Name != "alice" {
			t.Errorf("%s: subjects %v", name, binding.Subjects)
		}
	}
}
