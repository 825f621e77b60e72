package oslopolicy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The gate has two linters for all tenants. A rule that changes each operation, has the maximum size, and differs from the base only for
// tokens that are not tried, must not occupy a linter for longer than the context.
func TestHostileRulesEndWithTheContext(t *testing.T) {
	base, err := Read("base.yaml", []byte("cloud_admin: role:admin and is_admin_project:True\nadmin_required: role:admin\n"))
	if err != nil {
		t.Fatal(err)
	}
	alternatives := []string{"role:admin"}
	for i := range 19 {
		alternatives = append(alternatives, fmt.Sprintf("(role:a%d and role:b%d and role:c%d)", i, i, i))
	}
	alternatives = append(alternatives, "("+strings.Repeat("@ and ", 1700)+"!)")
	file := "admin_required: " + strings.Join(alternatives, " or ") + "\n"

	const limit, tolerance = 200 * time.Millisecond, 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	_, err = LintKeystone(ctx, []Source{{Name: "policy.yaml", Data: []byte(file)}}, LintOptions{Base: []*File{base}})
	if took := time.Since(began); took > tolerance {
		t.Errorf("it took %s, the context ended after %s; error %v", took, limit, err)
	}
}

// TestTheSearchOfUnknownValuesIsLimited: a search tries a limited number of requests, whatever number of checks it cannot evaluate. All sets of
// their values would take hours.
func TestTheSearchOfUnknownValuesIsLimited(t *testing.T) {
	var hosts []string
	for i := range 40 {
		hosts = append(hosts, fmt.Sprintf("http://host%d/", i))
	}
	file := "identity:create_user: role:admin or (" + strings.Join(hosts, " and ") + " and !)\n"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := LintKeystone(ctx, []Source{{Name: "policy.yaml", Data: []byte(file)}}, LintOptions{}); err != nil {
		t.Errorf("LintKeystone() = %v", err)
	}
}
