package oslopolicy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"warrantgate.dev/internal/oslopolicy"
)

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
				_, err = oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: "policy.yaml", Data: []byte(policy(count))}}, oslopolicy.LintOptions{})
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
