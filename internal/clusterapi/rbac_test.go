package clusterapi_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
)

// The test compares whole lists, so that every added permission fails it.
func TestRoles(t *testing.T) {
	const group = "infrastructure.cluster.x-k8s.io"
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	var (
		writeEvents = rule("", "events", "create", "patch")
		review      = rule("authorization.k8s.io", "subjectaccessreviews", "create")
		kdc         = rule("k8s.kube-dc.com", "kdcclusters", "get")
		readSecrets = rule("", "secrets", "get")
		read        = func(resource string) rbacv1.PolicyRule { return rule(group, resource, "get", "list", "watch") }
		references  = rule("cluster.x-k8s.io", "clusters", "get", "list")
		owners      = rule("cluster.x-k8s.io", "machines", "get", "list", "watch")
		lease       = []rbacv1.PolicyRule{
			rule("coordination.k8s.io", "leases", "create"),
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"audit"}, Verbs: []string{"get", "update"}},
		}
	)
	// off disables the gates that are enabled by default, and then calls on.
	off := func(on func(c *v1beta1.GateConfiguration)) func(c *v1beta1.GateConfiguration) {
		return func(c *v1beta1.GateConfiguration) {
			c.Machine.Mode, c.Audit.Mode, c.ControllerManager.Mode = v1beta1.Off, v1beta1.Off, v1beta1.Off
			c.Cluster.Impersonation.Mode, c.Cluster.Delegation.Mode = v1beta1.Off, v1beta1.Off
			on(c)
		}
	}
	openStack := func(c *v1beta1.GateConfiguration) {
		c.OpenStack.AuthURLs = []string{"https://keystone.example.com/v3"}
	}
	furtherCredentials := func(c *v1beta1.GateConfiguration) {
		openStack(c)
		c.Cluster.Delegation.Mode = v1beta1.Enforce
		c.Cluster.Delegation.Kinds = []v1beta1.CredentialKind{{Group: "example.com", Version: "v1", Kind: "Farm", Resource: "farms"}}
	}
	for name, tc := range map[string]struct {
		modify func(c *v1beta1.GateConfiguration)
		want   []rbacv1.PolicyRule
		// wantReports are the verbs for reports. Default: delete and list.
		wantReports []string
		// wantLease are the rules in the namespace of the Lease.
		wantLease []rbacv1.PolicyRule
	}{
		"all, with configured kinds": {
			modify: func(c *v1beta1.GateConfiguration) {
				openStack(c)
				c.Machine.Kinds = []v1beta1.MachineKind{metalMachines.MachineKind}
			},
			want: []rbacv1.PolicyRule{
				writeEvents, review, kdc, readSecrets, read("cloudsigmaclusters"), read("openstackclusters"), references,
				read("cloudsigmamachines"), read("openstackmachines"), read("metalmachines"), owners,
			},
			wantLease: lease,
		},
		"policies of Keystone only": {
			modify: off(func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Mode = v1beta1.Enforce }),
			want:   []rbacv1.PolicyRule{writeEvents},
		},
		"policies of Keystone over a base": {
			modify: off(func(c *v1beta1.GateConfiguration) {
				c.KeystonePolicy.Mode = v1beta1.Warn
				c.KeystonePolicy.Base = []v1beta1.KeystonePolicyBase{{Namespace: "a", Name: "live"}, {Namespace: "a", Name: "before"}, {Namespace: "b", Name: "live"}}
			}),
			want: []rbacv1.PolicyRule{writeEvents, {
				APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"before", "live"}, Verbs: []string{"get"},
			}},
		},
		"a base of no policies": {
			modify: off(func(c *v1beta1.GateConfiguration) {
				c.KeystonePolicy.Mode = v1beta1.Off
				c.KeystonePolicy.Base = []v1beta1.KeystonePolicyBase{{Namespace: "a", Name: "live"}}
			}),
			want: []rbacv1.PolicyRule{writeEvents},
		},
		"impersonation only": {
			modify: off(func(c *v1beta1.GateConfiguration) { c.Cluster.Impersonation.Mode = v1beta1.Warn }),
			want:   []rbacv1.PolicyRule{writeEvents, review, kdc, readSecrets, read("cloudsigmaclusters")},
		},
		"delegation only": {
			modify: off(func(c *v1beta1.GateConfiguration) { openStack(c); c.Cluster.Delegation.Mode = v1beta1.Enforce }),
			want: []rbacv1.PolicyRule{
				writeEvents, readSecrets, read("cloudsigmaclusters"), read("openstackclusters"), references, rule(group, "openstackmachines", "list"),
			},
		},
		"delegation with configured kinds": {
			modify: off(func(c *v1beta1.GateConfiguration) { furtherCredentials(c); c.Machine.Mode = v1beta1.Enforce }),
			want: []rbacv1.PolicyRule{
				writeEvents, readSecrets, read("cloudsigmaclusters"), read("openstackclusters"), references,
				read("cloudsigmamachines"), read("openstackmachines"), owners, rule("example.com", "farms", "list"),
			},
		},
		"delegation with configured kinds, without machines": {
			modify: off(furtherCredentials),
			want: []rbacv1.PolicyRule{
				writeEvents, readSecrets, read("cloudsigmaclusters"), read("openstackclusters"), references,
				rule(group, "openstackmachines", "list"), rule("example.com", "farms", "list"),
			},
		},
		"delegation without an OpenStack": {
			modify: off(func(c *v1beta1.GateConfiguration) { c.Cluster.Delegation.Mode = v1beta1.Enforce }),
			want:   []rbacv1.PolicyRule{writeEvents},
		},
		"controller managers only": {
			modify: off(func(c *v1beta1.GateConfiguration) { c.ControllerManager.Mode = v1beta1.Enforce }),
			want:   []rbacv1.PolicyRule{writeEvents, readSecrets, read("cloudsigmaclusters")},
		},
		"machines without the audit": {
			modify: off(func(c *v1beta1.GateConfiguration) { c.Machine.Mode = v1beta1.Enforce }),
			want:   []rbacv1.PolicyRule{writeEvents, readSecrets, read("cloudsigmaclusters"), read("cloudsigmamachines"), owners},
		},
		"the audit only": {
			modify:    off(func(c *v1beta1.GateConfiguration) { c.Audit.Mode = v1beta1.Enforce }),
			want:      []rbacv1.PolicyRule{writeEvents, readSecrets, read("cloudsigmaclusters"), read("cloudsigmamachines"), owners},
			wantLease: lease,
		},
		"the audit with reports": {
			modify: off(func(c *v1beta1.GateConfiguration) { c.Audit.Mode, c.Audit.Reports = v1beta1.Enforce, true }),
			want:   []rbacv1.PolicyRule{writeEvents, readSecrets, read("cloudsigmaclusters"), read("cloudsigmamachines"), owners}, wantLease: lease,
			wantReports: []string{"create", "delete", "get", "list", "patch"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := v1beta1.Default()
			tc.modify(&config)
			if tc.wantReports == nil {
				tc.wantReports = []string{"delete", "list"}
			}
			tc.want = slices.Insert(tc.want, 1, rbacv1.PolicyRule{
				APIGroups: []string{"openreports.io", "wgpolicyk8s.io"}, Resources: []string{"reports", "policyreports"}, ResourceNames: []string{"warrantgate"},
				Verbs: tc.wantReports,
			})
			if diff := cmp.Diff(wantRoles(tc.want, tc.wantLease), clusterapi.Roles(config, "gate", "home", "audit")); diff != "" {
				t.Errorf("Roles() (-want +got):\n%s", diff)
			}
		})
	}
}

// wantRoles returns the objects that grant the user "gate" the rules in all namespaces, and inHome in namespace "home".
func wantRoles(rules, inHome []rbacv1.PolicyRule) []client.Object {
	const version = "rbac.authorization.k8s.io/v1"
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: kind, Name: "warrantgate"}
	}
	subjects := []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "gate"}}
	everywhere, home := metav1.ObjectMeta{Name: "warrantgate"}, metav1.ObjectMeta{Namespace: "home", Name: "warrantgate"}
	want := []client.Object{
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: everywhere, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: everywhere, Subjects: subjects, RoleRef: ref("ClusterRole"),
		},
	}
	if inHome == nil {
		return want
	}
	return append(want,
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: home, Rules: inHome},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"}, ObjectMeta: home, Subjects: subjects, RoleRef: ref("Role"),
		},
	)
}
