package oslopolicy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	tests := map[string]struct {
		before, after string
		// want are the differences, as "operation more|less witness" and "operation incomplete reason".
		want []string
	}{
		"the same":                          {before: "identity:create_user: role:a", after: "identity:create_user: role:a"},
		"the same by another name":          {before: "identity:create_user: role:a", after: "{'identity:create_user': 'rule:x', x: role:a}"},
		"the same in another order":         {before: "identity:create_user: role:a or role:b", after: "identity:create_user: role:b or role:a"},
		"an alternative that never matches": {before: "identity:create_user: role:a", after: "identity:create_user: role:a or domain_id:%(user.domain_id)s"},
		"more roles":                        {before: "identity:create_user: role:a", after: "identity:create_user: role:a or role:b", want: []string{"identity:create_user more --as role=b,domain=own-domain: PASS, before DENY"}},
		"fewer roles":                       {before: "identity:create_user: role:a or role:b", after: "identity:create_user: role:a", want: []string{"identity:create_user less --as role=b,domain=own-domain: DENY, before PASS"}},
		"everybody":                         {before: "identity:create_user: '!'", after: "identity:create_user: '@'", want: []string{"identity:create_user more --as role=any,domain=own-domain: PASS, before DENY"}},
		"two roles instead of one":          {before: "identity:create_user: role:a", after: "identity:create_user: role:a and role:b", want: []string{"identity:create_user less --as role=a,domain=own-domain: DENY, before PASS"}},
		"both ways":                         {before: "identity:create_user: role:a", after: "identity:create_user: role:b", want: []string{"identity:create_user more --as role=b,domain=own-domain: PASS, before DENY", "identity:create_user less --as role=a,domain=own-domain: DENY, before PASS"}},
		"two roles are needed":              {before: "identity:create_user: '!'", after: "identity:create_user: role:a and role:b and not role:c", want: []string{"identity:create_user more --as role=a,role=b,domain=own-domain: PASS, before DENY"}},
		"a scope":                           {before: "identity:create_user: role:a and domain_id:d", after: "identity:create_user: role:a and project_id:p", want: []string{"identity:create_user more --as role=a,project=p,project-domain=own-domain: PASS, before DENY", "identity:create_user less --as role=a,domain=d: DENY, before PASS"}},
		"the system":                        {before: "identity:create_user: role:a", after: "identity:create_user: role:a and not system_scope:all", want: []string{"identity:create_user less --as role=a,system=all,user-domain=own-domain: DENY, before PASS"}},
		"the domain of the target":          {before: "identity:create_user: role:a and domain_id:%(target.user.domain_id)s", after: "identity:create_user: role:a", want: []string{"identity:create_user more --as role=a,domain=own-domain: PASS, before DENY"}},
		"a domain that is compared":         {before: "identity:create_user: role:a", after: "identity:create_user: role:a and not domain_id:%(target.user.domain_id)s", want: []string{"identity:create_user less --as role=a,domain=own-domain --target target.user.domain_id=own-domain: DENY, before PASS"}},
		"a literal":                         {before: "identity:create_grant: role:a and 'x':%(target.role.name)s", after: "identity:create_grant: role:a and ('x':%(target.role.name)s or 'y':%(target.role.name)s)", want: []string{"identity:create_grant more --as role=a,domain=own-domain --target target.role.name=y: PASS, before DENY"}},
		"null":                              {before: "identity:create_grant: '!'", after: "identity:create_grant: None:%(target.role.domain_id)s", want: []string{"identity:create_grant more --as role=any,domain=own-domain --target target.role.domain_id:=null: PASS, before DENY"}},
		"a helper of Keystone's own": {
			before: "token_subject: role:a\nidentity:validate_token: '!'\nidentity:revoke_token: '!'", after: "token_subject: role:b\nidentity:validate_token: '!'\nidentity:revoke_token: '!'",
			want: []string{"identity:check_token more --as role=b,domain=own-domain: PASS, before DENY", "identity:check_token less --as role=a,domain=own-domain: DENY, before PASS"},
		},
		"a check that sends a request to another host": {before: "identity:create_user: role:a", after: "identity:create_user: role:a and http://x", want: []string{"identity:create_user less --as role=a,domain=own-domain: DENY, before PASS", `identity:create_user incomplete "http://x" sends a request to another host`}},
		"the same check with another host":             {before: "identity:create_user: role:a and http://x", after: "identity:create_user: role:a and http://x"},
		"a role that the request names":                {before: "identity:create_grant: role:a", after: "identity:create_grant: role:a or role:%(target.role.name)s", want: []string{"identity:create_grant incomplete role:%(target.role.name)s depends on the target"}},
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
			for _, d := range Compare(NewKeystonePolicy(files[0]), NewKeystonePolicy(files[1])) {
				if d.More != nil {
					got = append(got, fmt.Sprintf("%s more %s", d.Operation, d.More))
				}
				if d.Less != nil {
					got = append(got, fmt.Sprintf("%s less %s", d.Operation, d.Less))
				}
				if d.Incomplete != "" {
					got = append(got, d.Operation+" incomplete "+d.Incomplete)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompareOfManyRoles: alternatives need no tokens with several roles, for any number of alternatives, so that the search is complete.
func TestCompareOfManyRoles(t *testing.T) {
	var roles []string
	for i := range 40 {
		roles = append(roles, fmt.Sprintf("role:r%d", i))
	}
	files := readFiles(t, "identity:create_user: "+strings.Join(roles, " or "), "identity:create_user: "+strings.Join(roles[:39], " or "))
	want := []Difference{{
		Operation: "identity:create_user",
		Less:      &Witness{As: "role=r39,domain=own-domain", Target: map[string]any{}, Before: AnswerPass, After: AnswerDeny},
	}}
	if diff := cmp.Diff(want, Compare(NewKeystonePolicy(files[0]), NewKeystonePolicy(files[1]))); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
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
		before, after := NewKeystonePolicy(files[0]), NewKeystonePolicy(files[1])
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
		var got Difference
		if differences := Compare(before, after); len(differences) > 0 {
			got = differences[0]
		}
		if got.Incomplete != "" || (got.More != nil) != wantMore || (got.Less != nil) != wantLess {
			t.Errorf("Compare() = %+v, want more: %t, less: %t, for\n%s\n%s", got, wantMore, wantLess, rules[0], rules[1])
		}
	}
}

// TestCompareEnds checks that the search ends for malicious files, and that it is reported as incomplete.
func TestCompareEnds(t *testing.T) {
	var roles, attributes, checks []string
	for i := range 40 {
		roles = append(roles, fmt.Sprintf("role:r%d", i))
		attributes = append(attributes, fmt.Sprintf("domain_id:%%(target.user.x%d)s", i))
	}
	var users, projects, domains []string
	for i := range 15 {
		users = append(users, fmt.Sprintf("user_id:u%d", i))
		projects = append(projects, fmt.Sprintf("project_id:p%d", i))
		domains = append(domains, fmt.Sprintf("project_domain_id:d%d", i))
	}
	for i := range 70 {
		checks = append(checks, fmt.Sprintf("('%d':%%(target.role.name)s and '%d':%%(target.role.id)s)", i, i))
	}
	double := "x0: role:a\n"
	for i := range 30 {
		double += fmt.Sprintf("x%d: rule:x%d and rule:x%d\n", i+1, i, i)
	}
	for name, tc := range map[string]struct{ rule, want string }{
		"many attributes": {"identity:create_user: " + strings.Join(attributes, " and ") + " and " + strings.Join(roles[:20], " and "), "there are more than 20000 requests to try"},
		"many roles":      {"identity:create_user: " + strings.Join(roles[:20], " and "), "there are more than 20000 requests to try"},
		"many tokens":     {"identity:create_user: (" + strings.Join(users, " or ") + ") and (" + strings.Join(projects, " or ") + ") and (" + strings.Join(domains, " or ") + ")", "there are more than 1000 tokens to try"},
		"many checks":     {"identity:create_grant: (" + strings.Join(checks, " or ") + ") and role:none and role:nobody", "the rules have more than 64 checks"},
		"many references": {double + "identity:create_user: rule:x30 and not rule:x30", "the rules are too large"},
	} {
		t.Run(name, func(t *testing.T) {
			files := readFiles(t, "identity:create_user: '!'\nidentity:create_grant: '!'", tc.rule+"\nother: '!'")
			differences := Compare(NewKeystonePolicy(files[0]), NewKeystonePolicy(files[0], files[1]))
			if len(differences) == 0 || differences[0].Incomplete != tc.want {
				t.Errorf("Compare() = %+v, want the first to be incomplete because %q", differences, tc.want)
			}
		})
	}
}

// TestCompareOfLargeRules checks that no difference is hidden behind the part of a rule that is compared.
func TestCompareOfLargeRules(t *testing.T) {
	double := "x0: role:x\n"
	for i := range 30 {
		double += fmt.Sprintf("x%d: rule:x%d and rule:x%d\n", i+1, i, i)
	}
	many := func(n int, last string) string {
		var checks []string
		for i := range n {
			checks = append(checks, fmt.Sprintf("(role:r%d and user_id:x)", i))
		}
		return strings.Join(append(checks, last), " or ")
	}
	for name, tc := range map[string]struct{ helpers, before, after, want string }{
		"a difference after many references":   {double, "rule:x30 or role:a", "rule:x30 or role:b", "the rules are too large"},
		"equal rules with many references":     {double, "rule:x30 or role:a", "rule:x30 or role:a", ""},
		"equal helpers in another order":       {double, "rule:x30 or role:a", "role:a or rule:x30", "the rules are too large"},
		"a difference after many checks":       {"", many(64, "role:a"), many(64, "role:b"), "the rules have more than 64 checks"},
		"equal rules with just as many checks": {"", many(62, "role:a"), many(62, "role:a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := readFiles(t, tc.helpers+"identity:create_user: "+tc.before, tc.helpers+"identity:create_user: "+tc.after)
			var got string
			for _, difference := range Compare(NewKeystonePolicy(files[0]), NewKeystonePolicy(files[1])) {
				got += difference.Incomplete
			}
			if got != tc.want {
				t.Errorf("Compare() is incomplete because %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCompareWithoutAttributes(t *testing.T) {
	for name, tc := range map[string]struct {
		rule string
		more bool
		want string
	}{
		"equal texts":                {"'a':a", true, ""},
		"different texts":            {"'a':b", false, ""},
		"a kind that is no literal":  {"[1:%(target.user.id)s", false, "[1:%(target.user.id)s raises an exception"},
		"a text beside an attribute": {"domain_id:x%(target.user.domain_id)s", false, "domain_id:x%(target.user.domain_id)s compares more than an attribute"},
	} {
		t.Run(name, func(t *testing.T) {
			files := readFiles(t, "identity:create_user: '!'", `{"identity:create_user": "`+tc.rule+`"}`)
			var got Difference
			if differences := Compare(NewKeystonePolicy(files[0]), NewKeystonePolicy(files[1])); len(differences) > 0 {
				got = differences[0]
			}
			if got.Incomplete != tc.want || (got.More != nil) != tc.more || got.Less != nil {
				t.Errorf("Compare() = %+v, want incomplete because %q, more: %t", got, tc.want, tc.more)
			}
		})
	}
}

// TestCompareBesideAttributesWithoutEffect checks that a witness has the attributes after one that it does not need.
func TestCompareBesideAttributesWithoutEffect(t *testing.T) {
	for name, rule := range map[string]string{
		"a value that is not needed": "not project_id:%(target.user.default_project_id)s and domain_id:%(target.user.domain_id)s",
	} {
		t.Run(name, func(t *testing.T) {
			files := readFiles(t, "identity:create_user: '!'", "identity:create_user: "+rule)
			differences := Compare(NewKeystonePolicy(files[0]), NewKeystonePolicy(files[1]))
			if len(differences) != 1 || differences[0].More == nil {
				t.Fatalf("Compare() = %+v, want a request that the second policy allows", differences)
			}
			if got := slices.Collect(maps.Keys(differences[0].More.Target)); !slices.Equal(got, []string{"target.user.domain_id"}) {
				t.Errorf("the witness has the attributes %q", got)
			}
		})
	}
}

func TestWitnessNamesAllAttributes(t *testing.T) {
	w := Witness{As: "user", Target: map[string]any{"a": "x", "b": nil, "c": "y"}, Before: AnswerDeny, After: AnswerPass}
	if got, want := w.String(), "--as user --target a=x --target b:=null --target c=y: PASS, before DENY"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

// operators reads a file of the operators.
func operators(tb testing.TB, name string) Source {
	tb.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "e2e", "suites", "keystonepolicy", "testdata", "operators", name))
	if err != nil {
		tb.Fatal(err)
	}
	return Source{Name: name, Data: document}
}

// TestOperatorsOverrides: seven rules were wrong before the decision D-064, and three of them still are after it. Another rule has the same
// mistake before and after.
func TestOperatorsOverrides(t *testing.T) {
	base, err := ReadAll([]Source{operators(t, "live.json")})
	if err != nil {
		t.Fatal(err)
	}
	const (
		denied    = "error narrower-than-default: --as role=admin,domain=own-domain --target %s=own-domain: DENY, before PASS"
		passes    = "error broader-than-default: --as role=admin,project=own-project,project-domain=own-domain: PASS, before DENY"
		null      = "warning broader-than-default: --as role=admin,project=own-project,project-domain=own-domain --target target.project.domain_id:=null: PASS, before DENY"
		neverTrue = "warning dead-branch"
	)
	dead := func(attribute string) []string { return []string{fmt.Sprintf(denied, attribute), neverTrue} }
	for name, tc := range map[string]struct {
		base []*File
		want map[string][]string
	}{
		"before.yaml": {base: base, want: map[string][]string{
			"identity:create_user":       dead("target.user.domain_id"),
			"identity:create_project":    dead("target.project.domain_id"),
			"identity:create_group":      dead("target.group.domain_id"),
			"identity:add_user_to_group": dead("target.group.domain_id"),
			"identity:list_users":        {passes}, "identity:list_projects": {passes}, "identity:list_groups": {passes},
			"identity:list_user_projects": dead("filter_attr.domain_id"),
		}},
		"after.yaml": {base: base, want: map[string][]string{
			"identity:list_users":    dead("target.domain_id"),
			"identity:list_projects": dead("target.domain_id"),
			"identity:list_groups":   dead("filter_attr.domain_id=own-domain --target target.group.domain_id"), "identity:list_user_projects": dead("filter_attr.domain_id"),
			"identity:create_project": {null},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := LintKeystone(t.Context(), []Source{operators(t, name)}, LintOptions{Base: tc.base})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for _, f := range findings {
				line := fmt.Sprintf("%s %s", f.Severity, f.Code)
				if f.Witness != nil {
					line += ": " + f.Witness.String()
				}
				got[f.Rule] = append(got[f.Rule], line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOperatorsOverridesWithoutBase checks the findings without a base: each rule of the live policy is unknown, and nothing else is
// found but notes.
func TestOperatorsOverridesWithoutBase(t *testing.T) {
	for _, name := range []string{"before.yaml", "after.yaml"} {
		findings, err := LintKeystone(t.Context(), []Source{operators(t, name)}, LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Code != CodeUnknownRule && f.Code != CodeBroaderThanDefault && f.Severity != SeverityNote {
				t.Errorf("%s: %s %s", name, f.Rule, f.Code)
			}
		}
	}
}

func TestWitnessIsAValidCase(t *testing.T) {
	files := readFiles(t, "identity:create_grant: role:a and None:%(target.role.domain_id)s", "identity:create_grant: '!'")
	before, after := NewKeystonePolicy(files[0]), NewKeystonePolicy(files[1])
	for _, d := range Compare(before, after) {
		for policy, want := range map[*Policy]string{before: d.Less.Before, after: d.Less.After} {
			got, err := Case{As: d.Less.As, Can: d.Operation, Target: d.Less.Target}.Ask(policy)
			if err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", d.Less, got, err, want)
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
			policies = append(policies, NewKeystonePolicy(file))
		}
		for _, d := range Compare(policies[0], policies[1]) {
			for _, w := range []*Witness{d.More, d.Less} {
				if w == nil {
					continue
				}
				for i, want := range []string{w.Before, w.After} {
					caller, err := ParseCaller(w.As)
					if err != nil {
						continue // names with commas or equals signs
					}
					passed, err := policies[i].Enforce(d.Operation, w.Target, caller.Credentials())
					if got := passed && err == nil; caller.String() == w.As && got != (want == AnswerPass) {
						t.Errorf("%s: %s: %t, %v", d.Operation, w, got, err)
					}
				}
			}
		}
	})
}

func BenchmarkCompare(b *testing.B) {
	var policies []*Policy
	live, err := ReadAll([]Source{operators(b, "live.json")})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"before.yaml", "after.yaml"} {
		files, err := ReadAll([]Source{operators(b, name)})
		if err != nil {
			b.Fatal(err)
		}
		policies = append(policies, NewKeystonePolicy(append(live, files...)...))
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(Compare(policies[0], policies[1])) == 0 {
			b.Fatal("no differences")
		}
	}
}

func BenchmarkLintOverABase(b *testing.B) {
	live, err := ReadAll([]Source{operators(b, "live.json")})
	if err != nil {
		b.Fatal(err)
	}
	source := operators(b, "after.yaml")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := LintKeystone(b.Context(), []Source{source}, LintOptions{Base: live}); err != nil {
			b.Fatal(err)
		}
	}
}
