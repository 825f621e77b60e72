package capcstest

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace and ServiceAccount are those of the provider in its manifests.
const (
	Namespace      = "capcs-system"
	ServiceAccount = "cloudsigma-controller-manager"
)

// rules are those of config/install.yaml of the real provider, without the ones for leader election and Events.
var rules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: readers},
	{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters", "clusters/status", "machines", "machines/status"}, Verbs: readers},
	{APIGroups: []string{machineKind.Group}, Resources: []string{"cloudsigmaclusters", "cloudsigmamachines"}, Verbs: writers},
	{
		APIGroups: []string{machineKind.Group}, Resources: []string{"cloudsigmaclusters/finalizers", "cloudsigmamachines/finalizers"},
		Verbs: []string{"update"},
	},
	{
		APIGroups: []string{machineKind.Group}, Resources: []string{"cloudsigmaclusters/status", "cloudsigmamachines/status"},
		Verbs: []string{"get", "patch", "update"},
	},
}

var (
	readers = []string{"get", "list", "watch"}
	writers = append([]string{"create", "delete", "patch", "update"}, readers...)
)

// Install creates the provider's ClusterRole and its binding to the ServiceAccount, if they do not exist.
func Install(ctx context.Context, admin client.Client) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ServiceAccount + "-role"}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ServiceAccount + "-rolebinding"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: ServiceAccount}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}
