package oslopolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhy(t *testing.T) {
	const rules = `
admin: role:admin or role:boss
own: token.domain.id:%(target.user.domain_id)s
`
	for name, tc := range map[string]struct {
		// rule is that of identity:create_user.
		rule   string
		as     string
		target map[string]any
		want   []string
	}{
		"allowed":        {rule: "role:admin", as: "role=admin"},
		"no answer":      {rule: "and", as: "role=admin"},
		"no attribute":   {rule: "role:admin", as: "user=u", target: map[string]any{"nothing": "x"}},
		"nobody can say": {rule: "role:admin", as: "admin"},
		"a role":         {rule: "role:admin", as: "role=member,role=reader", want: []string{`role:admin in rule "identity:create_user": the token has the role "member" "reader"`}},
		"without a role": {rule: "role:admin", as: "user=u", want: []string{`role:admin in rule "identity:create_user": the token has no role`}},
		"all alternatives, and the first check of each": {
			rule: "rule:admin or (role:manager and rule:own) or (rule:own and role:manager)", as: "role=manager,domain=acme",
			target: map[string]any{"target.user.domain_id": "other"},
			want: []string{
				`role:admin in rule "admin": the token has the role "manager"`, `role:boss in rule "admin": the token has the role "manager"`,
				`token.domain.id:%(target.user.domain_id)s in rule "own": the token has the token.domain.id "acme", not "other"`,
			},
		},
		"a token for a project": {
			rule: "rule:own", as: "role=manager,project=p", target: map[string]any{"target.user.domain_id": "acme"},
			want: []string{`token.domain.id:%(target.user.domain_id)s in rule "own": the token has no token.domain.id`},
		},
		"a target without the attribute": {
			rule: "rule:own", as: "domain=acme", want: []string{`token.domain.id:%(target.user.domain_id)s in rule "own": the target has no target.user.domain_id`},
		},
		"a literal": {
			rule: "'member':%(target.user.name)s", as: "user=u", target: map[string]any{"target.user.name": "alice"},
			want: []string{`'member':%(target.user.name)s in rule "identity:create_user": the target has "alice"`},
		},
		"names of roles": {
			rule: "token.roles.name:x", as: "role=a,role=b", want: []string{`token.roles.name:x in rule "identity:create_user": the token has the token.roles.name "a" "b", not "x"`},
		},
		"a negation": {rule: "not (role:a or role:b)", as: "role=a", want: []string{`not (role:a or role:b) in rule "identity:create_user": the check after "not" is true`}},
		"a constant": {rule: "'!'", as: "role=a", want: []string{`! in rule "identity:create_user": it denies every request`}},
		"a word":     {rule: "admin or role:admin", as: "user=u", want: []string{`admin in rule "identity:create_user": it is no check, because it has no colon`, `role:admin in rule "identity:create_user": the token has no role`}},
		"a rule that is not parsed": {
			rule: "role:a role:b", as: "role=a", want: []string{`the text in rule "identity:create_user": oslo.policy cannot parse it: "role:b" is unexpected here`},
		},
		"a rule that does not exist": {rule: "rule:none", as: "role=a", want: []string{`rule:none in rule "identity:create_user": there is no such rule`}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.rule[0] == '\'' && tc.rule[1] != '!' {
				tc.rule = `"` + tc.rule + `"`
			}
			file, err := Read("policy.yaml", []byte("identity:create_user: "+tc.rule+rules))
			if err != nil {
				t.Fatal(err)
			}
			got := Case{As: tc.as, Can: "identity:create_user", Target: tc.target}.Why(DefaultRelease.Policy(file))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Why() (-want +got):\n%s", diff)
			}
		})
	}
}
