package oslopolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// enforce evaluates the rule "rule" of a file and returns allow, deny, or the error.
func enforce(t *testing.T, file string, target, credentials map[string]any) string {
	t.Helper()
	f, err := Read("policy.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	passed, err := NewPolicy(f).Enforce("rule", target, credentials)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case passed:
		return "allow"
	}
	return "deny"
}

func TestEnforce(t *testing.T) {
	credentials := map[string]any{
		"user_id": "u1", "domain_id": nil, "roles": []any{"Admin", "i̇"}, "is_admin_project": true, "project-id": "p", "num": 5,
		"token": map[string]any{"user": map[string]any{"id": "u1"}, "roles": []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}},
		"list":  []any{"x", []any{"y"}}, "empty": []any{}, "big": json.Number("12"), "ratio": json.Number("1.50"),
	}
	target := map[string]any{
		"user_id": "u1", "role": "ADMIN", "null": nil, "flag": true, "list": []any{"a", "it's", nil, 1.5}, "num": 5, "wide": int64(7), "huge": uint64(8),
		"map": map[string]any{"b": false, "a": 1e20}, "odd": "a\n\r\t\\\x01\u0085\u200b\U000e0001",
	}
	tests := map[string]struct{ file, want string }{
		"no such rule":                       {`other: "@"`, "deny"},
		"empty allows":                       {`rule: ""`, "allow"},
		"null allows":                        {`rule:`, "allow"},
		"an empty list allows":               {`rule: []`, "allow"},
		"an empty mapping allows":            {`rule: {}`, "allow"},
		"false allows":                       {`rule: off`, "allow"},
		"zero allows":                        {`{"rule": 0.0}`, "allow"},
		"a bare exclamation mark allows":     {`rule: !`, "allow"},
		"an exclamation mark denies":         {`rule: "!"`, "deny"},
		"blanks deny":                        {`rule: "  "`, "deny"},
		"an empty list in a list denies":     {`rule: [[]]`, "deny"},
		"a mapping of a check":               {`rule: {"role:admin": no}`, "allow"},
		"two words deny":                     {`rule: "@ @"`, "deny"},
		"a parenthesis too many":             {`rule: "@)"`, "deny"},
		"a parenthesis too few":              {`rule: "(@"`, "deny"},
		"a word in a parenthesis":            {`rule: "(@ @)"`, "deny"},
		"an operator at the end":             {`rule: "@ or"`, "deny"},
		"an operator in front":               {`rule: "and @"`, "deny"},
		"an operator in a parenthesis":       {`rule: "@ and (or)"`, "deny"},
		"not at the end":                     {`rule: "@ or not"`, "deny"},
		"a text in quotes":                   {`rule: "@ or 'x'"`, "deny"},
		"and binds before or":                {`rule: "@ or @ and !"`, "allow"},
		"not binds before and":               {`rule: "not ! and !"`, "deny"},
		"not binds a parenthesis":            {`rule: "NOT (! Or !)"`, "allow"},
		"an odd white space":                 {"rule: \"@\\x1cand\\u2003@\"", "allow"},
		"a word is false":                    {`rule: "foo or @"`, "allow"},
		"not a word is true":                 {`rule: "not foo"`, "allow"},
		"the last odd white space":           {"rule: \"@\\x1fand\\x1f@\"", "allow"},
		"empty quotes":                       {`rule: "@ or ''"`, "deny"},
		"an empty text in a list":            {`rule: ["", "role:admin"]`, "allow"},
		"not denies a check that matches":    {`rule: "not role:admin"`, "deny"},
		"the start of a document":            {"---\nrule: \"@\"", "allow"},
		"in braces":                          {"{rule: \"@\", other: role:a}\n# end", "allow"},
		"a lone word raises":                 {`rule: and`, `error: the rule is the lone word "and", which raises an exception`},
		"a list is or":                       {`rule: ["role:nobody", "role:admin"]`, "allow"},
		"a list in it is and":                {`rule: [["role:nobody", "role:admin"]]`, "deny"},
		"a number in it is false":            {`{"rule": [["role:admin", 5]]}`, "deny"},
		"no operators in it":                 {`rule: ["role:admin or @"]`, "deny"},
		"roles ignore case":                  {`rule: "role:%(role)s"`, "allow"},
		"roles ignore case beyond ASCII":     {`rule: "role:İ"`, "allow"},
		"a role of nothing":                  {`rule: "role:%(nope)s"`, "deny"},
		"a role that cannot be filled in":    {`rule: "role:%(role)d"`, "error: %(role)d needs a number; write %(role)s"},
		"a rule":                             {"rule: rule:a\na: \"@\"", "allow"},
		"a rule twice":                       {"rule: rule:a and rule:a\na: \"@\"", "allow"},
		"a rule that does not exist":         {`rule: "rule:a"`, "deny"},
		"the default":                        {"rule: rule:a\ndefault: \"@\"", "allow"},
		"a circle":                           {"rule: rule:a\na: rule:b\nb: rule:a", "error: the rules a -> b -> a refer to each other in a circle"},
		"a circle that is not evaluated":     {"rule: rule:a\na: \"@ or rule:a\"", "allow"},
		"another host":                       {`rule: "http://h/%(user_id)s"`, `error: "http://h/%(user_id)s" sends a request to another host, which is not supported here`},
		"another host, without an attribute": {`rule: "https://h/%(nope)s"`, "error: the target has no such attribute"},
		"another host, through a rule":       {"rule: not rule:a\na: https://h/%(nope)s", "allow"},
		"a path":                             {`rule: "token.user.id:%(user_id)s"`, "allow"},
		"a path that does not exist":         {`rule: "token.project.id:x"`, "deny"},
		"a path through a list":              {`rule: "token.roles.name:b"`, "allow"},
		"a path through a text":              {`rule: "user_id.x:y"`, `error: "x" is looked for in 'u1', which has no fields`},
		"a path through null":                {`rule: "domain_id.x:y"`, `error: "x" is looked for in None, which has no fields`},
		"a list in a list":                   {`rule: "list:['y']"`, "allow"},
		"an empty list":                      {`rule: "empty:x"`, "deny"},
		"a hyphen":                           {`rule: "project-id:p"`, "allow"},
		"a number in the credentials":        {`rule: "num:%(num)d and big:12 and ratio:1.5"`, "allow"},
		"quotes are compared":                {`rule: "user_id:'u1'"`, "deny"},
		"a literal":                          {`rule: "'ADMIN':%(role)s and None:%(null)s and True:%(flag)s and 1:1"`, "allow"},
		"a list as text":                     {`rule: "'x':%(list)s"`, "deny"},
		"a wide number":                      {`rule: "7:%(wide)s and 8:%(huge)i and 1:%(flag)d"`, "allow"},
		"padding":                            {`rule: "'':%(user_id).0s and 'u':%(user_id).1s and u1:%(user_id)-4s"`, "deny"},
		"a text that is cut":                 {`rule: "'':%(user_id).0s and 'u':%(user_id).1s and 'u1':%(user_id).2s and 'u1':%(user_id).3s"`, "allow"},
		"as wide as the text":                {`rule: "'u1':%(user_id)2s"`, "allow"},
		"as much padding as is read":         {`rule: "'u1':%(user_id).1000s and not a:%(user_id)1000s"`, "allow"},
		"a number with a width of 0":         {`rule: "a:%(num).0d"`, "error: %(num)d with a width is not evaluated here; write %(num)s"},
		"too much padding":                   {`rule: "a:%(user_id)99999999999999999999s"`, `error: "%(user_id)99999999999999999999s" cannot be filled in: it asks for more than 1000 characters`},
		"padding of a number":                {`rule: "a:%(num)03d"`, "error: %(num)d with a width is not evaluated here; write %(num)s"},
		"a percent sign before a text":       {`rule: "'%x':%%x and '%x':%(user_id)%x"`, "allow"},
		"a percent sign":                     {`rule: "'%':%% and '%':%(user_id)%"`, "allow"},
		"the whole target":                   {`rule: "a:%s"`, `error: "%s" writes the whole target, which is not evaluated here; name an attribute`},
		"a name that is not closed":          {`rule: "a:%(user_id"`, `error: "%(user_id" cannot be filled in: the name is not closed`},
		"no letter":                          {`rule: "a:%(user_id)l"`, `error: "%(user_id)l" cannot be filled in: it ends before the letter that says how to write the attribute, such as s`},
		"a wrong letter":                     {`rule: "a:%(user_id)q"`, `error: "%(user_id)q" cannot be filled in: 'q' is not a conversion of an attribute; use s`},
		"an empty kind":                      {`rule: "1a:x"`, `error: "1a" before the colon is neither a name nor a literal of Python`},
		"repr":                               {`rule: "'x':%(odd)r or 'x':%(map)s"`, "deny"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := enforce(t, tc.file, target, credentials); got != tc.want {
				t.Errorf("Enforce() = %q, want %q", got, tc.want)
			}
		})
	}
	for want, credentials := range map[string]map[string]any{
		"deny": {}, "error: the roles of the credentials are not a list": {"roles": "admin"},
		"error: the credentials hold the role 5, which is not a string": {"roles": []any{5}},
	} {
		if got := enforce(t, "rule: role:admin", nil, credentials); got != want {
			t.Errorf("Enforce() with %v = %q, want %q", credentials, got, want)
		}
	}
}

