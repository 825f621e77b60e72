package oslopolicy

import (
	"context"
	"errors"
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

// checkedContext ends after a number of checks.
type checkedContext struct {
	context.Context //nolint:containedctx // it is a context itself
	checks, most    int
}

func (c *checkedContext) Err() error {
	if c.checks++; c.checks > c.most {
		return context.DeadlineExceeded
	}
	return nil
}

// TestTheLinterChecksItsContext: one rule with thousands of alternatives or attributes takes seconds, so the linter checks its context for
// each of them. Otherwise a tenant could occupy all linters of the gate.
func TestTheLinterChecksItsContext(t *testing.T) {
	const many = 50
	for name, policy := range map[string]func(count int) string{
		"alternatives": func(count int) string {
			return `identity:create_user: "role:admin` + strings.Repeat(" or rule:helper", count) + "\"\nhelper: \"x:%(bogus)s\"\n"
		},
		"attributes": func(count int) string {
			var b strings.Builder
			for i := range count {
				fmt.Fprintf(&b, " or x:%%(target.user.aa%04d)s", i)
			}
			return `admin_required: "role:admin` + b.String() + "\"\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			lint := func(count, most int) (checks int, err error) {
				ctx := &checkedContext{Context: t.Context(), most: most}
				_, err = LintKeystone(ctx, []Source{{Name: "policy.yaml", Data: []byte(policy(count))}}, LintOptions{})
				return ctx.checks, err
			}
			one, err := lint(1, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			all, err := lint(many, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if all-one < many-1 {
				t.Errorf("the context was checked %d times for one, and %d times for %d", one, all, many)
			}
			if _, err := lint(many, all-1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("LintKeystone() = %v, want the error of its context", err)
			}
		})
	}
}

// TestLintStopsWithItsContext checks that the linter stops after the end of its context.
func TestLintStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	findings, err := LintKeystone(ctx, []Source{{Name: "policy.yaml", Data: override(t)}}, LintOptions{})
	if len(findings) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("LintKeystone() = %v, %v", findings, err)
	}
}
