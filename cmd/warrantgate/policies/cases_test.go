package policies

import (
	"fmt"
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
		// want are the cases that are not as expected, with alternatives in braces, and "" if all are.
		want string
	}{
		"as it is": {},
		"managers grant managers": {
			old: `"is_domain_managed_role": "`, changed: `"is_domain_managed_role": "'manager':%(target.role.name)s or `,
			want: "a manager may not {grant manager to|revoke manager from} a {group|user} on {a project of its own domain|its own domain}: PASS, expected DENY",
		},
		"managers delete users anywhere": {
			old: `"identity:delete_user": "(rule:is_domain_manager and token.domain.id:%(target.user.domain_id)s)`, changed: `"identity:delete_user": "rule:is_domain_manager`,
			want: "a manager may not delete a user of another domain: PASS, expected DENY",
		},
		"managers create no users": {
			old: `"identity:create_user": "(rule:is_domain_manager and`, changed: `"identity:create_user": "(rule:is_domain_manager and domain_id:%(user.domain_id)s and`,
			want: "a manager may create a user of its own domain: DENY, expected PASS",
		},
		"managers reach projects of another domain by groups": {
			old:     `"is_domain_group_project_grant": "token.domain.id:%(target.group.domain_id)s and token.domain.id:%(target.project.domain_id)s"`,
			changed: `"is_domain_group_project_grant": "token.domain.id:%(target.group.domain_id)s"`,
			want:    "a manager may not {check member of|grant member to|list the roles of|revoke member from} a group of its own domain on {a project of another|another domain}: PASS, expected DENY",
		},
		"managers reach another domain by users": {
			old:     `"is_domain_user_domain_grant": "token.domain.id:%(target.user.domain_id)s and token.domain.id:%(target.domain.id)s"`,
			changed: `"is_domain_user_domain_grant": "token.domain.id:%(target.user.domain_id)s and not None:%(target.domain.id)s"`,
			want:    "a manager may not {check member of|grant member to|list the roles of|revoke member from} a user of its own domain on {a project of another|another domain}: PASS, expected DENY",
		},
		"managers grant to groups of another domain": {
			old:     `"is_domain_group_domain_grant": "token.domain.id:%(target.group.domain_id)s and token.domain.id:%(target.domain.id)s"`,
			changed: `"is_domain_group_domain_grant": "not None:%(target.group.domain_id)s and token.domain.id:%(target.domain.id)s"`,
			want:    "a manager may not {check member of|grant member to|list the roles of|revoke member from} a {group|user} of another domain on its own domain: PASS, expected DENY",
		},
		"managers get any domain": {
			old:     `"identity:get_domain": "(rule:is_domain_manager and token.domain.id:%(target.domain.id)s)`,
			changed: `"identity:get_domain": "rule:is_domain_manager`,
			want:    "a manager may not get another domain: PASS, expected DENY",
		},
		"managers list assignments with any token": {
			old:     `"identity:list_role_assignments": "(rule:is_domain_manager and token.domain.id:%(target.domain_id)s)`,
			changed: `"identity:list_role_assignments": "rule:is_domain_manager`,
			want:    "a manager with a token for a project may not list role assignments: PASS, expected DENY",
		},
		"managers revoke any role": {
			old:     `"identity:revoke_grant": "(rule:domain_manager_grant and rule:is_domain_managed_role)`,
			changed: `"identity:revoke_grant": "rule:domain_manager_grant`,
			want:    "a manager may not revoke {admin|manager} from a {group|user} on {a project of its own domain|its own domain}: PASS, expected DENY",
		},
		"managers list no users": {
			old:     `"identity:list_users": "(rule:is_domain_manager and token.domain.id:%(target.domain_id)s)`,
			changed: `"identity:list_users": "(rule:is_domain_manager and token.domain.id:%(domain_id)s)`,
			want:    "a manager may list the users of its own domain: DENY, expected PASS",
		},
		"managers check no grants": {
			old:     `"identity:check_grant": "rule:domain_manager_grant or`,
			changed: `"identity:check_grant": "rule:is_domain_manager and rule:nothing or`,
			want:    "a manager may check member of a {group|user} on a project of its own domain: DENY, expected PASS",
		},
		"managers check no members of groups": {
			old:     `"identity:check_user_in_group": "(rule:is_domain_manager and`,
			changed: `"identity:check_user_in_group": "(rule:is_domain_manager and project_id:x and`,
			want:    "a manager may check a user of its own domain in a group of its own domain: DENY, expected PASS",
		},
		"managers delete roles": {
			old:     `"is_domain_manager": "role:manager"`,
			changed: "\"identity:delete_role\": \"role:manager or rule:admin_required\"\n\"is_domain_manager\": \"role:manager\"",
			want:    "a manager may not delete a role: PASS, expected DENY",
		},
		"the administrator of the cloud loses a permission": {
			old:     `"identity:delete_group": "(rule:is_domain_manager and token.domain.id:%(target.group.domain_id)s) or rule:cloud_admin`,
			changed: `"identity:delete_group": "(rule:is_domain_manager and token.domain.id:%(target.group.domain_id)s) or role:nobody`,
			want:    "the administrator of the cloud may delete a group: DENY, expected PASS",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(after), tc.old) {
				t.Fatalf("the override has no %s", tc.old)
			}
			t.Chdir(t.TempDir())
			inFile(t, "policy.yaml", strings.Replace(string(after), tc.old, tc.changed, 1))
			out, code, message := runCommand(t, NewCheckCommand(), "keystone-policy", "policy.yaml", "--base", live, "--cases", "domain-manager")
			want := []string{}
			if tc.want != "" {
				want = expand(tc.want)
			}
			got := []string{}
			for line := range strings.Lines(out) {
				if failed, ok := strings.CutPrefix(line, "FAIL  "); ok {
					got = append(got, strings.TrimSuffix(failed, "\n"))
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cases (-want +got):\n%s", diff)
			}
			if last := fmt.Sprintf("159 cases, %d failed\n", len(want)); !strings.HasSuffix(out, last) {
				t.Errorf("it prints %q, want %q at the end", out, last)
			}
			wantCode := 0
			if len(want) > 0 {
				wantCode = cli.ExitWrong
			}
			if code != wantCode || message != "" {
				t.Errorf("ends with %d %q, want %d", code, message, wantCode)
			}
		})
	}
}

// expand returns the texts that alternatives in braces stand for.
func expand(text string) []string {
	before, rest, ok := strings.Cut(text, "{")
	if !ok {
		return []string{text}
	}
	alternatives, after, _ := strings.Cut(rest, "}")
	var texts []string
	for alternative := range strings.SplitSeq(alternatives, "|") {
		texts = append(texts, expand(before+alternative+after)...)
	}
	return texts
}