func TestEvaluationIsLimited(t *testing.T) {
	var chain, fan, nots, ands, ors strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&chain, "r%d: rule:r%d\n", i, i+1)
		fmt.Fprintf(&fan, "r%d: rule:r%d or rule:r%d\n", i%100, i%100+1, i%100+1)
		if i < 300 { // few enough checks
			fmt.Fprintf(&nots, "r%d: not rule:r%d\n", i, i+1)
			fmt.Fprintf(&ands, "r%d: rule:r%d and @\n", i, i+1)
			fmt.Fprintf(&ors, "r%d: rule:r%d or @\n", i, i+1)
		}
	}
	const tooMuch = "error: the rule takes more than 2000 checks or is nested more than 200 deep"
	for name, tc := range map[string]struct{ file, want string }{
		"a long chain":               {"rule: rule:r0\n" + chain.String(), tooMuch},
		"a long chain of not":        {"rule: rule:r0\n" + nots.String(), tooMuch},
		"a long chain of and":        {"rule: rule:r0\n" + ands.String(), tooMuch},
		"a long chain of or":         {"rule: rule:r0\n" + ors.String(), tooMuch},
		"twice a hundred times":      {"rule: rule:r0\n" + fan.String(), "deny"},
		"as many checks as are made": {"rule: \"" + strings.Repeat("! or ", maxChecks-2) + "@\"", "allow"},
		"one check more":             {"rule: \"" + strings.Repeat("! or ", maxChecks-1) + "@\"", tooMuch},
		"many checks":                {"rule: \"" + strings.Repeat("! or ", 12000) + "@\"", tooMuch},
	} {
		t.Run(name, func(t *testing.T) {
			if got := enforce(t, tc.file, nil, nil); got != tc.want {
				t.Errorf("Enforce() = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestChecks tests the list form, whose elements that are no checks are false and do not end the list, and rules that are a single word:
// oslo.policy removes the quotes of a text, and keeps the word instead of a check.
func TestChecks(t *testing.T) {
	for value, want := range map[string]string{
		`["role:a", "role:b"]`: "(role:a or role:b)", `[["role:a", "role:b"]]`: "(role:a and role:b)", `[["role:a"], [], ["@"]]`: "(role:a or @)",
		`[["role:a", 5, "role:b"]]`: "(role:a and ! and role:b)", `[[null, "role:b"], "@"]`: "((! and role:b) or @)", `["", "role:b"]`: "role:b",
		`[["not role:a"]]`: "not role:a", `{"role:a": 1, "role:b": 2}`: "(role:a or role:b)", `[[]]`: "!",
		`"(role:a and role:b) and role:c"`: "(role:a and role:b and role:c)", `"'x'"`: "x", `"\"y\""`: "y", `"''"`: "", `"and"`: "and", `"("`: "(",
	} {
		file, err := Read("policy.json", []byte(`{"rule": `+value+"}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := file.Checks()["rule"]; got != want {
			t.Errorf("%s means %q, want %q", value, got, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		caller Caller
		want   map[string]any // of the token
	}{
		"for a project": {
			caller: Caller{User: "u", UserDomain: "d", Project: "p", ProjectDomain: "e"},
			want:   map[string]any{"project": map[string]any{"id": "p", "name": "p", "domain": map[string]any{"id": "e", "name": "e"}}},
		},
		"for a domain":     {caller: Caller{User: "u", UserDomain: "d", Domain: "f"}, want: map[string]any{"domain": map[string]any{"id": "f", "name": "f"}}},
		"for the system":   {caller: Caller{User: "u", UserDomain: "d", System: true}, want: map[string]any{"system": map[string]any{"all": true}}},
		"without anything": {caller: Caller{User: "u", UserDomain: "d"}, want: map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := tc.caller.Credentials()["token"].(map[string]any)
			tc.want["user"] = map[string]any{"id": "u", "name": "u", "domain": map[string]any{"id": "d", "name": "d"}}
			tc.want["roles"], tc.want["methods"] = []any{}, []any{"password"}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("token (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlatten(t *testing.T) {
	deepest := map[string]any{"a": "x"}
	for range maxNesting + 1 {
		deepest = map[string]any{"a": deepest}
	}
	for name, tc := range map[string]struct{ target, want map[string]any }{
		"fields beside objects": {
			target: map[string]any{"a": map[string]any{"b": 1, "c": map[string]any{"d": 2}}, "e": map[string]any{"f": 3}, "g": nil},
			want:   map[string]any{"a.b": 1, "a.c.d": 2, "e.f": 3, "g": nil},
		},
		"too deep": {
			target: deepest,
			want:   map[string]any{"a" + strings.Repeat(".a", maxNesting): map[string]any{"a": "x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Flatten(tc.target)); diff != "" {
				t.Errorf("Flatten() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	file, err := Read("policy.yaml", []byte("helper: role:nobody\n"))
	if err != nil {
		t.Fatal(err)
	}
	policy := DefaultRelease.Policy(file)
	for name, tc := range map[string]struct {
		rule       string
		attributes string
		want       string
	}{
		"fine":                          {"identity:create_user", "target.user.domain_id", ""},
		"one of two":                    {"identity:create_user", "target.user.domain_id user.domain_id", `Keystone does not fill "user.domain_id" in for identity:create_user; write "target.user.domain_id"`},
		"a slip in an attribute":        {"identity:get_project", "projct_id", `Keystone does not fill "projct_id" in for identity:get_project; write "project_id"`},
		"a helper allows any attribute": {"helper", "x", ""},
		"a typing mistake":              {"identity:list_user", "x", `there is no operation or rule "identity:list_user"; write "identity:list_users"`},
		"no such operation":             {"nothing", "x", `there is no operation or rule "nothing"`},
		"the object of a creation":      {"identity:create_user", "user.domain_id", `Keystone does not fill "user.domain_id" in for identity:create_user; write "target.user.domain_id"`},
		"nothing alike": {"identity:get_user", "tenant", `Keystone does not fill "tenant" in for identity:get_user; it fills in user_id, ` +
			`target.user.default_project_id, target.user.description, target.user.domain_id, target.user.email, target.user.enabled, target.user.federated, ` +
			`target.user.id, target.user.name, target.user.options, target.user.password_expires_at`},
		"a filter and the object":      {"identity:list_users", "filter_attr.domain_id target.domain_id", ""},
		"the body and a stored field":  {"identity:create_user", "request_body.user.name target.user.shoe_size", ""},
		"another filter":               {"identity:list_regions", "filter_attr.nothing", `Keystone does not fill "filter_attr.nothing" in for identity:list_regions; it fills in filter_attr.parent_region_id`},
		"another attribute":            {"identity:create_service", "other.domain_id", `Keystone does not fill "other.domain_id" in for identity:create_service`},
		"an object where a field is":   {"identity:list_access_rules", "target.user", `Keystone does not fill "target.user" in for identity:list_access_rules; write "target.user.id"`},
		"a body where none is needed":  {"identity:list_trusts", "request_body.user.name", ""},
		"a filter where there is none": {"identity:list_trusts", "filter_attr.domain_id", `Keystone does not fill "filter_attr.domain_id" in for identity:list_trusts`},
		"another object":               {"identity:list_trusts", "target.project.name", `Keystone does not fill "target.project.name" in for identity:list_trusts`},
		"the ID of a new object":       {"identity:create_group", "target.group.id", `Keystone does not fill "target.group.id" in for identity:create_group; it fills in target.group.description, target.group.domain_id, target.group.name`},
		"nothing at all":               {"identity:create_service", "x", `Keystone does not fill "x" in for identity:create_service`},
	} {
		t.Run(name, func(t *testing.T) {
			got, target := "", map[string]any{}
			for name := range strings.FieldsSeq(tc.attributes) {
				target[name] = "x"
			}
			if err := policy.Validate(tc.rule, target); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("Validate() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for name, tc := range map[string]struct{ file, want string }{
		"nothing":                                    {"", ""},
		"null":                                       {"null", ""},
		"an empty list":                              {"[]", ""},
		"JSON":                                       {"{\"a\": \"@\",\n\t\"b\": [[\"@\"], {\"@\": 1}], \"c\": 0, \"d\": null}", ""},
		"a list in JSON":                             {`["a"]`, "policy.yaml:1: it is a list, not rules with their names"},
		"a number in JSON":                           {"\n5", "policy.yaml:1: it is 5.0, not rules with their names"},
		"a long rule":                                {"a: " + strings.Repeat("role:admin or ", 6000) + "@", `policy.yaml:1: rule "a" cannot be read, and with it the whole file: it has more than 65536 bytes: a limit of warrantgate, not of oslo.policy`},
		"as long a rule as is read":                  {"a: role:" + strings.Repeat("x", maxRuleBytes-len("role:")), ""},
		"as many negations as are read":              {"a: \"" + strings.Repeat("not ", maxDepth) + "@\"", ""},
		"many parentheses":                           {"a: \"" + strings.Repeat("(", 300) + "@" + strings.Repeat(")", 300) + "\"", `policy.yaml:1: rule "a" cannot be read, and with it the whole file: it is nested more than 200 deep: a limit of warrantgate, not of oslo.policy`},
		"many parentheses and negations":             {"a: \"" + strings.Repeat("(not ", maxDepth/2+1) + "@" + strings.Repeat(")", maxDepth/2+1) + "\"", `policy.yaml:1: rule "a" cannot be read, and with it the whole file: it is nested more than 200 deep: a limit of warrantgate, not of oslo.policy`},
		"as many of both as are read":                {"a: \"" + strings.Repeat("(not ", maxDepth/2) + "@" + strings.Repeat(")", maxDepth/2) + "\"", ""},
		"many negations":                             {"a: \"" + strings.Repeat("not ", 300) + "@\"", `policy.yaml:1: rule "a" cannot be read, and with it the whole file: it is nested more than 200 deep: a limit of warrantgate, not of oslo.policy`},
		"negations astray":                           {"a: \"role:a " + strings.Repeat("not ", 300) + "@\"", `policy.yaml:1: rule "a" cannot be read, and with it the whole file: it is nested more than 200 deep: a limit of warrantgate, not of oslo.policy`},
		"an at sign":                                 {"a: @", "policy.yaml: it cannot be read: yaml: found character that cannot start any token; put each name and each check in quotes"},
		"a rule beside the start":                    {"--- a: b", "policy.yaml: it cannot be read: yaml: mapping values are not allowed in this context; put each name and each check in quotes"},
		"braces, and more on the line":               {"{a: b} c", "policy.yaml: it cannot be read: yaml: did not find expected <document start>; put each name and each check in quotes"},
		"braces, and more after them":                {"{a: b}\nc: d", "policy.yaml: it cannot be read: yaml: line 1: did not find expected <document start>; put each name and each check in quotes"},
		"a comment without a space":                  {"a: \"b\"#c", ""},
		"a comment after a text":                     {"a: \"b\" #c", ""},
		"a comment at the start":                     {"#c\na: b", ""},
		"braces that do not close":                   {"{a: b", "policy.yaml: it cannot be read: yaml: line 1: did not find expected ',' or '}'; put each name and each check in quotes"},
		"a control character":                        {"a: b\nb: \x01", "policy.yaml:2: it contains the control character U+0001; remove it"},
		"the last control character of ASCII":        {"a: \x7f", "policy.yaml:1: it contains the control character U+007F; remove it"},
		"the last control character":                 {"a: \u009f", "policy.yaml:1: it contains the control character U+009F; remove it"},
		"characters next to those that are rejected": {"\"a ~\": \"\u00a0\ufffd\U0001f600\"", ""},
		"no character":                               {"a: \ufffe", "policy.yaml:1: it contains the control character U+FFFE; remove it"},
		"no character either":                        {"a: \uffff", "policy.yaml:1: it contains the control character U+FFFF; remove it"},
		"half of a line end":                         {"a: b\rc: d", "policy.yaml:1: it contains a carriage return without a line feed; remove it"},
		"line ends of Windows":                       {"a: b\r\nc: d\r\n", ""},
		"a byte order mark":                          {"\ufeffa: b", ""},
		"a byte order mark before JSON":              {"\ufeff{\"a\": \"b:c\"}", ""},
		"a byte order mark elsewhere":                {"a: b\nc: \ufeffd", "policy.yaml:2: it contains a byte order mark that is not at its beginning; remove it"},
		"two byte order marks":                       {"\ufeff\ufeffa: b", "policy.yaml:1: it contains a byte order mark that is not at its beginning; remove it"},
		"compressed with gzip":                       {"\x1f\x8b\x08" + strings.Repeat("x", MaxFileBytes), "policy.yaml: it is compressed with gzip, so that Keystone cannot read it"},
		"UTF-16":                                     {"\xff\xfea\x00:\x00", "policy.yaml:1: it is not UTF-8, so that Keystone cannot read it"},
		"Latin-1":                                    {"a: b\n# caf\xe9\nc: d", "policy.yaml:2: it is not UTF-8, so that Keystone cannot read it"},
		"a line separator":                           {"a: b\u0085c: d", "policy.yaml:1: it contains the line separator U+0085; remove it"},
		"a line separator of Unicode":                {"a: b\u2028c: d", "policy.yaml:1: it contains the line separator U+2028; remove it"},
		"a paragraph separator":                      {"a: b\u2029c: d", "policy.yaml:1: it contains the line separator U+2029; remove it"},
		"a tab":                                      {"b: c\na:\tb", "policy.yaml:2: there is a tab, which YAML allows in few places only; use spaces"},
		"a number":                                   {"x: y\na: 5", `policy.yaml:2: "5" may be a number or a date to YAML; put it in quotes`},
		"true":                                       {"a: yes", `policy.yaml:1: rule "a" cannot be read, and with it the whole file: true is neither a text nor a list`},
		"a date":                                     {"a: 2020-01-01", `policy.yaml:1: "2020-01-01" may be a number or a date to YAML; put it in quotes`},
		"a number in a list":                         {"a: [5]", `policy.yaml:1: "5" may be a number or a date to YAML; put it in quotes`},
		"a number in JSON as rule":                   {"{\n\"a\": 1e300}", `policy.yaml:2: rule "a" cannot be read, and with it the whole file: 1e+300 is neither a text nor a list`},
		"a merge":                                    {"a: <<", "policy.yaml:1: \"<<\" may have a special meaning in YAML; put it in quotes"},
		"a merge in a mapping":                       {"a: {<<: x}", "policy.yaml:1: \"<<\" may have a special meaning in YAML; put it in quotes"},
		"deep JSON":                                  {`{"a": ` + deep + "}", "policy.yaml:1: it is nested too deeply or has too many values: a limit of warrantgate, not of oslo.policy"},
		"deep JSON in a mapping":                     {`{"a": {"b": ` + deep + "}}", "policy.yaml:1: it is nested too deeply or has too many values: a limit of warrantgate, not of oslo.policy"},
		"as large as is read":                        {strings.Repeat("#", MaxFileBytes), ""},
		"as deep JSON as is read":                    {`{"a": {"b": ` + strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting) + "}}", ""},
		"deeper JSON":                                {`{"a": {"b": ` + strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1) + "}}", "policy.yaml:1: it is nested too deeply or has too many values: a limit of warrantgate, not of oslo.policy"},
		"as many nodes in JSON as are read":          {`{"a": [` + strings.Repeat("0,", maxNodes-2) + "0]}", ""},
		"one node more in JSON":                      {`{"a": [` + strings.Repeat("0,", maxNodes-1) + "0]}", "policy.yaml:1: it is nested too deeply or has too many values: a limit of warrantgate, not of oslo.policy"},
		"as many nodes as are read":                  {"a: [" + strings.Repeat("x,", maxNodes-1) + "]", ""},
		"one node more":                              {"a: [" + strings.Repeat("x,", maxNodes) + "]", "policy.yaml:1: it is nested too deeply or has too many values: a limit of warrantgate, not of oslo.policy"},
		"large":                                      {strings.Repeat("#", MaxFileBytes+1), "policy.yaml: it has more than 262144 bytes: a limit of warrantgate, not of oslo.policy"},
		"the end of a document":                      {"a: b\n...\n", ""},
		"a name that is not a text":                  {"off: \"@\"", ""},
		"a value that is not a rule":                 {"off: yes", `policy.yaml:1: rule "false" cannot be read, and with it the whole file: true is neither a text nor a list`},
		"a list of a list of a list":                 {"a: [[[role:a]]]", ""},
		"a bad rule in a JSON object":                {`{"a": [true]}`, `policy.yaml:1: rule "a" cannot be read, and with it the whole file: true in a list is neither a text nor a list`},
		"halves of a character in JSON":              {`{"a": "role:\ud800"}`, `policy.yaml:1: it contains surrogate pairs, such as \ud83d\ude00; write the characters themselves`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if _, err := ReadAll([]Source{{Name: "policy.yaml", Data: []byte(tc.file)}}); err != nil {
				got = err.Error()
				if failed, ok := errors.AsType[*FileError](err); !ok || errors.Unwrap(failed) == nil {
					t.Errorf("Read() = %T, want a *FileError with a cause", err)
				}
			}
			if got != tc.want {
				t.Errorf("Read() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClassifyKind(t *testing.T) {
	for kind, want := range map[string]struct {
		class   kindClass
		literal string
	}{
		"True": {kindLiteral, "True"}, "None": {kindLiteral, "None"}, "'a'": {kindLiteral, "a"}, `"a'b"`: {kindLiteral, "a'b"}, `'a\'b'`: {kindLiteral, "a'b"},
		"u'a'": {kindLiteral, "a"}, "''": {kindLiteral, ""}, "0": {kindLiteral, "0"}, "-00": {kindLiteral, "0"}, "+7": {kindLiteral, "7"}, "1_0": {kindLiteral, "10"},
		"0x1F": {kindLiteral, "31"}, "0b11": {kindLiteral, "3"}, "1.0": {kindLiteral, "1.0"}, "1e16": {kindLiteral, "1e+16"}, "-.5e-9": {kindLiteral, "-5e-10"},
		"user_id": {kindPath, ""}, "token.user.id": {kindPath, ""}, "a-b": {kindPath, ""}, "None.x": {kindPath, ""}, "1-2": {kindPath, ""}, "not a": {kindPath, ""}, "ü": {kindPath, ""},
		"": {kindRaises, ""}, "1a": {kindRaises, ""}, "class": {kindRaises, ""}, "a.None": {kindRaises, ""}, "a..b": {kindRaises, ""}, "01": {kindRaises, ""}, "'a": {kindRaises, ""},
		`'\n'`: {kindRaises, ""}, "'a'b'": {kindRaises, ""}, `'\`: {kindRaises, ""}, "$a": {kindRaises, ""}, "a-": {kindRaises, ""}, ".": {kindRaises, ""}, `'a\'`: {kindRaises, ""},
		"1." + strings.Repeat("0", 98): {kindLiteral, "1.0"}, "1." + strings.Repeat("0", 99): {kindRaises, ""},
		strings.Repeat("1", 101): {kindRaises, ""}, "0xFFFFFFFFFFFFFFFFF": {kindRaises, ""}, "1e999": {kindRaises, ""},
	} {
		t.Run(kind, func(t *testing.T) {
			class, literal := classifyKind(kind)
			if class != want.class || literal != want.literal {
				t.Errorf("classifyKind() = %d, %q, want %d, %q", class, literal, want.class, want.literal)
			}
		})
	}
}

func TestPythonRepr(t *testing.T) {
	for want, value := range map[string]any{
		"None": nil, "True": true, "False": false, "5": 5, "-5": int64(-5), "6": uint64(6), "1.0": 1.0, "0.0001": 0.0001, "1e-05": 0.00001, "inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(), "12": json.Number("12"),
		"1.5": json.Number("1.50"), "'a'": "a", `"it's"`: "it's", `'"\''`: `"'`, `'\n\r\t\\\x01\x85\u200b\U000e0001'`: "\n\r\t\\\x01\u0085\u200b\U000e0001",
		"['a', None]": []any{"a", nil}, "{'a': 1, 'b': {}}": map[string]any{"b": map[string]any{}, "a": 1}, "{1}": struct{ int }{1},
	} {
		if got := pythonRepr(value); got != want {
			t.Errorf("pythonRepr(%v) = %s, want %s", value, got, want)
		}
	}
}
