package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/identity"
)

func TestPrincipalPatternMatches(t *testing.T) {
	operator := identity.Principal{ID: "6e2f", Name: "Admin/zrh", DomainID: "default", DomainName: "Default"}
	for name, tc := range map[string]struct {
		pattern identity.PrincipalPattern
		want    bool
	}{
		"nothing":                       {},
		"the ID":                        {pattern: identity.PrincipalPattern{ID: "6e2f"}, want: true},
		"the ID in another case":        {pattern: identity.PrincipalPattern{ID: "6E2F"}},
		"the ID as a pattern":           {pattern: identity.PrincipalPattern{ID: "*"}},
		"the name":                      {pattern: identity.PrincipalPattern{Name: "Admin/zrh"}, want: true},
		"the name in another case":      {pattern: identity.PrincipalPattern{Name: "aDMIN/ZRH"}, want: true},
		"a pattern of the name":         {pattern: identity.PrincipalPattern{Name: "adm*"}, want: true},
		"a pattern with a slash":        {pattern: identity.PrincipalPattern{Name: "admin/*"}, want: true},
		"a pattern with one character":  {pattern: identity.PrincipalPattern{Name: "admin?zrh"}, want: true},
		"a pattern with a range":        {pattern: identity.PrincipalPattern{Name: "[a-b]dmin/zrh"}, want: true},
		"a part of the name":            {pattern: identity.PrincipalPattern{Name: "admin"}},
		"an invalid pattern":            {pattern: identity.PrincipalPattern{Name: "[a"}, want: true},
		"another name":                  {pattern: identity.PrincipalPattern{Name: "alice"}},
		"the ID and another name":       {pattern: identity.PrincipalPattern{ID: "6e2f", Name: "alice"}},
		"the name and another ID":       {pattern: identity.PrincipalPattern{ID: "6e", Name: "admin*"}},
		"the domain":                    {pattern: identity.PrincipalPattern{Domain: "Default"}, want: true},
		"the domain's ID":               {pattern: identity.PrincipalPattern{Domain: "default"}, want: true},
		"a pattern of the domain":       {pattern: identity.PrincipalPattern{Domain: "def*"}, want: true},
		"the name in another domain":    {pattern: identity.PrincipalPattern{Name: "admin*", Domain: "tenants"}},
		"another name in the domain":    {pattern: identity.PrincipalPattern{Name: "alice", Domain: "default"}},
		"the name in the domain":        {pattern: identity.PrincipalPattern{Name: "admin*", Domain: "default"}, want: true},
		"the name in the domain, by ID": {pattern: identity.PrincipalPattern{ID: "6e2f", Domain: "default"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.pattern.Matches(operator); got != tc.want {
				t.Errorf("Matches() = %t, want %t", got, tc.want)
			}
			users, projects := identity.Operators{Users: []identity.PrincipalPattern{{ID: "x"}, tc.pattern}}, identity.Operators{Projects: []identity.PrincipalPattern{tc.pattern}}
			want := [4]bool{tc.want, false, false, tc.want}
			got := [4]bool{users.IncludeUser(operator), users.IncludeProject(operator), projects.IncludeUser(operator), projects.IncludeProject(operator)}
			if got != want {
				t.Errorf("Include… = %v, want %v", got, want)
			}
		})
	}
	if (identity.PrincipalPattern{ID: "", Name: ""}).Matches(identity.Principal{}) {
		t.Error("the zero value matches")
	}
}

func TestOperatorsValidate(t *testing.T) {
	operators := identity.Operators{
		Users:    []identity.PrincipalPattern{{ID: "6e2f"}, {Name: "[a"}, {}},
		Projects: []identity.PrincipalPattern{{Name: "a[", Domain: "[z-"}},
	}
	const mistake = `must be a pattern of path.Match, such as "team-*"`
	at := field.NewPath("operators")
	want := field.ErrorList{
		field.Invalid(at.Child("users").Index(1).Child("name"), "[a", mistake),
		field.Required(at.Child("users").Index(2), "id, name or domain"),
		field.Invalid(at.Child("projects").Index(0).Child("name"), "a[", mistake),
		field.Invalid(at.Child("projects").Index(0).Child("domain"), "[z-", mistake),
	}
	if diff := cmp.Diff(want.ToAggregate().Error(), operators.Validate(at).ToAggregate().Error()); diff != "" {
		t.Errorf("Validate() (-want +got):\n%s", diff)
	}
}
