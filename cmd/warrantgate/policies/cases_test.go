package policies

import (
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
	after, err := readPolicy(filepath.Join(operators, "after.yaml"))
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
		"as it is": {want: []string{"95 cases, 0 failed"}},
		"managers grant managers": {
			old: `"is_domain_managed_role": "`, changed: `"is_domain_managed_role": "'manager':%(target.role.name)s or `,
			want: []string{
				"FAIL  a manager may not grant manager to a group on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not grant manager to a user on a project of its own domain: PASS, expected DENY",
				"FAIL  a manager may not grant manager to a user on its own domain: PASS, expected DENY",
				"95 cases, 3 failed",
			},
		},
		"managers delete users anywhere": {
			old: `"identity:delete_user": "(rule:is_domain_manager and token.domain.id:%(target.user.domain_id)s)`, changed: `"identity:delete_user": "rule:is_domain_manager`,
			want: []string{"FAIL  a manager may not delete a user of another domain: PASS, expected DENY", "95 cases, 1 failed"},
		},
		"managers create no users": {
			old: `"identity:create_user": "(rule:is_domain_manager and`, changed: `"identity:create_user": "(rule:is_domain_manager and domain_id:%(user.domain_id)s and`,
			want: []string{"FAIL  a manager may create a user of its own domain: DENY, expected PASS", "95 cases, 1 failed"},
		},
		"the administrator of the cloud loses a right": {
			old:     `"identity:delete_group": "(rule:is_domain_manager and token.domain.id:%(target.group.domain_id)s) or rule:cloud_admin`,
			changed: `"identity:delete_group": "(rule:is_domain_manager and token.domain.id:%(target.group.domain_id)s) or role:nobody`,
			want:    []string{"FAIL  the administrator of the cloud may delete a group: DENY, expected PASS", "95 cases, 1 failed"},
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
				if !strings.HasPrefix(line, "ok ") {
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
