package oslopolicy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// difference is how the rule for an operation differs between two policies.
type difference struct {
	operation string
	// more is a request that only the second policy allows, less one that only the first one allows, and incomplete the reason why the search
	// may have missed one.
	more, less *Witness
	incomplete string
}

// compare returns the operations with a difference or an incomplete search.
func compare(before, after *Policy) []difference {
	var differences []difference
	for i := range after.table.list {
		if operation := &after.table.list[i]; operation.isOperation() {
			s := newSearch(operation, before, after)
			d := difference{operation: operation.name, more: s.find(more, nil), less: s.find(less, nil)}
			if d.incomplete = s.incomplete; d.more != nil || d.less != nil || d.incomplete != "" {
				differences = append(differences, d)
			}
		}
	}
	return differences
}

func TestCompare(t *testing.T) {
	var roles []string
	for i := range 40 {
		roles = append(roles, fmt.Sprintf("role:r%d", i))
	}
	tests := map[string]struct {
		before, after string
		// want are the differences, as "operation more|less witness" and "operation incomplete reason".
		want []string
	}{
		"the same":                          {before: "identity:create_user: role:a", after: "identity:create_user: role:a"},
		"the same by another name":          {before: "identity:create_user: role:a", after: "{'identity:create_user': 'rule:x', x: role:a}"},
		"the same in another order":         {before: "identity:create_user: role:a or role:b", after: "identity:create_user: role:b or role:a"},
		"an alternative that never matches": {before: "identity:create_user: role:a", after: "identity:create_user: role:a or domain_id:%(user.domain_id)s"},
		// Alternatives need no tokens with several roles, for any number of alternatives, so that the search is complete.
		"one of many roles": {
			before: "identity:create_user: " + strings.Join(roles, " or "), after: "identity:create_user: " + strings.Join(roles[:39], " or "),
			want: []string{"identity:create_user less --as role=r39,domain=own-domain: DENY, before PASS"},
		},
		"equal texts":               {before: "identity:create_user: '!'", after: `{"identity:create_user": "'a':a"}`, want: []string{"identity:create_user more --as role=any,domain=own-domain: PASS, before DENY"}},
		"different texts":           {before: "identity:create_user: '!'", after: `{"identity:create_user": "'a':b"}`},
		"a kind that is no literal": {before: "identity:create_user: '!'", after: `{"identity:create_user": "[1:%(target.user.id)s"}`, want: []string{"identity:create_user incomplete [1:%(target.user.id)s raises an exception"}},
		"an attribute without effect before another": {
			before: "identity:create_user: '!'", after: "identity:create_user: not project_id:%(target.user.default_project_id)s and domain_id:%(target.user.domain_id)s",
			want: []string{"identity:create_user more --as role=any,domain=own-domain --target target.user.domain_id=own-domain: PASS, before DENY"},
		},
		"more roles":                {before: "identity:create_user: role:a", after: "identity:create_user: role:a or role:b", want: []string{"identity:create_user more --as role=b,domain=own-domain: PASS, before DENY"}},
		"fewer roles":               {before: "identity:create_user: role:a or role:b", after: "identity:create_user: role:a", want: []string{"identity:create_user less --as role=b,domain=own-domain: DENY, before PASS"}},
		"everybody":                 {before: "identity:create_user: '!'", after: "identity:create_user: '@'", want: []string{"identity:create_user more --as role=any,domain=own-domain: PASS, before DENY"}},
		"two roles instead of one":  {before: "identity:create_user: role:a", after: "identity:create_user: role:a and role:b", want: []string{"identity:create_user less --as role=a,domain=own-domain: DENY, before PASS"}},
		"both ways":                 {before: "identity:create_user: role:a", after: "identity:create_user: role:b", want: []string{"identity:create_user more --as role=b,domain=own-domain: PASS, before DENY", "identity:create_user less --as role=a,domain=own-domain: DENY, before PASS"}},
		"two roles are needed":      {before: "identity:create_user: '!'", after: "identity:create_user: role:a and role:b and not role:c", want: []string{"identity:create_user more --as role=a,role=b,domain=own-domain: PASS, before DENY"}},
		"a scope":                   {before: "identity:create_user: role:a and domain_id:d", after: "identity:create_user: role:a and project_id:p", want: []string{"identity:create_user more --as role=a,project=p,project-domain=own-domain: PASS, before DENY", "identity:create_user less --as role=a,domain=d: DENY, before PASS"}},
		"the system":                {before: "identity:create_user: role:a", after: "identity:create_user: role:a and not system_scope:all", want: []string{"identity:create_user less --as role=a,system=all,user-domain=own-domain: DENY, before PASS"}},
		"the domain of the target":  {before: "identity:create_user: role:a and domain_id:%(target.user.domain_id)s", after: "identity:create_user: role:a", want: []string{"identity:create_user more --as role=a,domain=own-domain: PASS, before DENY"}},
		"a domain that is compared": {before: "identity:create_user: role:a", after: "identity:create_user: role:a and not domain_id:%(target.user.domain_id)s", want: []string{"identity:create_user less --as role=a,domain=own-domain --target target.user.domain_id=own-domain: DENY, before PASS"}},
		"a literal":                 {before: "identity:create_grant: role:a and 'x':%(target.role.name)s", after: "identity:create_grant: role:a and ('x':%(target.role.name)s or 'y':%(target.role.name)s)", want: []string{"identity:create_grant more --as role=a,domain=own-domain --target target.role.name=y: PASS, before DENY"}},
		"null":                      {before: "identity:create_grant: '!'", after: "identity:create_grant: None:%(target.role.domain_id)s", want: []string{"identity:create_grant more --as role=any,domain=own-domain --target target.role.domain_id:=null: PASS, before DENY"}},
		"a helper of Keystone's own": {
			before: "token_subject: role:a\nidentity:validate_token: '!'\nidentity:revoke_token: '!'", after: "token_subject: role:b\nidentity:validate_token: '!'\nidentity:revoke_token: '!'",
			want: []string{"identity:check_token more --as role=b,domain=own-domain: PASS, before DENY", "identity:check_token less --as role=a,domain=own-domain: DENY, before PASS"},
		},
		"a check that sends a request to another host": {before: "identity:create_user: role:a", after: "identity:create_user: role:a and http://x", want: []string{"identity:create_user less --as role=a,domain=own-domain: DENY, before PASS", `identity:create_user incomplete "http://x" sends a request to another host`}},
		"the same check with another host":             {before: "identity:create_user: role:a and http://x", after: "identity:create_user: role:a and http://x"},
		"a role that the request names":                {before: "identity:create_grant: role:a", after: "identity:create_grant: role:a or role:%(target.role.name)s", want: []string{"identity:create_grant incomplete role:%(target.role.name)s depends on the target"}},
		"a role that no request names":                 {before: "identity:create_grant: role:a", after: "identity:create_grant: role:a or role:%(nope)s"},
		"text around an attribute":                     {before: "identity:create_user: role:a", after: "identity:create_user: role:a or domain_id:x%(target.user.domain_id)s", want: []string{"identity:create_user incomplete domain_id:x%(target.user.domain_id)s compares more than an attribute"}},
		"only a percent sign":                          {before: "identity:create_user: role:a", after: "identity:create_user: role:a or domain_id:50%%", want: []string{"identity:create_user incomplete domain_id:50%% compares more than an attribute"}},
		"the domain of the user": {before: "identity:create_user: role:a and domain_id:%(target.user.domain_id)s", after: "identity:create_user: role:a and user_domain_id:%(target.user.domain_id)s", want: []string{
			"identity:create_user more --as role=a,project=own-project,project-domain=own-domain --target target.user.domain_id=own-domain: PASS, before DENY",
			"identity:create_user less --as role=a,domain=own-domain,user-domain=home-domain --target target.user.domain_id=own-domain: DENY, before PASS",
		}},
		"a user of another domain": {before: "identity:create_user: role:a and user_domain_id:%(target.user.domain_id)s and domain_id:%(target.user.domain_id)s", after: "identity:create_user: role:a and domain_id:%(target.user.domain_id)s", want: []string{
			"identity:create_user more --as role=a,domain=own-domain,user-domain=home-domain --target target.user.domain_id=own-domain: PASS, before DENY",
		}},
		"two constants":                  {before: "identity:create_user: '!'", after: "identity:create_user: user_id:u and project_id:p", want: []string{"identity:create_user more --as role=any,user=u,project=p,project-domain=own-domain: PASS, before DENY"}},
		"five constants":                 {before: "identity:create_user: '!'", after: "identity:create_user: user_id:u and user_domain_id:d and project_id:p and project_domain_id:e and not is_admin_project:True", want: []string{"identity:create_user more --as role=any,user=u,project=p,user-domain=d,project-domain=e: PASS, before DENY"}},
		"another user domain":            {before: "identity:create_user: '!'", after: "identity:create_user: user_domain_id:d and domain_id:e", want: []string{"identity:create_user more --as role=any,domain=e,user-domain=d: PASS, before DENY"}},
		"a list of roles":                {before: "identity:create_user: '!'", after: "identity:create_user: roles:a", want: []string{"identity:create_user incomplete roles:a depends on more of the token than user, scope and roles"}},
		"a flag and an attribute":        {before: "identity:create_user: '!'", after: "identity:create_user: is_admin_project:%(target.user.enabled)s", want: []string{"identity:create_user incomplete is_admin_project:%(target.user.enabled)s depends on more of the token than user, scope and roles"}},
		"a field of a text":              {before: "identity:create_user: role:a", after: "identity:create_user: user_id.x:y or role:a", want: []string{"identity:create_user incomplete user_id.x:y raises an exception"}},
		"a credential that no token has": {before: "identity:create_user: '!'", after: "identity:create_user: nothing:a or is_admin:1"},
		"a circle":                       {before: "identity:create_user: role:a", after: "identity:create_user: role:a or rule:identity:create_user", want: []string{`identity:create_user incomplete the rule "identity:create_user" refers to itself`}},
		"three roles are needed":         {before: "identity:create_user: '!'", after: "identity:create_user: role:a and role:b and role:c", want: []string{"identity:create_user more --as role=a,role=b,role=c,domain=own-domain: PASS, before DENY"}},
		"the third role is denied":       {before: "identity:create_user: role:a and role:b", after: "identity:create_user: role:a and role:b and not role:c", want: []string{"identity:create_user less --as role=a,role=b,role=c,domain=own-domain: DENY, before PASS"}},
		"one role or three":              {before: "identity:create_user: role:d", after: "identity:create_user: role:d or (role:a and role:b and role:c)", want: []string{"identity:create_user more --as role=a,role=b,role=c,domain=own-domain: PASS, before DENY"}},
		"not without three roles":        {before: "identity:create_user: '!'", after: "identity:create_user: not (not role:a or not role:b or not role:c)", want: []string{"identity:create_user more --as role=a,role=b,role=c,domain=own-domain: PASS, before DENY"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			files := readFiles(t, tc.before, tc.after)
			var got []string
			for _, d := range compare(DefaultRelease.Policy(files[0]), DefaultRelease.Policy(files[1])) {
				if d.more != nil {
					got = append(got, fmt.Sprintf("%s more %s", d.operation, d.more))
				}
				if d.less != nil {
					got = append(got, fmt.Sprintf("%s less %s", d.operation, d.less))
				}
				if d.incomplete != "" {
					got = append(got, d.operation+" incomplete "+d.incomplete)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompareFindsAll compares the search with all tokens and targets that the rules can distinguish, for generated rules.
func TestCompareFindsAll(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	checks := []string{
		"role:a", "role:b", "role:c", "role:d", "role:a", "role:b", "role:c", "role:d",
		"domain_id:x", "project_id:y", "user_id:z", "domain_id:%(target.user.domain_id)s",
		"user_domain_id:%(target.user.domain_id)s", "token.user.domain.id:x", "project_domain_id:%(target.user.domain_id)s",
		"'m':%(target.user.name)s", "'n':%(target.user.name)s", "'o':%(target.user.name)s",
	}
	var generate func(depth int) string
	generate = func(depth int) string {
		switch kind := random.IntN(8); {
		case depth == 0 || kind < 2:
			return checks[random.IntN(len(checks))]
		case kind < 4:
			return "not (" + generate(depth-1) + ")"
		default:
			return fmt.Sprintf("((%s) %s (%s))", generate(depth-1), []string{"and", "or"}[kind%2], generate(depth-1))
		}
	}
	var callers []Caller
	for roles := range 1 << 4 {
		var held []string
		for i, role := range []string{"a", "b", "c", "d"} {
			if roles&(1<<i) != 0 {
				held = append(held, role)
			}
		}
		for _, user := range []string{defaultUser, "z"} {
			for _, home := range []string{ownDomain, "x", "home"} {
				for _, scope := range []Caller{
					{Domain: ownDomain}, {Domain: "x"}, {System: true},
					{Project: "own-project", ProjectDomain: ownDomain}, {Project: "y", ProjectDomain: ownDomain},
				} {
					scope.User, scope.UserDomain, scope.Roles = user, home, held
					callers = append(callers, scope)
				}
			}
		}
	}
	targets := []map[string]any{{}, {"target.user.domain_id": ownDomain}, {"target.user.domain_id": "x"}, {"target.user.domain_id": "home"}, {"target.user.domain_id": "another"}}
	for _, name := range []string{"m", "n", "o", "another"} {
		targets = append(targets, map[string]any{"target.user.domain_id": ownDomain, "target.user.name": name}, map[string]any{"target.user.domain_id": "x", "target.user.name": name})
	}
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for range rounds {
		rules := [2]string{fmt.Sprintf("identity:create_user: %q", generate(4)), fmt.Sprintf("identity:create_user: %q", generate(4))}
		files := readFiles(t, rules[0], rules[1])
		before, after := DefaultRelease.Policy(files[0]), DefaultRelease.Policy(files[1])
		var wantMore, wantLess bool
		for _, caller := range callers {
			credentials := caller.Credentials()
			for _, target := range targets {
				was, err := before.Enforce("identity:create_user", target, credentials)
				if err != nil {
					t.Fatal(err)
				}
				is, err := after.Enforce("identity:create_user", target, credentials)
				if err != nil {
					t.Fatal(err)
				}
				wantMore, wantLess = wantMore || is && !was, wantLess || was && !is
			}
		}
		var got difference
		if differences := compare(before, after); len(differences) > 0 {
			got = differences[0]
		}
		if got.incomplete != "" || (got.more != nil) != wantMore || (got.less != nil) != wantLess {
			t.Errorf("compare() = %+v, want more: %t, less: %t, for\n%s\n%s", got, wantMore, wantLess, rules[0], rules[1])
		}
	}
}

// TestCompareOfLargeRules checks that the search ends for malicious files and is reported as incomplete, and that no difference is hidden behind
// the part of a rule that is compared.
func TestCompareOfLargeRules(t *testing.T) {
	const none, requests = "identity:create_user: '!'\nidentity:create_grant: '!'", "there are more than 20000 requests to try"
	many := func(n int, check, operator string) string {
		var checks []string
		for i := range n {
			checks = append(checks, strings.ReplaceAll(check, "N", fmt.Sprint(i)))
		}
		return "(" + strings.Join(checks, operator) + ")"
	}
	double := "x0: role:x\n"
	for i := range 30 {
		double += fmt.Sprintf("x%d: rule:x%d and rule:x%d\n", i+1, i, i)
	}
	roles, alternatives := many(20, "role:rN", " and "), many(62, "(role:rN and user_id:x)", " or ")
	for name, tc := range map[string]struct{ before, after, want string }{
		"many attributes": {none, "identity:create_user: " + many(40, "domain_id:%(target.user.xN)s", " and ") + " and " + roles, requests},
		"many roles":      {none, "identity:create_user: " + roles, requests},
		"many tokens": {
			none, "identity:create_user: " + many(15, "user_id:uN", " or ") + " and " + many(15, "project_id:pN", " or ") + " and " + many(15, "project_domain_id:dN", " or "),
			"there are more than 1000 tokens to try",
		},
		"many checks": {
			none, "identity:create_grant: " + many(70, "('N':%(target.role.name)s and 'N':%(target.role.id)s)", " or ") + " and role:none and role:nobody",
			"the rules have more than 64 checks",
		},
		"many references":                      {none, double + "identity:create_user: rule:x30 and not rule:x30", "the rules are too large"},
		"a difference after many references":   {double + "identity:create_user: rule:x30 or role:a", "identity:create_user: rule:x30 or role:b", "the rules are too large"},
		"equal rules with many references":     {double + "identity:create_user: rule:x30 or role:a", "identity:create_user: rule:x30 or role:a", ""},
		"equal helpers in another order":       {double + "identity:create_user: rule:x30 or role:a", "identity:create_user: role:a or rule:x30", "the rules are too large"},
		"a difference after many checks":       {"identity:create_user: " + many(64, "(role:rN and user_id:x)", " or ") + " or role:a", "identity:create_user: " + many(64, "(role:rN and user_id:x)", " or ") + " or role:b", "the rules have more than 64 checks"},
		"equal rules with just as many checks": {"identity:create_user: " + alternatives + " or role:a", "identity:create_user: " + alternatives + " or role:a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := readFiles(t, tc.before, tc.after)
			differences := append(compare(DefaultRelease.Policy(files[0]), DefaultRelease.Policy(files...)), difference{})
			if got := differences[0].incomplete; got != tc.want {
				t.Errorf("compare() is incomplete because %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWitnessNamesAllAttributes(t *testing.T) {
	w := Witness{Can: "identity:get_user", As: "user", Target: map[string]any{"a": "x", "b": nil, "c": "y's; $z"}, Before: AnswerDeny, After: AnswerPass}
	want := `check keystone-policy FILE --can identity:get_user --as user --target a=x --target b:=null --target 'c=y'\''s; $z': PASS, before DENY`
	if got := w.Command(); got != want {
		t.Errorf("Command() = %q, want %q", got, want)
	}
}

// operators reads a file of the operators.
func operators(t *testing.T, name string) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "e2e", "suites", "keystonepolicy", "testdata", "operators", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// TestOperatorsOverrides: seven rules were wrong before the decision D-064, and three of them still are after it. Another rule has the same
// mistake before and after.
func TestOperatorsOverrides(t *testing.T) {
	const (
		denied    = "error narrower-than-default: --as role=admin,domain=own-domain --target %s=own-domain: DENY, before PASS"
		passes    = "error broader-than-default: --as role=admin,project=own-project,project-domain=own-domain: PASS, before DENY"
		null      = "warning broader-than-default: --as role=admin,project=own-project,project-domain=own-domain --target target.project.domain_id:=null: PASS, before DENY"
		neverTrue = "warning dead-branch"
	)
	dead := func(attribute string) []string { return []string{fmt.Sprintf(denied, attribute), neverTrue} }
	for name, want := range map[string]map[string][]string{
		"before.yaml": {
			"identity:create_user":       dead("target.user.domain_id"),
			"identity:create_project":    dead("target.project.domain_id"),
			"identity:create_group":      dead("target.group.domain_id"),
			"identity:add_user_to_group": dead("target.group.domain_id"),
			"identity:list_users":        {passes}, "identity:list_projects": {passes}, "identity:list_groups": {passes},
			"identity:list_user_projects": dead("filter_attr.domain_id"),
		},
		"after.yaml": {
			"identity:list_users":    dead("target.domain_id"),
			"identity:list_projects": dead("target.domain_id"),
			"identity:list_groups":   dead("filter_attr.domain_id=own-domain --target target.group.domain_id"), "identity:list_user_projects": dead("filter_attr.domain_id"),
			"identity:create_project": {null},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for _, f := range (linted{base: operators(t, "live.json"), file: operators(t, name)}).findings(t) {
				line := fmt.Sprintf("%s %s", f.Severity, f.Code)
				if f.Witness != nil {
					line += ": " + f.Witness.String()
				}
				got[f.Rule] = append(got[f.Rule], line)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOperatorsOverridesWithoutBase checks the findings without a base: each rule of the live policy is unknown, and nothing else is
// found but notes.
func TestOperatorsOverridesWithoutBase(t *testing.T) {
	for _, name := range []string{"before.yaml", "after.yaml"} {
		for _, f := range (linted{file: operators(t, name)}).findings(t) {
			if f.Code != CodeUnknownRule && f.Code != CodeBroaderThanDefault && f.Severity != SeverityNote {
				t.Errorf("%s: %s %s", name, f.Rule, f.Code)
			}
		}
	}
}

func TestWitnessIsAValidCase(t *testing.T) {
	files := readFiles(t, "identity:create_grant: role:a and None:%(target.role.domain_id)s", "identity:create_grant: '!'")
	before, after := DefaultRelease.Policy(files[0]), DefaultRelease.Policy(files[1])
	for _, d := range compare(before, after) {
		for policy, want := range map[*Policy]string{before: d.less.Before, after: d.less.After} {
			got, err := Case{As: d.less.As, Can: d.operation, Target: d.less.Target}.Ask(policy)
			if err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", d.less, got, err, want)
			}
		}
	}
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte("identity:create_user: role:a or not rule:x\nx: domain_id:%(target.user.domain_id)s"), []byte("identity:create_user: role:b"))
	f.Add([]byte("x: '@'"), []byte("identity:list_users: (role:a and http://x) or 'y':%(target.domain_id)s"))
	f.Fuzz(func(t *testing.T, one, other []byte) {
		var policies []*Policy
		for _, data := range [][]byte{one, other} {
			file, err := Read("fuzz", data)
			if err != nil {
				return
			}
			policies = append(policies, DefaultRelease.Policy(file))
		}
		for _, d := range compare(policies[0], policies[1]) {
			for _, w := range []*Witness{d.more, d.less} {
				if w == nil {
					continue
				}
				for i, want := range []string{w.Before, w.After} {
					caller, err := ParseCaller(w.As)
					if err != nil {
						continue // names with commas or equals signs
					}
					passed, err := policies[i].Enforce(d.operation, w.Target, caller.Credentials())
					if got := passed && err == nil; caller.String() == w.As && got != (want == AnswerPass) {
						t.Errorf("%s: %s: %t, %v", d.operation, w, got, err)
					}
				}
			}
		}
	})
}
