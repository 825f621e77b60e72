package preflight_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/preflight"
)

const rawName = "system:serviceaccount:default:bot"

// given is RBAC in a workspace: one rule for one subject.
func given(workspace, role, suffix string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) *preflight.Grant {
	return &preflight.Grant{Workspace: workspace, Objects: []client.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules,
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: role + ":" + suffix},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{subject},
		},
	}}
}

func TestCreation(t *testing.T) {
	atHome := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "bot"}
	elsewhere := rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: globalName}
	alice := rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}
	create := []rbacv1.PolicyRule{
		{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}},
		{APIGroups: []string{"tenancy.kcp.io"}, Resources: []string{"workspaces"}, Verbs: []string{"create", "get"}},
	}
	use := func(name string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"tenancy.kcp.io"}, Resources: []string{"workspacetypes"}, ResourceNames: []string{name}, Verbs: []string{"use"}}
	}
	const (
		team      = "root:org:team"
		again     = "apply the objects below in root:org, and create the workspace again"
		againAPIs = "apply the objects below in root:apis, and create the workspace again"
		gated     = "; kcp v0.30 knows it by that name only with --feature-gates=GlobalServiceAccount=true"
	)
	permissions := []string{rawName + " create  root:org", rawName + " use team root:org", globalName + " use base root:apis", globalName + " bind widgets root:apis"}

	for name, tc := range map[string]struct {
		creation    preflight.Creation
		given       func(*fakeKCP)
		want        []preflight.Finding
		wantType    string
		wantVerdict preflight.Answer
	}{
		"a service account that lacks nothing": {
			creation: preflight.Creation{Creator: rawName, Type: team},
			wantType: team, wantVerdict: preflight.Yes,
		},
		"the same by its global name": {
			creation: preflight.Creation{Creator: globalName, Type: team},
			wantType: team, wantVerdict: preflight.Yes,
		},
		"a type without a path is found from the parent upwards": {
			creation: preflight.Creation{Creator: rawName, Type: "team"},
			wantType: team, wantVerdict: preflight.Yes,
		},
		"without a type kcp takes the default of the parent's type": {
			creation: preflight.Creation{Creator: rawName},
			given: func(k *fakeKCP) {
				k.clusters["root:org"][0].GetAnnotations()["internal.tenancy.kcp.io/type"] = "root:apis:orgs"
				k.clusters["root:apis"] = append(k.clusters["root:apis"], at(&tenancyv1alpha1.WorkspaceType{
					ObjectMeta: metav1.ObjectMeta{Name: "orgs"},
					Spec: tenancyv1alpha1.WorkspaceTypeSpec{
						DefaultChildWorkspaceType: &tenancyv1alpha1.WorkspaceTypeReference{Name: "team", Path: "root:org"},
					},
				}, apisCluster, "root:apis"))
			},
			wantType: team, wantVerdict: preflight.Yes,
		},
		"a service account that lacks everything": {
			creation: preflight.Creation{Creator: rawName, Type: team},
			given:    func(k *fakeKCP) { k.permissions = nil },
			wantType: team, wantVerdict: preflight.No,
			want: []preflight.Finding{
				{
					Reason: preflight.CreatePermissionMissing, Message: "service account default/bot of root:org may not create Workspaces in root:org",
					Next: again, Grant: given("root:org", "warrantgate:create-workspaces", "1883af6b3b6be1c90bd398af247c74bc", atHome, create...),
				},
				{
					Reason: preflight.UsePermissionMissing, Message: `service account default/bot of root:org lacks "use" on the type root:org:team`,
					Next: again, Grant: given("root:org", "warrantgate:use:team", "1883af6b3b6be1c90bd398af247c74bc", atHome, use("team")),
				},
				{
					Reason: preflight.UsePermissionMissing, Message: `service account default/bot of root:org lacks "use" on the type root:apis:base`,
					Next: againAPIs + gated, Grant: given("root:apis", "warrantgate:use:base", "b7b21d0e91b2ba39b73ccf999daf1144", elsewhere, use("base")),
				},
				{
					Reason:  preflight.BindPermissionMissing,
					Message: `service account default/bot of root:org lacks "bind" on the APIExport "widgets" in root:apis`,
					Next:    againAPIs, Grant: grantTo("b7b21d0e91b2ba39b73ccf999daf1144", elsewhere),
				},
			},
		},
		"a user without the permission to use the type": {
			creation: preflight.Creation{Creator: "alice", Type: team},
			given: func(k *fakeKCP) {
				k.permissions = []string{"alice create  root:org", "alice use base root:apis", "alice bind widgets root:apis"}
			},
			wantType: team, wantVerdict: preflight.No,
			want: []preflight.Finding{{
				Reason: preflight.UsePermissionMissing, Message: `user "alice" lacks "use" on the type root:org:team`,
				Next: again, Grant: given("root:org", "warrantgate:use:team", "f57017e3497b3b519ff162bf020fa687", alice, use("team")),
			}},
		},
		"a service account of another workspace": {
			creation: preflight.Creation{Creator: "system:kcp:serviceaccount:" + apisCluster.String() + ":default:bot", Type: team},
			given: func(k *fakeKCP) {
				foreign := "system:kcp:serviceaccount:" + apisCluster.String() + ":default:bot"
				k.permissions = []string{foreign + " use team root:org", rawName + " use base root:apis", rawName + " bind widgets root:apis"}
			},
			wantType: team, wantVerdict: preflight.No,
			want: []preflight.Finding{{
				Reason: preflight.CreatePermissionMissing, Message: "service account default/bot of root:apis may not create Workspaces in root:org",
				Next: "let a service account of root:org create it: kcp does not permit a service account to create Workspaces outside its home",
			}},
		},
		"a type that does not exist": {
			creation: preflight.Creation{Creator: rawName, Type: "root:org:none"},
			wantType: "root:org:none", wantVerdict: preflight.No,
			want: []preflight.Finding{{
				Reason: preflight.TypeMissing, Message: "the type root:org:none does not exist", Next: "create it, or name another type",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			k.permissions = permissions
			if tc.given != nil {
				tc.given(k)
			}
			tc.creation.Path = logicalcluster.NewPath("root:org:new")
			report, err := k.checker(t).CheckCreation(t.Context(), tc.creation)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]preflight.Finding{}, tc.want...), report.Findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if report.Workspace.Type != tc.wantType || report.Workspace.Path != "root:org:new" || !report.Workspace.NotCreated {
				t.Errorf("workspace = %+v, want type %s", report.Workspace, tc.wantType)
			}
			if got := preflight.Verdict(report.Findings); got != tc.wantVerdict {
				t.Errorf("verdict = %s, want %s", got, tc.wantVerdict)
			}
		})
	}
}

func TestCreationsThatCannotBeExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		path, creator, ofType, want string
		closed                      []string
	}{
		"no parent":                    {path: "3ckxs5l4w09g7c29", creator: "alice", want: `"3ckxs5l4w09g7c29" is not the path of a workspace in another one, such as root:orgs:team-a`},
		"a parent that does not exist": {path: "root:other:new", creator: "alice", want: "there is no workspace root:other"},
		"a parent that may not be read": {
			path: "root:org:new", creator: "alice", closed: []string{"root:org"},
			want: `you lack "get" on logicalclusters.core.kcp.io in root:org, or access to that workspace, or the shard that has it is down`,
		},
		"the name of no service account": {
			path: "root:org:new", creator: "system:serviceaccount:bot",
			want: `"system:serviceaccount:bot" is not the name of a service account, such as system:serviceaccount:default:bot`,
		},
		"no type, and no default for it": {
			path: "root:org:new", creator: "alice", want: `the type of root:org, root:org:team, has no default for the type of its children: name one with --type`,
		},
		"a type that is nowhere": {path: "root:org:new", creator: "alice", ofType: "none", want: "there is no type none in root:org or above"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			k.clusters["root:org"][0].GetAnnotations()["internal.tenancy.kcp.io/type"] = "root:org:team"
			k.closed = tc.closed
			_, err := k.checker(t).CheckCreation(t.Context(), preflight.Creation{Path: logicalcluster.NewPath(tc.path), Creator: tc.creator, Type: tc.ofType})
			if err == nil || err.Error() != tc.want {
				t.Errorf("CheckCreation() error = %v, want %s", err, tc.want)
			}
		})
	}
}
