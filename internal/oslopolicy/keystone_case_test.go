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

func TestCaseAsk(t *testing.T) {
	file, err := Read("policy.yaml", []byte("identity:create_user: \"role:manager and token.domain.id:%(target.user.domain_id)s\"\nidentity:delete_user: and\n"))
	if err != nil {
		t.Fatal(err)
	}
	policy := NewKeystonePolicy(file)
	const manager = "role=manager,domain=acme"
	for name, tc := range map[string]struct {
		asked   Case
		want    string
		wantErr string
	}{
		"its own domain": {asked: Case{As: manager, Can: "identity:create_user", Target: map[string]any{"target.user.domain_id": "acme"}}, want: AnswerPass},
		"its own domain, as objects": {
			asked: Case{As: manager, Can: "identity:create_user", Target: map[string]any{"target": map[string]any{"user": map[string]any{"domain_id": "acme"}}}},
			want:  AnswerPass,
		},
		"another domain": {asked: Case{As: manager, Can: "identity:create_user", Target: map[string]any{"target.user.domain_id": "other"}}, want: AnswerDeny},
		"a mistake in as": {
			asked:   Case{As: "manager", Can: "identity:create_user"},
			wantErr: `as: "manager" must be key=value`,
		},
		"an operation that does not exist": {
			asked:   Case{Can: "identity:create_usr"},
			wantErr: `there is no operation or rule "identity:create_usr"; write "identity:create_user"`,
		},
		"a rule that raises an exception": {
			asked:   Case{As: "role=admin", Can: "identity:delete_user"},
			wantErr: `identity:delete_user ends with an error and is not allowed: the rule is the lone word "and", which raises an exception`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.asked.Ask(policy)
			if gotErr := ""; err != nil || tc.wantErr != "" {
				if err != nil {
					gotErr = err.Error()
				}
				if gotErr != tc.wantErr {
					t.Fatalf("Ask() error = %v, want %s", err, tc.wantErr)
				}
			}
			if got != tc.want {
				t.Errorf("Ask() = %q, want %q", got, tc.want)
			}
		})
	}
}
