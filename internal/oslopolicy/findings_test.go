package oslopolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// linted is a policy, and the lines about its findings.
type linted struct {
	// file is the policy, or rule its rule for identity:create_user. base is loaded before it.
	file, rule, base string
	options          LintOptions
	want             []string
}

// findings lints the policy.
func (l linted) findings(t *testing.T) []Finding {
	t.Helper()
	if l.base != "" {
		l.options.Base = readFiles(t, l.base)
	}
	if l.rule != "" {
		l.file = fmt.Sprintf("%q: %q\n", "identity:create_user", l.rule)
	}
	findings, err := LintKeystone(t.Context(), []Source{{Name: "policy.yaml", Data: []byte(l.file)}}, l.options)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// lines returns the lines about the findings. It leaves out empty ones.
func (l linted) lines(t *testing.T, line func(Finding) string) []string {
	t.Helper()
	var lines []string
	for _, f := range l.findings(t) {
		if text := line(f); text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

// expect compares the lines about the findings of policies.
func expect(t *testing.T, policies map[string]linted, line func(Finding) string) {
	t.Helper()
	for name, l := range policies {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(l.want, l.lines(t, line)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// inFull is a line with the texts of a finding. It leaves out the notes for rules that grant less than Keystone's own rule, which
// TestRulesThatGrantLess tests, and the attributes in tieToDomain, which TestTieToDomain tests.
func inFull(f Finding) string {
	if f.Severity == SeverityNote && f.Code == CodeNarrowerThanDefault {
		return ""
	}
	f.Witness = nil
	details, _, _ := strings.Cut(f.Details(), ", by checks such as token.domain.id:")
	return fmt.Sprintf("%d %s %s %s: %s", f.Line, f.Severity, f.Code, f.Rule, details)
}

// severe is a line with the code of an error or a warning.
func severe(f Finding) string {
	if f.Severity == SeverityNote {
		return ""
	}
	return fmt.Sprintf("%s %s %s", f.Severity, f.Code, f.Rule)
}

const (
	andDeny = `; write "!" in quotes to deny, or "@" in quotes to allow everybody`
	managed = "; roles that managers may grant are listed in keystonePolicy.managedRoles (--managed-role)"
	andJoin = "; join checks with and, or, not and parentheses that match"
	andTie  = "; require a role, and compare the domain of the token with those of the target"
	nobody  = "a token with role=any,domain=own-domain passes "
	manager = "a token with role=manager,domain=own-domain passes "
	member  = "a token with role=member,domain=own-domain passes "
	denies  = ", which Keystone's own rule denies" + andTie

	notCompared = "note not-compared identity:create_user: not every request for identity:create_user was compared with Keystone's own rule: "
	tooMany     = "error not-compared identity:create_user: not every request for identity:create_user was compared with Keystone's own rule: the rules are too large"
)

func TestLintKeystone(t *testing.T) {
	expect(t, map[string]linted{
		"nothing":          {file: "", want: []string{"0 warning no-rules : it has no rules, so that it overrides nothing; write the rules, or remove the override"}},
		"nothing, in JSON": {file: "{}", want: []string{"0 warning no-rules : it has no rules, so that it overrides nothing; write the rules, or remove the override"}},
		"a comment that is not ASCII": {
			file: "# na\u00efve \u2014 \u20ac\nidentity:create_user: role:admin # \u00fc\n",
			want: []string{
				"1 error non-ascii : the line has the letter U+00EF, which is not ASCII and may only look like another; type it again",
				"2 error non-ascii : the line has the letter U+00FC, which is not ASCII and may only look like another; type it again",
			},
		},
		"a comment that is not ASCII, below one that is": {
			file: "# a\nidentity:create_user: role:admin # \u00fc\n",
			want: []string{"2 error non-ascii : the line has the letter U+00FC, which is not ASCII and may only look like another; type it again"},
		},
		"a comment that is not ASCII, beside another mistake": {
			file: "identity:create_user: role:admin and role:'' # \u00fc\n",
			want: []string{
				"1 error non-ascii : the line has the letter U+00FC, which is not ASCII and may only look like another; type it again",
				`1 error quoted-match identity:create_user: the quotes of '' are part of the value, so that it does not match`,
			},
		},
		"a line that begins with what is not ASCII, in a file that cannot be read": {
			file: "\u0430: b\n c: d",
			want: []string{
				"0 error file : it cannot be read: yaml: line 2: mapping values are not allowed in this context; put each name and each check in quotes; correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails",
				"1 error non-ascii : the line has the letter U+0430, which is not ASCII and may only look like another; type it again",
			},
		},
		"a letter that is escaped": {
			file: "identity:create_user: \"role:\\u0430dmin\"",
			want: []string{"1 error non-ascii identity:create_user: \"role:\u0430dmin\" has the letter U+0430, which is not ASCII and may only look like another; type it again"},
		},
		"as shipped, written differently": {file: "identity:create_user: role:admin"},
		"open as shipped":                 {file: "identity:get_auth_catalog: ''"},
		"denied":                          {file: `identity:create_user: "!"`},
		"a file that cannot be read":      {file: "a: b\n c: d", want: []string{"0 error file : it cannot be read: yaml: line 2: mapping values are not allowed in this context; put each name and each check in quotes; correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails"}},
		"an empty text":                   {file: "identity:create_user: ''", want: []string{`1 error always-allows identity:create_user: "" as a rule allows everybody` + andDeny}},
		"null":                            {file: "\nidentity:create_user: null", want: []string{"2 error always-allows identity:create_user: null as a rule allows everybody" + andDeny}},
		"an empty list":                   {file: "identity:create_user: []", want: []string{"1 error always-allows identity:create_user: [] as a rule allows everybody" + andDeny}},
		"an empty mapping":                {file: "identity:create_user: {}", want: []string{"1 error always-allows identity:create_user: {} as a rule allows everybody" + andDeny}},
		"off":                             {file: "identity:create_user: off", want: []string{"1 error always-allows identity:create_user: false as a rule allows everybody" + andDeny}},
		"zero":                            {file: "identity:create_user: 0", want: []string{"1 error always-allows identity:create_user: 0.0 as a rule allows everybody" + andDeny}},
		"a bare exclamation mark":         {file: "identity:create_user: !", want: []string{"1 error always-allows identity:create_user: an exclamation mark without quotes is an empty tag to YAML: the rule is empty, and an empty rule allows everybody" + andDeny}},
		"open on purpose":                 {file: `identity:create_user: "@"`, want: []string{"1 error broader-than-default identity:create_user: " + nobody + "identity:create_user" + denies}},
		"open by a comparison":            {file: "identity:create_user: '1:1'", want: []string{`1 error always-allows identity:create_user: the rule allows every request; write "@" in quotes if that is meant`}},
		"open by alternatives":            {file: `identity:create_user: "(role:admin and !) or not (! and role:admin) or 1:2"`, want: []string{`1 error always-allows identity:create_user: the rule allows every request; write "@" in quotes if that is meant`}},
		"closed by a comparison":          {file: "identity:create_user: role:admin and 1:2", want: []string{`1 warning never-allows identity:create_user: the rule denies every request; write "!" in quotes if that is meant`}},
		"closed by rules":                 {file: "identity:create_user: \"rule:shut and not rule:open\"\nshut: \"!\"\nopen: \"@\""},
		"open by rules":                   {file: "identity:create_user: \"not rule:shut and rule:open\"\nshut: \"!\"\nopen: \"@\"", want: []string{`1 error always-allows identity:create_user: the rule allows every request; write "@" in quotes if that is meant`}},
		"two words":                       {file: "identity:create_user: (role:admin) rule:b", want: []string{`1 error syntax identity:create_user: oslo.policy cannot parse the rule and silently denies: "rule:b" is unexpected here` + andJoin}},
		"an unclosed parenthesis":         {file: "identity:create_user: (role:admin", want: []string{"1 error syntax identity:create_user: oslo.policy cannot parse the rule and silently denies: a parenthesis is not closed" + andJoin}},
		"an operator at the end":          {file: "identity:create_user: role:admin or", want: []string{"1 error syntax identity:create_user: oslo.policy cannot parse the rule and silently denies: a check is missing at its end" + andJoin}},
		"empty lists":                     {file: "identity:create_user: [[]]", want: []string{"1 error syntax identity:create_user: oslo.policy cannot parse the rule and silently denies: its lists hold no check" + andJoin}},
		"a word":                          {file: "identity:create_user: admin or role:admin", want: []string{`1 error malformed-check identity:create_user: "admin" is not a check, because it has no colon, and counts as false; write "role:admin" or "rule:admin"`}},
		"not a word":                      {file: "identity:get_auth_catalog: not admin", want: []string{`1 error malformed-check identity:get_auth_catalog: "admin" is not a check, because it has no colon, and counts as false; the "not" before it makes that true; write "role:admin" or "rule:admin"`}},
		"a lone word":                     {file: "identity:create_user: not", want: []string{`1 error raises identity:create_user: a rule that is only "not" raises an exception: every request ends with 400 or 500; write a check such as role:admin`}},
		"a bad template":                  {file: `identity:create_user: "role:admin and user_id:%(target.user.id"`, want: []string{`1 error raises identity:create_user: "%(target.user.id" raises an exception: the name is not closed; write attributes as %(name)s`}},
		"a bad template of a role":        {file: `identity:create_user: "role:admin or role:%(nope)q"`, want: []string{`1 error raises identity:create_user: "%(nope)q" raises an exception: 'q' is not a conversion of an attribute; use s; write attributes as %(name)s`}},
		"a template without a name":       {file: `identity:create_user: "role:admin and user_id:%s"`, want: []string{`1 error raises identity:create_user: "%s" raises an exception: it has a conversion without a name; write attributes as %(name)s`}},
		"a bad kind":                      {file: "identity:create_user: role:admin and 1a:x", want: []string{`1 error raises identity:create_user: "1a" before the colon is neither a name nor a literal of Python, and raises an exception`}},
		"an operator in a list":           {file: `identity:create_user: [["role:admin and rule:b"]]`, want: []string{`1 error operator-in-list identity:create_user: "role:admin and rule:b" is read as a single check: the list form knows no operators and no parentheses; write the whole rule as a text`}},
		"a mapping":                       {file: "identity:create_user: {role:admin: x}", want: []string{"1 error mapping-rule identity:create_user: oslo.policy reads only the keys of a mapping, as alternatives; write the rule as a text in quotes"}},
		"an unknown rule":                 {file: "identity:create_user: rule:admin_requird", want: []string{`1 error unknown-rule identity:create_user: there is no rule "admin_requird", which counts as false; write "admin_required"`}},
		"not an unknown rule":             {file: "identity:get_auth_catalog: not rule:xyz", want: []string{`1 error unknown-rule identity:get_auth_catalog: there is no rule "xyz", which counts as false; the "not" before it makes that true`}},
		"an unknown rule and a default":   {file: "identity:get_auth_catalog: rule:xyz\ndefault: \"@\"", want: []string{`1 error unknown-rule identity:get_auth_catalog: there is no rule "xyz", and the rule "default" is used instead`, `2 warning open-default default: it replaces every rule that does not exist: a misspelled reference may allow; write "!" in quotes, or leave the rule out`}},
		"a default that denies":           {file: `default: "!"`},
		"a circle": {file: "identity:create_user: rule:a\na: rule:b\nb: rule:a", want: []string{
			"1 " + notCompared + `the rule "a" refers to itself`,
			"2 error cycle a: the rule refers to itself, perhaps through others: asking it raises an exception and ends with 400; remove one of the references",
			"3 error cycle b: the rule refers to itself, perhaps through others: asking it raises an exception and ends with 400; remove one of the references",
		}},
		"a rule twice": {file: "identity:create_user: \"@\"\nidentity:create_user: role:admin", want: []string{"1 error duplicate-rule identity:create_user: line 2 has a rule of the same name, which silently replaces this one; keep one of the two"}},
		"a rule twice, of which the last is open": {file: "identity:create_user: role:admin\nidentity:create_user: \"@\"", want: []string{
			"1 error duplicate-rule identity:create_user: line 2 has a rule of the same name, which silently replaces this one; keep one of the two",
			"2 error broader-than-default identity:create_user: " + nobody + "identity:create_user" + denies,
		}},
		"an unknown operation":                     {file: "identity:create_usr: role:admin", want: []string{`1 error unknown-operation identity:create_usr: Keystone has no such operation, so the rule has no effect; write "identity:create_user"`}},
		"a rule that is not used":                  {file: "a: role:admin", want: []string{"1 note unused-rule a: no rule refers to it, and Keystone does not evaluate it"}},
		"a name that is not a text, beside a rule": {file: "off: role:admin\nidentity:create_user: role:admin", want: []string{"1 error name-not-text false: YAML does not read this name as a text, so the rule has no effect; put the name in quotes"}},
		"a name that is not a text":                {file: "off: role:admin", want: []string{"1 error name-not-text false: YAML does not read this name as a text, so the rule has no effect; put the name in quotes"}},
		"a letter that looks alike at the start": {file: "\u0430: role:admin", want: []string{
			"1 error non-ascii \u0430: \"\u0430\" has the letter U+0430, which is not ASCII and may only look like another; type it again",
			"1 note unused-rule \u0430: no rule refers to it, and Keystone does not evaluate it",
		}},
		"a letter that looks alike":         {file: "identity:create_user: [role:\u0430dmin]", want: []string{"1 error non-ascii identity:create_user: \"role:\u0430dmin\" has the letter U+0430, which is not ASCII and may only look like another; type it again"}},
		"the last letter of ASCII, in JSON": {file: "{\"identity:create_user\": \"role:auditor\x7f\"}"},
		"the last letter of ASCII":          {file: `identity:create_user: "role:auditor\x7f"`},
		"as many alternatives as are folded": {
			file: `identity:create_user: "` + strings.Repeat("! or ", maxChecks-2) + `!"`,
			want: []string{
				"1 " + tooMany,
				`1 warning never-allows identity:create_user: the rule denies every request; write "!" in quotes if that is meant`,
			},
		},
		"more alternatives than are folded": {
			file: `identity:create_user: "` + strings.Repeat("! or ", maxChecks-1) + `!"`, want: []string{"1 " + tooMany},
		},
		"another host": {file: "identity:create_user: http://h/", want: []string{
			`1 error remote-check identity:create_user: "http://h/" sends the token and the target to another host, whose answer cannot be evaluated; compare attributes, or have the check added to the base`,
			`1 error broader-than-default identity:create_user: a token with role=any,domain=own-domain may pass identity:create_user, which Keystone's own rule denies: ["http://h/"] cannot be evaluated; ` + compareInstead,
		}},
		"one of two other hosts": {file: "identity:create_user: http://h/ or http://i/", want: []string{
			`1 error remote-check identity:create_user: "http://h/" sends the token and the target to another host, whose answer cannot be evaluated; compare attributes, or have the check added to the base`,
			`1 error remote-check identity:create_user: "http://i/" sends the token and the target to another host, whose answer cannot be evaluated; compare attributes, or have the check added to the base`,
			`1 error broader-than-default identity:create_user: a token with role=any,domain=own-domain may pass identity:create_user, which Keystone's own rule denies: ["http://h/"] cannot be evaluated; ` + compareInstead,
		}},
		"not another host": {file: "identity:create_user: not http://h/", want: []string{
			`1 error remote-check identity:create_user: "http://h/" sends the token and the target to another host, whose answer cannot be evaluated; compare attributes, or have the check added to the base`,
			`1 error broader-than-default identity:create_user: a token with role=any,domain=own-domain may pass identity:create_user, which Keystone's own rule denies: ["http://h/"] cannot be evaluated; ` + compareInstead,
		}},
		"an unknown credential":    {file: "identity:create_user: tenant:x or Role:x or user.id:x or zzz:x", want: []string{`1 warning unknown-credential identity:create_user: Keystone's credentials have no "tenant", so that the check is false or raises an exception; write "project_id"`, `1 warning unknown-credential identity:create_user: Keystone's credentials have no "Role", so that the check is false or raises an exception; write "role"`, `1 warning unknown-credential identity:create_user: Keystone's credentials have no "user.id", so that the check is false or raises an exception; write "user_id"`, `1 warning unknown-credential identity:create_user: Keystone's credentials have no "zzz", so that the check is false or raises an exception`}},
		"a credential in capitals": {file: "identity:create_user: USER_DOMAIN_ID:x and role:admin", want: []string{`1 warning unknown-credential identity:create_user: Keystone's credentials have no "USER_DOMAIN_ID", so that the check is false or raises an exception; write "user_domain_id"`}},
		"open in two ways, on one line": {file: `{"identity:create_user": "", "identity:delete_user": "@"}`, want: []string{
			`1 error always-allows identity:create_user: "" as a rule allows everybody` + andDeny,
			"1 error broader-than-default identity:delete_user: " + nobody + "identity:delete_user" + denies,
		}},
		"empty quotes after the colon":          {file: "identity:create_user: role:admin and role:''", want: []string{`1 error quoted-match identity:create_user: the quotes of '' are part of the value, so that it does not match`}},
		"an unknown attribute, twice":           {file: "identity:get_auth_catalog: user_id:%(user.id)s and domain_id:%(user.id)s", want: []string{"1 error unknown-attribute identity:get_auth_catalog: Keystone does not fill %(user.id)s in for identity:get_auth_catalog: the check is always false"}},
		"an unknown attribute before a mistake": {file: `identity:create_user: "role:admin and user_id:%(nope)s%("`, want: []string{`1 error raises identity:create_user: "%(nope)s%(" raises an exception: the name is not closed; write attributes as %(name)s`}},
		"all enabled users":                     {file: "identity:get_user: True:%(target.user.enabled)s", want: []string{"1 error broader-than-default identity:get_user: " + nobody + "identity:get_user" + denies}},
		"every trust that impersonates":         {file: "identity:get_trust: True:%(target.trust.impersonation)s", want: []string{"1 error broader-than-default identity:get_trust: " + nobody + "identity:get_trust" + denies}},
		"a manager who may grant its own role": {
			file:    "identity:create_grant: role:boss and domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s",
			options: LintOptions{ManagerRoles: []string{"boss"}, ManagedRoles: []string{"boss", "helper"}},
			want: []string{`1 error escalation identity:create_grant: a token with role=boss,domain=own-domain can grant a role that a manager must not grant; ` +
				`allow only ["boss" "helper"], by checks such as 'boss':%(target.role.name)s` + managed},
		},
		"a special credential":           {file: "identity:create_user: token.OS-TRUST.x:y and role:admin", want: []string{"1 " + notCompared + "token.OS-TRUST.x:y depends on more of the token than user, scope and roles"}},
		"quotes after the colon":         {file: "identity:create_user: role:'admin'", want: []string{`1 error quoted-match identity:create_user: the quotes of 'admin' are part of the value, so that it does not match; write "admin"`}},
		"a new object without target":    {file: "identity:create_user: role:admin and domain_id:%(user.domain_id)s", want: []string{`1 error unknown-attribute identity:create_user: Keystone does not fill %(user.domain_id)s in for identity:create_user: the check is always false; write "%(target.user.domain_id)s"`}},
		"a trust without target":         {file: "identity:create_trust: user_id:%(trust.trustor_user_id)s", want: []string{`1 error unknown-attribute identity:create_trust: Keystone does not fill %(trust.trustor_user_id)s in for identity:create_trust: the check is always false; write "%(target.trust.trustor_user_id)s"`}},
		"the ID of a new object":         {file: "identity:create_user: role:admin and user_id:%(target.user.id)s", want: []string{`1 error unknown-attribute identity:create_user: Keystone does not fill %(target.user.id)s in for identity:create_user: the check is always false`}},
		"not a missing attribute":        {file: "identity:get_auth_catalog: not user_id:%(user.id)s", want: []string{`1 error unknown-attribute identity:get_auth_catalog: Keystone does not fill %(user.id)s in for identity:get_auth_catalog: the check is always false, and the "not" before it always true`}},
		"a stored attribute":             {file: "identity:get_user: role:admin and domain_id:%(target.user.domain.id)s", want: []string{`1 warning unknown-attribute identity:get_user: Keystone fills %(target.user.domain.id)s in for identity:get_user only if such an attribute was stored with the object; write "%(target.user.domain_id)s"`}},
		"an attribute without an object": {file: "a: user_id:%(nothing)s", want: []string{"1 warning unknown-attribute a: Keystone fills %(nothing)s in for no operation", "1 note unused-rule a: no rule refers to it, and Keystone does not evaluate it"}},
		"a helper that never matches": {
			file: "identity:list_users: rule:a\nidentity:list_projects: rule:a\nidentity:list_roles: rule:a\nidentity:list_domains: rule:a\na: role:admin and domain_id:%(x_id)s",
			want: []string{`5 error unknown-attribute a: Keystone does not fill %(x_id)s in for identity:list_domains, identity:list_projects, identity:list_roles and 1 more: the check is always false`},
		},
		"a helper that matches for other operations": {
			file: "identity:get_domain: role:admin or rule:a\nidentity:list_users: role:admin or rule:a\na: domain_id:%(domain_id)s",
			want: []string{`2 warning dead-branch identity:list_users: one of its alternatives can never match: the rule "a" looks at %(domain_id)s, which Keystone does not fill in for this operation; write "%(target.domain_id)s" or "%(filter_attr.domain_id)s"`},
		},
		"a helper that matches for other operations, next to a circular one": {
			file: "identity:get_domain: role:admin or rule:a\nidentity:list_users: role:admin or rule:round and rule:a\nround: role:x or rule:round\na: domain_id:%(domain_id)s",
			want: []string{
				`2 warning dead-branch identity:list_users: one of its alternatives can never match: the rule "a" looks at %(domain_id)s, which Keystone does not fill in for this operation; write "%(target.domain_id)s" or "%(filter_attr.domain_id)s"`,
				`2 note not-compared identity:list_users: not every request for identity:list_users was compared with Keystone's own rule: the rule "round" refers to itself`,
				"3 error cycle round: the rule refers to itself, perhaps through others: asking it raises an exception and ends with 400; remove one of the references",
			},
		},
		"a helper with two attributes, the second of which matches for other operations": {
			file: "identity:update_user: role:admin or rule:a\nidentity:create_user: role:admin or rule:a\na: role:admin and user_id:%(target.user.name)s%(user_id)s",
			want: []string{
				"1 " + strings.ReplaceAll(notCompared, "create_user", "update_user") + "user_id:%(target.user.name)s%(user_id)s compares more than an attribute",
				`2 warning dead-branch identity:create_user: one of its alternatives can never match: the rule "a" looks at %(user_id)s, which Keystone does not fill in for this operation`,
			},
		},
		"a helper of Keystone that is open for operations on users": {
			file: "admin_required: role:member and domain_id:%(target.user.domain_id)s",
			want: []string{
				"1 error broader-than-default admin_required: " + "a token with role=member,role=reader,domain=own-domain passes " + "identity:check_grant" + denies,
				`1 error escalation admin_required: a token with role=member,domain=own-domain can grant a role that a manager must not grant; ` +
					`allow only ["load-balancer_member" "member"], by checks such as 'load-balancer_member':%(target.role.name)s` + managed,
			},
		},
		"an attribute of the body, for an existing object": {
			file: "identity:create_project_tag: role:manager and domain_id:%(request_body.domain_id)s",
			want: []string{"1 error broader-than-default identity:create_project_tag: " + manager + "identity:create_project_tag" + denies},
		},
		"members in their own domain":  {file: "identity:create_group: role:member and domain_id:%(target.group.domain_id)s", want: []string{"1 warning broader-than-default identity:create_group: " + member + "identity:create_group" + denies}},
		"a manager everywhere":         {file: "identity:delete_user: role:admin or role:manager", want: []string{"1 error broader-than-default identity:delete_user: " + manager + "identity:delete_user" + denies}},
		"a manager may read":           {file: "identity:list_domains: role:admin or role:manager"},
		"a manager may list its users": {file: "identity:list_users: role:admin or role:manager and domain_id:%(target.domain_id)s"},
		"a manager may list groups":    {file: "identity:list_groups: role:admin or role:manager and domain_id:%(target.group.domain_id)s"},
		"a manager lists all groups":   {file: "identity:list_groups: role:admin or role:manager", want: []string{"1 error broader-than-default identity:list_groups: a token with role=manager,project=own-project,project-domain=own-domain passes identity:list_groups" + denies}},
		"a manager may read roles":     {file: "identity:get_role: role:admin or role:manager"},
		"a manager reads any user":     {file: "identity:get_user: role:admin or role:manager", want: []string{"1 error broader-than-default identity:get_user: " + manager + "identity:get_user" + denies}},
		"a manager lists any members":  {file: "identity:list_users_in_group: role:admin or role:manager", want: []string{"1 error broader-than-default identity:list_users_in_group: " + manager + "identity:list_users_in_group" + denies}},
		"a manager reads any domain":   {file: "identity:get_domain: role:admin or role:manager", want: []string{"1 error broader-than-default identity:get_domain: " + manager + "identity:get_domain" + denies}},
		"a manager checks an incomplete grant": {
			file: "identity:check_grant: role:admin or role:manager and domain_id:%(target.user.domain_id)s",
			want: []string{"1 error broader-than-default identity:check_grant: " + manager + "identity:check_grant" + denies},
		},
		"an attribute of the body":               {file: "identity:update_user: role:manager and domain_id:%(request_body.user.domain_id)s", want: []string{"1 error broader-than-default identity:update_user: " + manager + "identity:update_user" + denies}},
		"an attribute of the body of a creation": {file: "identity:create_user: role:manager and domain_id:%(request_body.user.domain_id)s"},
		"a helper of Keystone":                   {file: "service_role: role:member", want: []string{"1 error broader-than-default service_role: " + member + "identity:list_revoke_events" + denies}},
		"an incomplete grant": {
			file: "identity:revoke_grant: role:manager and domain_id:%(target.user.domain_id)s",
			want: []string{"1 error broader-than-default identity:revoke_grant: " + manager + "identity:revoke_grant" + denies},
		},
		"any role": {
			file: "identity:create_grant: role:manager and domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s",
			want: []string{`1 error escalation identity:create_grant: a token with role=manager,domain=own-domain can grant a role that a manager must not grant; ` +
				`allow only ["load-balancer_member" "member"], by checks such as 'load-balancer_member':%(target.role.name)s` + managed},
		},
		"a role on the system": {
			file:    "identity:create_system_grant_for_user: role:boss and domain_id:%(target.user.domain_id)s and 'helper':%(target.role.name)s",
			options: LintOptions{ManagerRoles: []string{"boss"}, ManagedRoles: []string{"helper"}},
			want: []string{`1 error escalation identity:create_system_grant_for_user: a token with role=boss,domain=own-domain can grant a role that a manager must not grant; ` +
				`allow only ["helper"], by checks such as 'helper':%(target.role.name)s` + managed},
		},
	}, inFull)
}

// TestFindingsOfSeveralOperations: a helper of the base has one warning, for the first of its operations that allows too much. The warning hides
// no error about a later operation.
func TestFindingsOfSeveralOperations(t *testing.T) {
	const members = "mine: role:member and domain_id:%(target.user.domain_id)s"
	base := func(operations ...string) string {
		return "mine: '!'\n" + strings.Join(operations, ": rule:mine\n") + ": rule:mine\n"
	}
	warning := "1 warning broader-than-default mine: " + member + "identity:list_access_rules, which the base denies" + andTie
	expect(t, map[string]linted{
		"two warnings": {file: members, base: base("identity:list_access_rules", "identity:delete_user"), want: []string{warning}},
		"a warning, and an error in another setting": {
			file: members, base: base("identity:list_access_rules", "identity:check_grant"),
			want: []string{
				"1 error broader-than-default mine: " + member + "identity:check_grant, which the base denies" + andTie,
				warning,
			},
		},
	}, inFull)
}

// TestGrantsOfRoles: a rule is compared with Keystone's own rule, also if the base has the mistake. The message says whether the grant depends on
// a check that cannot be evaluated.
func TestGrantsOfRoles(t *testing.T) {
	const (
		home    = "domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s"
		every   = "identity:create_grant: role:manager and " + home
		only    = `; allow only ["load-balancer_member" "member"], by checks such as 'load-balancer_member':%(target.role.name)s` + managed
		finding = "1 error escalation identity:create_grant: a "
	)
	expect(t, map[string]linted{
		"any role, as in the base": {base: every, file: every, want: []string{
			finding + "token with role=manager,domain=own-domain can grant a role that a manager must not grant" + only,
		}},
		"any role, in a helper as in the base": {base: every + " and rule:mine\nmine: '@'", file: "mine: \"@\""},
		"any role, by one manager": {file: every + " and user_id:mallory", want: []string{
			finding + "token with role=manager,user=mallory,domain=own-domain can grant a role that a manager must not grant" + only,
		}},
		"any role, by a check that cannot be evaluated": {file: every + " and token.methods:x", want: []string{
			finding + `token with role=manager,domain=own-domain may grant a role that a manager must not grant: ["token.methods:x"] cannot be evaluated; ` + compareInstead,
			strings.ReplaceAll("1 "+notCompared, "create_user", "create_grant") + "token.methods:x depends on more of the token than user, scope and roles",
		}},
	}, inFull)
}

// TestRulesThatGrantLess checks the notes for rules that deny what Keystone's own rule allows.
func TestRulesThatGrantLess(t *testing.T) {
	const (
		live    = `{"cloud_admin": "role:admin and is_admin_project:True", "identity:create_user": "rule:cloud_admin"}`
		trustor = "note: --as role=any,domain=own-domain --target target.trust.trustor_user_id=caller: DENY, before PASS"
		admin   = "note: --as role=admin,domain=own-domain: DENY, before PASS"
		reads   = ": --as role=admin,role=reader,domain=own-domain: DENY, before PASS" // admin implies reader
	)
	expect(t, map[string]linted{
		"no less than shipped":          {file: "identity:create_trust: role:admin or user_id:%(target.trust.trustor_user_id)s"},
		"all users":                     {file: "identity:create_trust: role:admin", want: []string{trustor}},
		"the administrators of domains": {file: "identity:create_user: role:admin and is_admin_project:True", want: []string{admin}},
		"everybody":                     {file: `identity:create_user: "!"`, want: []string{admin}},
		"a role in another case":        {file: "identity:create_user: role:Admin"},
		"a role that is misspelled":     {file: "identity:create_user: rule:a\na: role:admn", want: []string{admin}},
		"administrators and others":     {file: `identity:get_domain: "!"`, want: []string{"note" + reads}},
		"the same, over a base":         {base: "identity:get_domain: role:reader or role:admin", file: "identity:get_domain: role:admn", want: []string{"warning" + reads}},
		"one that others lose":          {file: "identity:create_trust: role:admin or role:admn", want: []string{trustor}},
		"a template that never matches": {file: "identity:create_user: role:admin and domain_id:%(user.domain_id)s", want: []string{admin}},
		"a rule that the base lacks":    {base: live, file: "identity:create_trust: rule:cloud_admin", want: []string{trustor}},
		"a rule of the base":            {base: live, file: `identity:create_user: "!"`, want: []string{"warning: --as role=admin,project=own-project,project-domain=own-domain,admin-project=true: DENY, before PASS"}},
		"no more than the base":         {base: live, file: "identity:create_user: rule:cloud_admin"},
		"less by a helper that the base lacks": {
			base: "identity:create_user: role:admin and not rule:local", file: "local: role:admin", want: []string{"warning: --as role=admin,domain=own-domain: DENY, before PASS"},
		},
		"less by a helper of the base": {
			base: "admin_required: role:admin\nidentity:create_user: role:admin", file: `admin_required: "!"`, want: []string{"warning: --as role=admin,domain=own-domain: DENY, before PASS"},
		},
		"less and more":                             {file: "identity:create_user: role:manager", options: LintOptions{Differences: true}, want: []string{admin}},
		"a rule that is misread":                    {file: "identity:create_user: (role:admin"},
		"a reference to a rule that does not exist": {file: "identity:create_user: rule:admn"},
	}, func(f Finding) string {
		if f.Code != CodeNarrowerThanDefault {
			return ""
		}
		return fmt.Sprintf("%s: %s", f.Severity, f.Witness)
	})
}

// TestTieToDomain: the suggestion names the attributes with which oslo.policy compares the domain of the token.
func TestTieToDomain(t *testing.T) {
	for name, want := range map[string][]string{
		"create_user":  {"target.user.domain_id"},
		"list_users":   {"target.domain_id"},
		"get_domain":   {"target.domain.id"},
		"create_grant": {"target.domain.id", "target.group.domain_id", "target.project.domain_id", "target.user.domain_id"},
		"get_trust":    nil, // a trust has no domain
	} {
		suggestion, separator := andTie[len("; "):], ", by checks such as "
		for _, attribute := range want {
			suggestion += separator + "token.domain.id:%(" + attribute + ")s"
			separator = ", "
		}
		if got := tieToDomain(DefaultRelease.table().operation(prefix + name)); got != suggestion {
			t.Errorf("%s: %s, want %s", name, got, suggestion)
		}
	}
}

// TestNotesNameThePolicyOfTheComparison: a rule is compared with the base, but what it grants less than Keystone's own rule is also a note if the
// base has no such rule.
func TestNotesNameThePolicyOfTheComparison(t *testing.T) {
	const rule = "identity:create_user: role:manager and domain_id:%(target.user.domain_id)s"
	both := LintOptions{Differences: true}
	expect(t, map[string]linted{
		"no base": {file: rule, options: both, want: []string{
			"a token with role=manager,domain=own-domain passes identity:create_user, which Keystone's own rule denies",
			"a token with role=admin,domain=own-domain is denied identity:create_user, which Keystone's own rule allows",
		}},
		"a base without the rule": {base: "other: role:admin", file: rule, options: both, want: []string{
			"a token with role=manager,domain=own-domain passes identity:create_user, which the base denies",
			"a token with role=admin,domain=own-domain is denied identity:create_user, which Keystone's own rule allows",
		}},
	}, func(f Finding) string { return f.Message })
}

// TestFindingsHaveWitnesses checks that each finding about what a rule grants has a request that shows it.
func TestFindingsHaveWitnesses(t *testing.T) {
	const home = "domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s"
	for name, tc := range map[string]struct{ file, code, want string }{
		"a user with two of three roles": {
			"identity:create_user: role:member and role:reader", CodeBroaderThanDefault,
			"--as role=member,role=reader,domain=own-domain: PASS, before DENY",
		},
		"a manager who may grant any role": {
			"identity:create_grant: role:admin or role:manager and " + home, CodeEscalation,
			"--as role=manager,domain=own-domain --target target.project.domain_id=own-domain --target target.user.domain_id=own-domain: PASS, before DENY",
		},
		"a manager who may grant one role too many": {
			"identity:create_grant: role:admin or role:manager and 'manager':%(target.role.name)s and " + home, CodeEscalation,
			"--as role=manager,domain=own-domain --target target.project.domain_id=own-domain --target target.role.name=manager --target target.user.domain_id=own-domain: PASS, before DENY",
		},
	} {
		t.Run(name, func(t *testing.T) {
			findings := linted{file: tc.file}.findings(t)
			if !slices.ContainsFunc(findings, func(f Finding) bool {
				return f.Code == tc.code && strings.HasSuffix(f.Details(), " "+tc.want)
			}) {
				t.Errorf("findings = %+v, want %s with %s", findings, tc.code, tc.want)
			}
		})
	}
}

func TestFindingsAreLimited(t *testing.T) {
	var chain, circle, misses, thrice, wide strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&chain, "r%d: rule:r%d\n", i, i+1)
		fmt.Fprintf(&circle, "r%d: rule:r%d\n", i, (i+1)%6000)
		fmt.Fprintf(&misses, "rule_%d: rule:rule_x%d\n", i, i)
		fmt.Fprintf(&thrice, "r%d: x or y or role:a\n", i)
		fmt.Fprintf(&wide, " or user_id:%%(x%d)s", i)
	}
	for name, tc := range map[string]struct {
		file string
		want int
	}{
		"a chain":  {chain.String(), 2},
		"a circle": {circle.String(), MaxFindings},
		"misses":   {misses.String(), 2 * MaxFindings},             // as many errors and notes
		"thrice":   {thrice.String(), MaxFindings + MaxFindings/2}, // two errors and a note each
		"wide":     {"admin_required: \"role:admin" + wide.String() + "\"", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len((linted{file: tc.file}).lines(t, inFull)); got != tc.want {
				t.Errorf("%d findings, want %d", got, tc.want)
			}
		})
	}
}

// TestNotesHideNoErrors checks that a rule that allows too much is found after more notes and warnings than are reported.
func TestNotesHideNoErrors(t *testing.T) {
	for severity, many := range map[Severity]string{
		SeverityNote:    "unused_%d: role:admin\n",
		SeverityWarning: "unused_%d: nothing:%%(x)s\n",
	} {
		t.Run(string(severity), func(t *testing.T) {
			var file strings.Builder
			for i := range 2 * MaxFindings {
				fmt.Fprintf(&file, many, i)
			}
			file.WriteString("\"identity:create_grant\": \"\"\n")
			findings := linted{file: file.String()}.findings(t)
			got := map[Severity]int{}
			for _, f := range findings {
				got[f.Severity]++
			}
			if got[severity] != MaxFindings {
				t.Errorf("%d findings of severity %s, want %d", got[severity], severity, MaxFindings)
			}
			if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Rule == "identity:create_grant" && f.Code == CodeAlwaysAllows }) {
				t.Error("the error in the last rule is missing")
			}
		})
	}
}

func override(t *testing.T) []byte {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "e2e", "suites", "oslopolicy", "testdata", "domain-manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// TestOverrideHasNoFindings checks that the override has no findings but notes for rules that grant less than Keystone's own rule.
func TestOverrideHasNoFindings(t *testing.T) {
	if got := (linted{file: string(override(t))}).lines(t, inFull); len(got) > 0 {
		t.Errorf("findings:\n%s", strings.Join(got, "\n"))
	}
}
