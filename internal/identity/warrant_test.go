package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/identity"
)

func TestParseWarrant(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want string
	}{
		"a user":   {raw: `{"user":"bob"}`},
		"a group":  {raw: `{"groups":["team-a"]}`},
		"both":     {raw: `{"user":"bob","groups":["team-a"]}`},
		"no name":  {raw: `{"uid":"1"}`, want: "it names neither a user nor a group"},
		"no group": {raw: `{"groups":[]}`, want: "it names neither a user nor a group"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if _, err := identity.ParseWarrant(tc.raw); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ParseWarrant() error (-want +got):\n%s", diff)
			}
		})
	}
}
