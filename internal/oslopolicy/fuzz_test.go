package oslopolicy

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzPolicy parses, evaluates and lints any input. It must not panic or take long.
func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{
		"rule: \"role:admin and (user_id:%(user_id)s or not rule:b)\"\nb: \"@\"", "rule: [[role:a, role:b], [[x]]]", `{"rule": "a:%(b)s", "b": null}`,
		"rule: rule:b\nb: rule:rule", "rule: !", "rule: off\noff: x", "rule: \"1a:x or %(x:y or 'a':%(user_id)5.3s\"", "identity:create_user: \"domain_id:%(user.domain_id)s\"",
		"identity:create_grant: role:manager", "default: \"@\"\nadmin_required: role:member", "rule: &x [*x]", "rule: \"((((not not and or\"", "rule: http://h/%(x)s",
		"rule: \"x:%(user_id)999s%%%s%(a(b)c)d\"", "identity:list_users: {role: admin}", "rule: \"b\u0430:x\"",
	} {
		f.Add([]byte(seed))
	}
	credentials := Caller{User: "u", UserDomain: "d", Roles: []string{"manager"}, Domain: "d"}.Credentials()
	target := map[string]any{"user_id": "u", "target.user.domain_id": "d", "b": []any{"x", nil}, "": 5}
	f.Fuzz(func(t *testing.T, data []byte) {
		findings, err := LintKeystone(t.Context(), []Source{{Name: "fuzz", Data: data}}, LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		file, err := Read("fuzz", data)
		if err != nil {
			if len(findings) != 1 || findings[0].Code != CodeFile {
				t.Errorf("a file that cannot be read has the findings %v", findings)
			}
			return
		}
		policy := DefaultRelease.Policy(file)
		for _, r := range file.rules {
			passed, err := policy.Enforce(r.name, target, credentials)
			if passed && err != nil {
				t.Errorf("rule %q passes with the error %v", r.name, err)
			}
		}
	})
}

// FuzzRead reads any input. A parsed file has at most one rule for each line and comma, and the same rules in JSON have the same result.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"# why\n---\n\"a\": \"role:b\" # c\n'd' : 'it''s'\ne: |-\n  role:f\n  or role:g\nh:\n- role:i\n- [role:j, \"k\"]\n", "a: >\n  b\n\n   c\n  d\n",
		"{\"a\": [b, {c: d}], 'e': \"f\\\n  g\\u00e9\",\n}", "a: b\n  c\n\n  d # e\nf:\n", "a:\tb", "a: \"b\n  c\"\r\nd: !", "a:\n  - - - b\n    - c\n", "a: [[[[[", "a: |+\n  b\n\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read("fuzz", data)
		if err != nil {
			return
		}
		if rules := len(file.rules) + len(file.unnamed); rules > bytes.Count(data, []byte("\n"))+bytes.Count(data, []byte(","))+1 {
			t.Errorf("%d rules in %q", rules, data)
		}
		values := map[string]any{}
		for _, r := range file.rules { // the last rule of a name counts
			delete(values, r.name)
			if _, ok := r.value.(string); ok {
				values[r.name] = r.value
			}
		}
		document, err := json.Marshal(values)
		if err != nil || surrogate.Match(document) || len(document) > MaxFileBytes {
			return
		}
		again, err := Read("fuzz", document)
		if err != nil {
			t.Fatalf("the same as JSON: %v", err)
		}
		for name, check := range again.Checks() {
			if want := file.Checks()[name]; check != want {
				t.Errorf("rule %q is %s, and as JSON %s", name, want, check)
			}
		}
	})
}
