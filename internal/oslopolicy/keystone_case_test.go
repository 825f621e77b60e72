package oslopolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCaller(t *testing.T) {
	tests := map[string]Caller{
		"":                                     {User: "caller"},
		"role=a,role=b,user=u":                 {User: "u", Roles: []string{"a", "b"}},
		"domain=d":                             {User: "caller", UserDomain: "d", Domain: "d"},
		"project=p,user-domain=d":              {User: "caller", UserDomain: "d", Project: "p", ProjectDomain: "d"},
		"project=p,project-domain=d":           {User: "caller", UserDomain: "d", Project: "p", ProjectDomain: "d"},
		"system=all,admin-project=true":        {User: "caller", System: true, AdminProject: true},
		"domain=d,user-domain=e":               {User: "caller", UserDomain: "e", Domain: "d"},
		"project=p,admin-project=false,role=r": {User: "caller", Project: "p", Roles: []string{"r"}},
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			got, err := ParseCaller(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ParseCaller() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCallerMistakes(t *testing.T) {
	const keys = " must be one of role, domain, project, system=all, user, user-domain, project-domain and admin-project=true"
	for text, want := range map[string]string{
		"role":                 `as: "role" must be key=value`,
		"role=":                `as: "role=" must be key=value`,
		"name=a":               `as: "name=a"` + keys,
		"system=some":          `as: "system=some"` + keys,
		"admin-project=1":      `as: "admin-project=1"` + keys,
		"domain=d,project=p":   `as: "domain=d,project=p" names more than one of domain, project and system; a token has one scope`,
		"project=p,system=all": `as: "project=p,system=all" names more than one of domain, project and system; a token has one scope`,
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := ParseCaller(text); err == nil || err.Error() != want {
				t.Errorf("ParseCaller() error = %v, want %s", err, want)
			}
		})
	}
}
