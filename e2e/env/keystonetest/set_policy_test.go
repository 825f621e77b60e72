//go:build e2e

package keystonetest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"

	"warrantgate.dev/e2e/env/keystonetest"
)

const noRoles = `identity:list_roles: "!"`

// mayListRoles sends a request as the administrator. Only the policy can deny it.
func mayListRoles(t *testing.T, k *keystonetest.Keystone) bool {
	t.Helper()
	_, err := roles.List(k.Admin(), roles.ListOpts{}).AllPages(t.Context())
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Fatal(err)
	}
	return err == nil
}

func startsWithPolicy(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	if mayListRoles(t, k) {
		t.Error("the initial policy of Keystone is not active")
	}
}

// takesPolicy changes the policy more often than the modification time of some file systems changes.
func takesPolicy(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	for i := range 10 {
		for want, policy := range map[bool]string{true: "", false: noRoles} {
			if err := k.SetPolicy(t.Context(), []byte(policy)); err != nil {
				t.Fatal(err)
			}
			if got := mayListRoles(t, k); got != want {
				t.Fatalf("round %d: the administrator may list roles: %t, want %t", i, got, want)
			}
		}
	}
}

// loadsDirectory checks the order: the files of policy.d are loaded after the policy file, and the last one has precedence.
func loadsDirectory(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	const allRoles = `identity:list_roles: "@"`
	for _, tc := range []struct {
		policy    string
		directory []string
		want      bool
	}{
		{policy: noRoles, directory: []string{allRoles}, want: true},
		{policy: allRoles, directory: []string{noRoles}},
		{policy: allRoles, directory: []string{noRoles, allRoles}, want: true},
		{policy: noRoles},
		{directory: []string{noRoles}},
		{want: true},
	} {
		var directory [][]byte
		for _, file := range tc.directory {
			directory = append(directory, []byte(file))
		}
		if err := k.SetPolicy(t.Context(), []byte(tc.policy), directory...); err != nil {
			t.Fatal(err)
		}
		if got := mayListRoles(t, k); got != tc.want {
			t.Errorf("with %+v the administrator may list roles: %t, want %t", tc, got, tc.want)
		}
	}
}

func reportsInvalidPolicy(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	for _, policy := range []string{"- identity:list_roles", "identity:list_roles: 1", "a: [", "a: b\n c: d\n"} {
		err := k.SetPolicy(t.Context(), []byte(policy))
		if err == nil || !strings.Contains(err.Error(), "Keystone cannot load the policy") {
			t.Errorf("SetPolicy(%q) error = %v", policy, err)
		}
	}
	if err := k.SetPolicy(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if !mayListRoles(t, k) {
		t.Error("the policy after those that cannot be loaded is not active")
	}
}
