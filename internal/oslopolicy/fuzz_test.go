package oslopolicy

import (
	"testing"
)

// FuzzPolicy reads, asks and judges whatever may be a policy file. Nothing of that may panic or take long.
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
		findings, err := LintKeystone(t.Context(), "fuzz", data, LintOptions{})
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
		policy := NewKeystonePolicy(file)
		for _, r := range file.rules {
			passed, err := policy.Enforce(r.name, target, credentials)
			if passed && err != nil {
				t.Errorf("rule %q passes with the error %v", r.name, err)
			}
		}
	})
}
