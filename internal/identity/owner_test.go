package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/identity"
)

func TestParseOwnerBoundsTheSize(t *testing.T) {
	owner := func(size int) string {
		const around = len(`{"username":""}`)
		return fmt.Sprintf(`{"username":%q}`, strings.Repeat("a", size-around))
	}
	if _, err := identity.ParseOwner(owner(identity.MaxOwnerBytes)); err != nil {
		t.Errorf("ParseOwner() of the largest owner = %v, want no error", err)
	}
	want := fmt.Sprintf("it is larger than %d bytes", identity.MaxOwnerBytes)
	if _, err := identity.ParseOwner(owner(identity.MaxOwnerBytes + 1)); err == nil || err.Error() != want {
		t.Errorf("ParseOwner() of an owner that is one byte larger = %v, want %q", err, want)
	}
}

func TestInScope(t *testing.T) {
	const here = logicalcluster.Name("here")
	account := func(extra string) string {
		return `{"username":"system:serviceaccount:default:bot","extra":{` + extra + `}}`
	}
	home := func(clusters string) string { return `"` + identity.ClusterNameKey + `":[` + clusters + `]` }
	for name, tc := range map[string]struct {
		owner string
		want  bool
	}{
		"a user without scopes":                  {owner: `{"username":"alice"}`, want: true},
		"a service account that says no home":    {owner: account(""), want: true},
		"a service account at home":              {owner: account(home(`"here"`)), want: true},
		"a service account elsewhere":            {owner: account(home(`"there"`))},
		"a service account with two homes":       {owner: account(home(`"here","there"`))},
		"a user with a home, which is ignored":   {owner: `{"username":"alice","extra":{"` + identity.ClusterNameKey + `":["there"]}}`, want: true},
		"a user in scope here":                   {owner: `{"username":"alice","extra":{"` + identity.ScopesKey + `":["cluster:there,cluster:here"]}}`, want: true},
		"a user in scope elsewhere":              {owner: `{"username":"alice","extra":{"` + identity.ScopesKey + `":["cluster:there"]}}`},
		"a user with one scope that excludes it": {owner: `{"username":"alice","extra":{"` + identity.ScopesKey + `":["cluster:here","cluster:there"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			owner, err := identity.ParseOwner(tc.owner)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, owner.InScope(here)); diff != "" {
				t.Errorf("InScope() (-want +got):\n%s", diff)
			}
		})
	}
}
