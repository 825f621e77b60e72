package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"warrantgate.dev/internal/identity"
)

func TestRolePolicyCheck(t *testing.T) {
	policy := identity.RolePolicy{
		Required: []string{"load-balancer_member"}, Allowed: []string{"member", "load-balancer_member", "reader"}, Denied: []string{"cloud-support"},
	}
	for name, tc := range map[string]struct {
		policy identity.RolePolicy
		roles  []string
		want   identity.RoleReport
	}{
		"the roles that a tenant delegates":     {roles: []string{"member", "load-balancer_member"}},
		"with the role that member implies":     {roles: []string{"reader", "member", "load-balancer_member"}},
		"the required role alone":               {roles: []string{"load-balancer_member"}},
		"another case":                          {roles: []string{"Member", "LOAD-BALANCER_MEMBER"}},
		"a role twice":                          {roles: []string{"load-balancer_member", "load-balancer_member"}},
		"no role":                               {want: identity.RoleReport{Missing: []string{"load-balancer_member"}}},
		"no load balancer":                      {roles: []string{"member", "reader"}, want: identity.RoleReport{Missing: []string{"load-balancer_member"}}},
		"an administrator":                      {roles: []string{"admin", "member", "load-balancer_member"}, want: identity.RoleReport{Privileged: []string{"admin"}}},
		"an administrator in another case":      {roles: []string{"aDMIN", "load-balancer_member"}, want: identity.RoleReport{Privileged: []string{"aDMIN"}}},
		"a role that is denied by name":         {roles: []string{"Cloud-Support", "load-balancer_member"}, want: identity.RoleReport{Privileged: []string{"Cloud-Support"}}},
		"roles beyond those of a tenant":        {roles: []string{"manager", "heat_stack_owner", "load-balancer_member"}, want: identity.RoleReport{Excess: []string{"heat_stack_owner", "manager"}}},
		"a role with a trailing space":          {roles: []string{"load-balancer_member ", "member"}, want: identity.RoleReport{Excess: []string{"load-balancer_member "}, Missing: []string{"load-balancer_member"}}},
		"everything wrong at once":              {roles: []string{"admin", "manager"}, want: identity.RoleReport{Privileged: []string{"admin"}, Excess: []string{"manager"}, Missing: []string{"load-balancer_member"}}},
		"an administrator where all is allowed": {policy: identity.RolePolicy{Allowed: []string{"admin"}}, roles: []string{"admin"}, want: identity.RoleReport{Privileged: []string{"admin"}}},
		"a policy that requires nothing":        {policy: identity.RolePolicy{Allowed: []string{"member"}}, roles: []string{"member"}},
		"a required role need not be allowed":   {policy: identity.RolePolicy{Required: []string{"member"}}, roles: []string{"member"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.policy.Required == nil && tc.policy.Allowed == nil {
				tc.policy = policy
			}
			got := tc.policy.Check(tc.roles)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Check() (-want +got):\n%s", diff)
			}
			if want := cmp.Equal(tc.want, identity.RoleReport{}); got.Favorable() != want {
				t.Errorf("Favorable() = %t, want %t", got.Favorable(), want)
			}
		})
	}
}
