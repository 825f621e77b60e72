package clusterapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1alpha1"
)

// The list is compared as a whole, so that no right comes to it unnoticed.
func TestRoles(t *testing.T) {
	const group, version = "infrastructure.cluster.x-k8s.io", "rbac.authorization.k8s.io/v1"
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: kind, Name: "warrantgate"}
	}
	subjects := []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "gate"}}
	everywhere, inHome := metav1.ObjectMeta{Name: "warrantgate"}, metav1.ObjectMeta{Namespace: "home", Name: "warrantgate"}
	want := []client.Object{
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: everywhere, Rules: []rbacv1.PolicyRule{
			rule(group, "cloudsigmaclusters", "get", "list", "watch"),
			rule(group, "openstackclusters", "get", "list", "watch"),
			rule("", "secrets", "get"),
			rule("authorization.k8s.io", "subjectaccessreviews", "create"),
			rule("", "events", "create", "patch"),
			rule(group, "cloudsigmamachines", "get", "list", "watch"),
			rule(group, "metalmachines", "get", "list", "watch"),
			rule(group, "openstackmachines", "get", "list", "watch"),
		}},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: everywhere, Subjects: subjects, RoleRef: ref("ClusterRole"),
		},
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: inHome, Rules: []rbacv1.PolicyRule{
			rule("coordination.k8s.io", "leases", "create"),
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"audit"}, Verbs: []string{"get", "update"}},
		}},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"}, ObjectMeta: inHome, Subjects: subjects, RoleRef: ref("Role"),
		},
	}
	got := clusterapi.Roles([]v1alpha1.MachineKind{cloudSigmaMachines.MachineKind, metalMachines.MachineKind, openStackMachines.MachineKind}, "gate", "home", "audit")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Roles() (-want +got):\n%s", diff)
	}
}
