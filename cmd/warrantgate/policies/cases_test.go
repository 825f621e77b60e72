package policies

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

// TestTheAcceptanceMatrix runs warrantgate's own table of cases on overrides of the operators, unchanged and with mistakes.
func TestTheAcceptanceMatrix(t *testing.T) {
	operators := filepath.Join("..", "..", "..", "e2e", "suites", "keystonepolicy", "testdata", "operators")
	after, err := os.ReadFile(filepath.Join(operators, "after.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	live, err := filepath.Abs(filepath.Join(operators, "live.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		old, changed string
		// want are the lines about cases that are not as expected, and the last line.
		want []string
	}{
		"as it is": {want: []string{"158 cases, 0 failed"}},
		"managers grant managers": {
			old: `"is_domain_managed_role": "`, changed: `"is_domain_managed_role": "'manager':%(target.role.name)s or `,
			want: []string{
				"FAIL  a manager may not grant manager to a group on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not grant manager to a group on its own domain: PASS, expected DENY",
				"FAIL  a manager may not grant manager to a user on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not grant manager to a user on its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a group on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a group on its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a user on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a user on its own domain: PASS, expected DENY",
				"158 cases, 8 failed",
			},
		},
		"managers delete users anywhere": {
			old: `"identity:delete_user": "(rule:is_domain_manager and token.domain.id:%(target.user.domain_id)s)`, changed: `"identity:delete_user": "rule:is_domain_manager`,
			want: []string{"FAIL  a manager may not delete a user of another domain: PASS, expected DENY", "158 cases, 1 failed"},
		},
		"managers create no users": {
			old: `"identity:create_user": "(rule:is_domain_manager and`, changed: `"identity:create_user": "(rule:is_domain_manager and domain_id:%(user.domain_id)s and`,
			want: []string{"FAIL  a manager may create a user of its own domain: DENY, expected PASS", "158 cases, 1 failed"},
		},
		"managers reach projects of another domain by groups": {
			old:     `"is_domain_group_project_grant": "token.domain.id:%(target.group.domain_id)s and token.domain.id:%(target.project.domain_id)s"`,
			changed: `"is_domain_group_project_grant": "token.domain.id:%(target.group.domain_id)s"`,
			want: []string{
				"FAIL  a manager may not check member of a group of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not check member of a group of its own domain on another domain: PASS, expected DENY",
				"FAIL  a manager may not grant member to a group of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not grant member to a group of its own domain on another domain: PASS, expected DENY",
				"FAIL  a manager may not list the roles of a group of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not list the roles of a group of its own domain on another domain: PASS, expected DENY",
				"FAIL  a manager may not revoke member from a group of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not revoke member from a group of its own domain on another domain: PASS, expected DENY",
				"158 cases, 8 failed",
			},
		},
		"managers reach another domain by users": {
			old:     `"is_domain_user_domain_grant": "token.domain.id:%(target.user.domain_id)s and token.domain.id:%(target.domain.id)s"`,
			changed: `"is_domain_user_domain_grant": "token.domain.id:%(target.user.domain_id)s and not None:%(target.domain.id)s"`,
			want: []string{
				"FAIL  a manager may not check member of a user of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not check member of a user of its own domain on another domain: PASS, expected DENY",
				"FAIL  a manager may not grant member to a user of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not grant member to a user of its own domain on another domain: PASS, expected DENY",
				"FAIL  a manager may not list the roles of a user of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not list the roles of a user of its own domain on another domain: PASS, expected DENY",
				"FAIL  a manager may not revoke member from a user of its own domain on a project of another: PASS, expected DENY",
				"FAIL  a manager may not revoke member from a user of its own domain on another domain: PASS, expected DENY",
				"158 cases, 8 failed",
			},
		},
		"managers grant to groups of another domain": {
			old:     `"is_domain_group_domain_grant": "token.domain.id:%(target.group.domain_id)s and token.domain.id:%(target.domain.id)s"`,
			changed: `"is_domain_group_domain_grant": "not None:%(target.group.domain_id)s and token.domain.id:%(target.domain.id)s"`,
			want: []string{
				"FAIL  a manager may not check member of a group of another domain on its own domain: PASS, expected DENY",
				"FAIL  a manager may not check member of a user of another domain on its own domain: PASS, expected DENY",
				"FAIL  a manager may not grant member to a group of another domain on its own domain: PASS, expected DENY",
				"FAIL  a manager may not grant member to a user of another domain on its own domain: PASS, expected DENY",
				"FAIL  a manager may not list the roles of a group of another domain on its own domain: PASS, expected DENY",
				"FAIL  a manager may not list the roles of a user of another domain on its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke member from a group of another domain on its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke member from a user of another domain on its own domain: PASS, expected DENY",
				"158 cases, 8 failed",
			},
		},
		"managers get any domain": {
			old:     `"identity:get_domain": "(rule:is_domain_manager and token.domain.id:%(target.domain.id)s)`,
			changed: `"identity:get_domain": "rule:is_domain_manager`,
			want: []string{
				"FAIL  a manager may not get another domain: PASS, expected DENY",
				"158 cases, 1 failed",
			},
		},
		"managers list assignments with any token": {
			old:     `"identity:list_role_assignments": "(rule:is_domain_manager and token.domain.id:%(target.domain_id)s)`,
			changed: `"identity:list_role_assignments": "rule:is_domain_manager`,
			want: []string{
				"FAIL  a manager with a token for a project may not list role assignments: PASS, expected DENY",
				"158 cases, 1 failed",
			},
		},
		"managers revoke any role": {
			old:     `"identity:revoke_grant": "(rule:domain_manager_grant and rule:is_domain_managed_role)`,
			changed: `"identity:revoke_grant": "rule:domain_manager_grant`,
			want: []string{
				"FAIL  a manager may not revoke admin from a group on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke admin from a group on its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke admin from a user on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke admin from a user on its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a group on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a group on its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a user on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not revoke manager from a user on its own domain: PASS, expected DENY",
				"158 cases, 8 failed",
			},
		},
		"managers list no users": {
			old:     `"identity:list_users": "(rule:is_domain_manager and token.domain.id:%(target.domain_id)s)`,
			changed: `"identity:list_users": "(rule:is_domain_manager and token.domain.id:%(domain_id)s)`,
			want: []string{
				"FAIL  a manager may list the users of its own domain: DENY, expected PASS",
				"158 cases, 1 failed",
			},
		},
		"managers check no grants": {
			old:     `"identity:check_grant": "rule:domain_manager_grant or`,
			changed: `"identity:check_grant": "rule:is_domain_manager and rule:nothing or`,
			want: []string{
				"FAIL  a manager may check member of a group on a project of its own domain: DENY, expected PASS",
				"FAIL  a manager may check member of a user on a project of its own domain: DENY, expected PASS",
				"158 cases, 2 failed",
			},
		},
		"managers check no members of groups": {
			old:     `"identity:check_user_in_group": "(rule:is_domain_manager and`,
			changed: `"identity:check_user_in_group": "(rule:is_domain_manager and project_id:x and`,
			want: []string{
				"FAIL  a manager may check a user of its own domain in a group of its own domain: DENY, expected PASS",
				"158 cases, 1 failed",
			},
		},
		"managers delete roles": {
			old:     `"is_domain_manager": "role:manager"`,
			changed: "\"identity:delete_role\": \"role:manager or rule:admin_required\"\n\"is_domain_manager\": \"role:manager\"",
			want: []string{
				"FAIL  a manager may not delete a role: PASS, expected DENY",
				"158 cases, 1 failed",
			},
		},
		"the administrator of the cloud loses a permission": {
			old:     `"identity:delete_group": "(rule:is_domain_manager and token.domain.id:%(target.group.domain_id)s) or rule:cloud_admin`,
			changed: `"identity:delete_group": "(rule:is_domain_manager and token.domain.id:%(target.group.domain_id)s) or role:nobody`,
			want:    []string{"FAIL  the administrator of the cloud may delete a group: DENY, expected PASS", "158 cases, 1 failed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(after), tc.old) {
				t.Fatalf("the override has no %s", tc.old)
			}
			t.Chdir(t.TempDir())
			inFile(t, "policy.yaml", strings.Replace(string(after), tc.old, tc.changed, 1))
			out, code, message := runCommand(t, NewCheckCommand(), "keystone-policy", "policy.yaml", "--base", live, "--cases", "domain-manager")
			var got []string
			for line := range strings.Lines(out) {
				if !strings.HasPrefix(line, "  ") { // not a check that denies
					got = append(got, strings.TrimSuffix(line, "\n"))
				}
			}
			slices.Sort(got[:max(len(got)-1, 0)])
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			wantCode := 0
			if len(tc.want) > 1 {
				wantCode = cli.ExitWrong
			}
			if code != wantCode || message != "" {
				t.Errorf("ends with %d %q, want %d", code, message, wantCode)
			}
		})
	}
}
