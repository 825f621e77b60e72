package identity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	kjson "sigs.k8s.io/json"

	"warrantgate.dev/internal/identity"
)

func TestParseOwnerLimitsTheSize(t *testing.T) {
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

// TestParseOwnerIsStrict shows why other decoders cannot read owners: each accepts an owner that another reader can take for another user.
func TestParseOwnerIsStrict(t *testing.T) {
	type rejects struct{ ParseOwner, UnmarshalStrict, EncodingJSON bool }
	for name, tc := range map[string]struct {
		raw  string
		want rejects
	}{
		"a plain owner":                 {raw: `{"username":"alice","extra":{"a":["b"]}}`},
		"a repeated field":              {raw: `{"username":"alice","username":"bob"}`, want: rejects{ParseOwner: true, UnmarshalStrict: true}},
		"a repeated extra field":        {raw: `{"username":"alice","extra":{"a":["b"],"a":["c"]}}`, want: rejects{ParseOwner: true, UnmarshalStrict: true}},
		"a field in other case":         {raw: `{"username":"alice","Username":"bob"}`, want: rejects{ParseOwner: true, UnmarshalStrict: true}},
		"an unknown field":              {raw: `{"username":"alice","user":"bob"}`, want: rejects{ParseOwner: true, UnmarshalStrict: true}},
		"another value after the owner": {raw: `{"username":"alice"}{"username":"bob"}`, want: rejects{true, true, true}},
		"text that is not UTF-8":        {raw: "{\"username\":\"alice\xff\"}", want: rejects{ParseOwner: true}},
		"a surrogate without a pair":    {raw: `{"username":"alice\ud800"}`, want: rejects{ParseOwner: true}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := identity.ParseOwner(tc.raw)
			strict, strictErr := kjson.UnmarshalStrict([]byte(tc.raw), &identity.Owner{})
			got := rejects{
				ParseOwner: err != nil, UnmarshalStrict: strictErr != nil || len(strict) > 0,
				EncodingJSON: json.Unmarshal([]byte(tc.raw), &identity.Owner{}) != nil,
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("which decoders reject %s (-want +got):\n%s", tc.raw, diff)
			}
		})
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
		"a service account without a home":       {owner: account(""), want: true},
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

func TestServiceAccountAt(t *testing.T) {
	want := identity.Owner{
		Username: "system:serviceaccount:default:bot",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		Extra:    map[string][]string{identity.ClusterNameKey: {"home"}},
	}
	got := identity.ServiceAccountAt("home", "default", "bot")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ServiceAccountAt() (-want +got):\n%s", diff)
	}
	if !got.InScope("home") || got.InScope("elsewhere") {
		t.Errorf("it is in scope at home: %t, and elsewhere: %t", got.InScope("home"), got.InScope("elsewhere"))
	}
}
