package identity_test

import (
	"slices"
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

// Warrants within the limits are decoded, and dropped by the policy. Warrants above the limits are dropped without decoding.
func TestRewriteLimits(t *testing.T) {
	nested := func(depth int) string {
		warrant := identity.Warrant{User: "bob"}
		for range depth - 1 {
			warrant = identity.Warrant{User: "bob", Extra: map[string][]string{identity.WarrantKey: {warrant.String()}}}
		}
		return warrant.String()
	}
	many := func(n int) []string { return slices.Repeat([]string{nested(1)}, n) }
	for name, tc := range map[string]struct {
		warrants []string
		want     identity.DropReason
	}{
		"as deep as may be":  {warrants: []string{nested(identity.MaxWarrantDepth)}, want: identity.NotDelegated},
		"one level deeper":   {warrants: []string{nested(identity.MaxWarrantDepth + 1)}, want: identity.Unreadable},
		"as many as may be":  {warrants: many(identity.MaxWarrants), want: identity.NotDelegated},
		"one more":           {warrants: many(identity.MaxWarrants + 1), want: identity.Unreadable},
		"one more by a nest": {warrants: append(many(identity.MaxWarrants-1), nested(2)), want: identity.Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			_, report := identity.Rewrite(serviceAccount(withExtra(identity.WarrantKey, tc.warrants...)).String(), parent, newCluster, "", identity.Policy{})
			for _, drop := range report.Dropped {
				if drop.Kind == identity.DroppedWarrant && drop.Reason != tc.want {
					t.Errorf("Rewrite() dropped a warrant as %s, want %s", drop.Reason, tc.want)
				}
			}
			if !slices.ContainsFunc(report.Dropped, func(drop identity.Drop) bool { return drop.Kind == identity.DroppedWarrant }) {
				t.Error("Rewrite() dropped no warrant")
			}
		})
	}
}
