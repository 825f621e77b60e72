package identity_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/identity/identitytest"
)

func TestPolicyValidate(t *testing.T) {
	policy := identity.Policy{Users: []string{"team-*", "", "a[b"}, Groups: []string{"", "team-?", "[z-a]"}}
	root := field.NewPath("keepWarrants")
	const pattern = `must be a pattern of path.Match, such as "team-*"`
	want := field.ErrorList{
		field.Required(root.Child("users").Index(1), "a pattern of names"),
		field.Invalid(root.Child("users").Index(2), "a[b", pattern),
		field.Required(root.Child("groups").Index(0), "a pattern of names"),
	}
	got := policy.Validate(root)
	if diff := cmp.Diff(want.ToAggregate().Error(), got.ToAggregate().Error()); diff != "" {
		t.Errorf("Validate() (-want +got):\n%s", diff)
	}
}

func TestKeptWarrants(t *testing.T) {
	policy := identity.Policy{Groups: []string{"team-*"}}
	for name, tc := range map[string]struct {
		groups []string
		want   bool
	}{
		"all groups match":                                   {groups: []string{"team-a", "team-b"}, want: true},
		"system:authenticated need not match":                {groups: []string{"system:authenticated", "team-a"}, want: true},
		"system:authenticated alone is not sufficient":       {groups: []string{"system:authenticated"}},
		"one group does not match":                           {groups: []string{"team-a", "outsiders"}},
		"a group after system:authenticated does not match":  {groups: []string{"team-a", "system:authenticated", "outsiders"}},
		"a group after system:authenticated matches":         {groups: []string{"system:authenticated", "team-a"}, want: true},
		"there is no group, and nothing that could match it": {},
	} {
		t.Run(name, func(t *testing.T) {
			warrant := warrantJSON(identity.Warrant{User: "bob", Groups: tc.groups})
			signedIn := identity.Owner{Username: "alice", Extra: map[string][]string{"authorization.kcp.io/warrant": {warrant}}}
			rewritten, _ := identitytest.Rewrite(signedIn.String(), parent, newCluster, "", policy)
			owner, err := identity.ParseOwner(rewritten)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, slices.Contains(owner.Extra["authorization.kcp.io/warrant"], warrant)); diff != "" {
				t.Errorf("the new owner has the warrant (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolePolicyValidate(t *testing.T) {
	policy := identity.RolePolicy{Required: []string{"", "Admin", "reader"}, Allowed: []string{"member", "admin", " "}, Denied: []string{"admin", "member", "\t"}}
	root := field.NewPath("openStackRoles")
	const administrator, both = "an administrator's role is never delegated", "is among those denied as well"
	want := field.ErrorList{
		field.Required(root.Child("required").Index(0), "the name of a role"),
		field.Forbidden(root.Child("required").Index(1), administrator),
		field.Invalid(root.Child("allowed").Index(0), "member", both),
		field.Forbidden(root.Child("allowed").Index(1), administrator),
		field.Required(root.Child("allowed").Index(2), "the name of a role"),
		field.Required(root.Child("denied").Index(2), "the name of a role"),
	}
	if diff := cmp.Diff(want.ToAggregate().Error(), policy.Validate(root).ToAggregate().Error()); diff != "" {
		t.Errorf("Validate() (-want +got):\n%s", diff)
	}
}
