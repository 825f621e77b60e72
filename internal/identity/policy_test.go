package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/identity"
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
