package oslopolicy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readFiles parses policies with the names a, b and so on.
func readFiles(t *testing.T, texts ...string) []*File {
	t.Helper()
	var sources []Source
	for i, text := range texts {
		sources = append(sources, Source{Name: string(rune('a' + i)), Data: []byte(text)})
	}
	files, err := ReadAll(sources)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestLintOverABase(t *testing.T) {
	const (
		live = `{"cloud_admin": "role:admin and is_admin_project:True", "admin_of_user": "rule:cloud_admin or role:admin and domain_id:%(target.user.domain_id)s",
			"identity:create_user": "rule:admin_of_user", "identity:delete_user": "rule:cloud_admin"}`
		dead = `{"admin_of_user": "role:admin and domain_id:%(user.domain_id)s", "identity:create_user": "rule:admin_of_user"}`
	)
	const (
		tied        = ", which the base denies" + andTie + ", by checks such as token.domain.id:%(target.user.domain_id)s"
		keep        = ", which the base allows; keep the alternatives of the base, if that is not meant"
		domainAdmin = "a token with role=admin,domain=own-domain "
		balancer    = "a token with role=load-balancer_member,domain=own-domain passes "
		cloudAdmin  = "a token with role=admin,project=own-project,project-domain=own-domain,admin-project=true "
	)
	for name, tc := range map[string]struct {
		base, files []string
		want        []string
	}{
		"no base": {
			files: []string{"identity:create_user: rule:cloud_admin"},
			want:  []string{`0:1 error unknown-rule identity:create_user: there is no rule "cloud_admin", which counts as false`},
		},
		"a rule of the base": {base: []string{live}, files: []string{"identity:create_user: rule:cloud_admin or rule:admin_of_user"}},
		"a rule of the base, misspelled": {base: []string{live}, files: []string{"identity:create_user: rule:cloud_admn"}, want: []string{
			`0:1 error unknown-rule identity:create_user: there is no rule "cloud_admn", which counts as false; write "cloud_admin"`,
			"0:1 warning narrower-than-default identity:create_user: " + domainAdmin + "is denied identity:create_user" + keep,
		}},
		"the later file of a base is used":       {base: []string{dead, live}, files: []string{"identity:create_user: rule:cloud_admin or rule:admin_of_user"}},
		"the override has precedence over these": {base: []string{dead, live}, files: []string{"admin_of_user: role:admin and domain_id:%(target.user.domain_id)s or rule:cloud_admin"}},
		"the base is not linted":                 {base: []string{dead}, files: []string{"identity:update_user: rule:admin_required"}},
		"a dead template of the base is found where it is used": {
			base: []string{dead}, files: []string{"identity:create_user: rule:admin_required or rule:admin_of_user"},
			want: []string{
				"0:1 error broader-than-default identity:create_user: " + domainAdmin + "passes identity:create_user" + tied,
				`0:1 warning dead-branch identity:create_user: one of its alternatives can never match: the rule "admin_of_user" looks at ` +
					`%(user.domain_id)s, which Keystone does not fill in for this operation; write "%(target.user.domain_id)s"`,
			},
		},
		"users that a dead template excludes and Keystone's own rule allows": {
			base: []string{dead}, files: []string{"identity:create_user: rule:cloud or rule:admin_of_user\ncloud: role:admin and is_admin_project:True and project_id:p"},
			want: []string{
				"0:1 error broader-than-default identity:create_user: a token with role=admin,project=p,project-domain=own-domain,admin-project=true passes identity:create_user" + tied,
				"0:1 error narrower-than-default identity:create_user: " + domainAdmin + "is denied identity:create_user, which Keystone's own rule allows: " +
					`%(user.domain_id)s never matches; write "%(target.user.domain_id)s" in the rule "admin_of_user"`,
				`0:1 warning dead-branch identity:create_user: one of its alternatives can never match: the rule "admin_of_user" looks at ` +
					`%(user.domain_id)s, which Keystone does not fill in for this operation; write "%(target.user.domain_id)s"`,
			},
		},
		"a permission of the base is not a finding": {
			base: []string{`{"identity:delete_user": "role:member"}`}, files: []string{"identity:delete_user: role:member"},
		},
		"beyond the base": {
			base: []string{live}, files: []string{"identity:delete_user: role:load-balancer_member"},
			want: []string{
				"0:1 error broader-than-default identity:delete_user: " + balancer + "identity:delete_user" + tied,
				"0:1 warning narrower-than-default identity:delete_user: " + cloudAdmin + "is denied identity:delete_user" + keep,
			},
		},
		"a helper of the base that is opened": {
			base: []string{live}, files: []string{"cloud_admin: role:load-balancer_member"},
			want: []string{
				"0:1 error broader-than-default cloud_admin: " + balancer + "identity:create_user" + tied,
				"0:1 warning narrower-than-default cloud_admin: " + cloudAdmin + "is denied identity:create_user" + keep,
			},
		},
		"a circle in the base, in whose place Keystone's own rule counts": {
			base: []string{`{"admin_required": "rule:admin_required or @"}`}, files: []string{"admin_required: role:admin or domain_id:x"},
			want: []string{
				"0:1 error broader-than-default admin_required: a token with role=any,domain=x passes identity:authorize_request_token, which the base denies" + andTie,
				"0:1 error escalation admin_required: a token with role=any,domain=x can grant a role that a manager must not grant; " +
					`allow only ["load-balancer_member" "member"], by checks such as 'load-balancer_member':%(target.role.name)s` + managed,
			},
		},
		"an exception in the base, in whose place Keystone's own rule counts": {
			base: []string{`{"identity:create_user": "role:member or 1a:x"}`}, files: []string{"identity:create_user: role:member or rule:admin_required"},
			want: []string{"0:1 error broader-than-default identity:create_user: a token with role=member,domain=own-domain passes identity:create_user" + tied},
		},
		"a circle in the base that is corrected": {
			base: []string{`{"admin_required": "rule:admin_required"}`}, files: []string{"admin_required: role:admin"},
			want: []string{"0:1 note not-compared admin_required: not every request for identity:authorize_request_token was compared with the base: " +
				`the rule "admin_required" refers to itself`},
		},
		"a circle in the base, which allows nothing that an override could deny": {
			base: []string{`{"admin_required": "rule:admin_required"}`}, files: []string{"admin_required: role:admin and is_admin_project:True"},
			want: []string{"0:1 note not-compared admin_required: not every request for identity:authorize_request_token was compared with the base: " +
				`the rule "admin_required" refers to itself`},
		},
		"a circle through the base": {
			base: []string{live}, files: []string{"cloud_admin: rule:admin_of_user"},
			want: []string{
				"0:1 error cycle cloud_admin: the rule refers to itself, perhaps through others: asking it raises an exception and ends with 400; remove one of the references",
				"0:1 warning narrower-than-default cloud_admin: " + cloudAdmin + "is denied identity:create_user" + keep,
				`0:1 note not-compared cloud_admin: not every request for identity:create_user was compared with the base: the rule "admin_of_user" refers to itself`,
			},
		},
		"files refer to each other": {files: []string{"identity:create_user: rule:helper", "helper: role:admin"}},
		"a rule in two files": {
			files: []string{"identity:create_user: role:admin\nhelper: role:admin", "identity:get_user: rule:helper\nhelper: role:admin"},
			want: []string{
				"0:2 error duplicate-rule helper: b:2 has a rule of the same name, which silently replaces this one; keep one of the two",
				"1:1 note narrower-than-default identity:get_user: a token with role=any,domain=own-domain is denied identity:get_user, which Keystone's own rule allows",
			},
		},
		"no files": {},
		"the first of two files cannot be read": {
			files: []string{"- x", "identity:create_user: and"},
			want: []string{
				"0:1 error file : it is a list, not rules with their names; correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails",
				`1:1 error raises identity:create_user: a rule that is only "and" raises an exception: every request ends with 400 or 500; write a check such as role:admin`,
			},
		},
		"one of two files cannot be read": {
			files: []string{"helper: role:admin\nidentity:create_user: and", "- x"},
			want: []string{
				"0:1 note unused-rule helper: no rule refers to it, and Keystone does not evaluate it",
				`0:2 error raises identity:create_user: a rule that is only "and" raises an exception: every request ends with 400 or 500; write a check such as role:admin`,
				"1:1 error file : it is a list, not rules with their names; correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var sources []Source
			for i, text := range tc.files {
				sources = append(sources, Source{Name: string(rune('a' + i)), Data: []byte(text)})
			}
			findings, err := LintKeystone(t.Context(), sources, LintOptions{Base: readFiles(t, tc.base...)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				line := fmt.Sprintf("%d:%d %s %s %s: %s", f.File[0]-'a', f.Line, f.Severity, f.Code, f.Rule, f.Message)
				if f.Suggestion != "" {
					line += "; " + f.Suggestion
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLastFileReplacesRules(t *testing.T) {
	files := readFiles(t, "x: role:a\ny: role:a\nz: role:a", "y: role:b\nz: role:b", "z: role:c")
	policy := DefaultRelease.Policy(files...)
	for rule, role := range map[string]string{"x": "a", "y": "b", "z": "c", "admin_required": "admin"} {
		for _, held := range []string{"a", "b", "c", "admin"} {
			passed, err := policy.Enforce(rule, nil, Caller{Roles: []string{held}}.Credentials())
			if err != nil || passed != (held == role) {
				t.Errorf("%s with the role %s: %t, %v", rule, held, passed, err)
			}
		}
	}
}
