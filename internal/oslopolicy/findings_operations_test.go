package oslopolicy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRulesOfExtensions: an extension evaluates its rules and fills in its own attributes. All else is linted as in other rules.
func TestRulesOfExtensions(t *testing.T) {
	const (
		list        = "; if an extension evaluates it, list it in keystonePolicy.knownRules (--known-rule)"
		noSuch      = "Keystone has no such operation, so the rule has no effect"
		unused      = "no rule refers to it, and Keystone does not evaluate it"
		attribute   = "Keystone fills %(scim.owner)s in for no operation"
		sendsRemote = `"http://h/" sends the token and the target to another host, whose answer cannot be evaluated; compare attributes, or have the check added to the base`
	)
	scim := LintOptions{KnownRules: []string{"identity:scim_*", "scim:*"}}
	expect(t, map[string]linted{
		"not known": {
			file: "identity:scim_list_users: role:admin\nscim:read: role:admin",
			want: []string{"1 error unknown-operation identity:scim_list_users: " + noSuch + list, "2 note unused-rule scim:read: " + unused},
		},
		"known":                          {file: "identity:scim_list_users: role:admin\nscim:read: role:admin", options: scim},
		"a name that is not one of them": {file: "identity:scim: role:admin", options: scim, want: []string{"1 error unknown-operation identity:scim: " + noSuch + list}},
		"a misspelled operation":         {file: "identity:create_usr: role:admin", options: scim, want: []string{"1 error unknown-operation identity:create_usr: " + noSuch + `; write "identity:create_user"`}},
		"an operation of Keystone":       {file: `identity:create_user: "@"`, options: LintOptions{KnownRules: []string{"*"}}, want: []string{"1 error broader-than-default identity:create_user: " + nobody + "identity:create_user" + denies}},
		"the default":                    {file: `default: "@"`, options: LintOptions{KnownRules: []string{"*"}}, want: linted{file: `default: "@"`}.lines(t, inFull)},
		"open":                           {file: "identity:scim_list_users: ''", options: scim, want: []string{`1 error always-allows identity:scim_list_users: "" as a rule allows everybody` + andDeny}},
		"a rule that does not exist":     {file: "identity:scim_list_users: rule:scim:none", options: scim, want: []string{`1 error unknown-rule identity:scim_list_users: there is no rule "scim:none", which counts as false`}},
		"an attribute":                   {file: `identity:scim_list_users: "user_id:%(scim.owner)s"`, options: scim},
		"an attribute in a helper":       {file: "identity:scim_list_users: rule:holder\nholder: user_id:%(scim.owner)s", options: scim},
		"an attribute in another helper": {file: "holder: user_id:%(scim.owner)s", options: scim, want: []string{"1 warning unknown-attribute holder: " + attribute, "1 note unused-rule holder: " + unused}},
		"a helper that an operation has too": {
			file: "identity:scim_list_users: rule:holder\nidentity:get_user: rule:admin_required or rule:holder\nholder: user_id:%(scim.owner)s", options: scim,
			want: []string{"3 error unknown-attribute holder: Keystone does not fill %(scim.owner)s in for identity:get_user: the check is always false"},
		},
		"another host":                   {file: "identity:scim_list_users: http://h/", options: scim, want: []string{"1 error remote-check identity:scim_list_users: " + sendsRemote}},
		"another host in a helper":       {file: "identity:scim_list_users: rule:a\na: rule:b\nb: http://h/", options: scim, want: []string{"3 error remote-check b: " + sendsRemote}},
		"another host, in a circle":      {file: "identity:scim_list_users: rule:a\na: rule:identity:scim_list_users or http://h/", options: scim, want: []string{"1 error cycle identity:scim_list_users: " + inCircle, "2 error remote-check a: " + sendsRemote, "2 error cycle a: " + inCircle}},
		"a pattern that cannot be read":  {file: "identity:scim_list_users: role:admin", options: LintOptions{KnownRules: []string{"identity:["}}, want: []string{"1 error unknown-operation identity:scim_list_users: " + noSuch + list}},
		"a helper of an extension alone": {file: "identity:scim_list_users: rule:a\na: role:admin", options: scim},
	}, inFull)
}

// TestAnExtensionMayUseTheDefault: oslo.policy takes the rule default for a rule that does not exist.
func TestAnExtensionMayUseTheDefault(t *testing.T) {
	findings := linted{file: "identity:scim_list_users: rule:none\ndefault: http://h/", options: LintOptions{KnownRules: []string{"identity:scim_*"}}}.lines(t, inFull)
	if !slices.ContainsFunc(findings, func(line string) bool { return strings.HasPrefix(line, "2 error remote-check default: ") }) {
		t.Errorf("findings = %q", findings)
	}
}

const inCircle = "the rule refers to itself, perhaps through others: asking it raises an exception and ends with 400; remove one of the references"

// TestOperationsOfFindings: a finding about a helper names the operations that it affects.
func TestOperationsOfFindings(t *testing.T) {
	const file = "a: rule:none\nb: rule:a\nidentity:create_user: rule:b or rule:nothing\nidentity:get_user: rule:a\nc: role:x\n"
	expect(t, map[string]linted{"a helper": {file: file, want: []string{
		"a unknown-rule [identity:get_user identity:create_user]", "identity:create_user unknown-rule []", "c unused-rule []",
	}}}, func(f Finding) string {
		if f.Code != CodeUnknownRule && f.Code != CodeUnusedRule {
			return ""
		}
		return fmt.Sprint(f.Rule, " ", f.Code, " ", f.Operations)
	})
}

// TestPlaces: no finding is about line 0, and a file that is not text has one finding.
func TestPlaces(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"a line":            {"\na: rule:none", "policy.yaml:2"},
		"no rules":          {"# nothing", "policy.yaml"},
		"gzip":              {"\x1f\x8b\x08\n\xff\n\xff", "policy.yaml"},
		"not UTF-8":         {"a: b\nc: \xff\nd: \xff", "policy.yaml:2"},
		"surrogates":        {"{\n\"a\": \"\\ud800\"}", "policy.yaml:2"},
		"nested JSON":       {"{\"a\":\n [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}", "policy.yaml:2"},
		"a number in JSON":  {"{\"a\":\n 1e999}", "policy.yaml:2"},
		"a byte order mark": {"\ufeffidentity:create_user: rule:none", "policy.yaml:1"},
	} {
		t.Run(name, func(t *testing.T) {
			places := linted{file: tc.data}.lines(t, Finding.Place)
			if diff := cmp.Diff([]string{tc.want}, slices.Compact(places)); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}
