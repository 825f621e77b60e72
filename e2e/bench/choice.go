package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// measurement prints the figures of one subject.
type measurement struct {
	// name is what it is chosen by, and what its errors begin with.
	name string
	// measure may put files into dir.
	measure func(ctx context.Context, out *figures, dir string) error
}

// measurements returns all of them. What needs no kcp comes first: an idle kcp is not idle enough to be measured beside.
func measurements() []measurement {
	return []measurement{
		{"rewrite", func(ctx context.Context, out *figures, dir string) error {
			if err := measureRewrite(out); err != nil {
				return err
			}
			return measureHandler(ctx, out, handlersLog(dir))
		}},
		{"gate", func(ctx context.Context, out *figures, dir string) error {
			return measureMachineHandler(ctx, out, handlersLog(dir))
		}},
		{"policy", measurePolicy},
		{"roles", anywhere(measureRoleChecks)},
		{"start", anywhere(measureStart)},
		{"serve", func(ctx context.Context, out *figures, dir string) error {
			return measureServe(ctx, out, handlersLog(dir))
		}},
		{"writes", anywhere(measureWrites)},
		{"machines", anywhere(measureMachines)},
		{"workspaces", anywhere(measureWorkspaces)},
		{"policies", anywhere(measurePolicies)},
		{"parents", anywhere(measurePolicyParents)},
		{"healing", anywhere(measureHealing)},
		{"watched", anywhere(measureWatched)},
	}
}

// anywhere is a measurement that has no use for a directory.
func anywhere(measure func(context.Context, *figures) error) func(context.Context, *figures, string) error {
	return func(ctx context.Context, out *figures, _ string) error { return measure(ctx, out) }
}

// handlersLog is where the handlers that are compared log to.
func handlersLog(dir string) string { return filepath.Join(dir, "handlers.log") }

// choose returns the measurements of the given names in their own order, or all if there are none. A name may be several
// with commas between them.
func choose(names []string) ([]measurement, error) {
	all := measurements()
	known := make([]string, len(all))
	for i, m := range all {
		known[i] = m.name
	}
	var wanted []string
	for _, name := range strings.FieldsFunc(strings.Join(names, ","), func(r rune) bool { return r == ',' }) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no measurement %q; choose among %s", name, strings.Join(known, ", "))
		}
		wanted = append(wanted, name)
	}
	if len(wanted) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(m measurement) bool { return !slices.Contains(wanted, m.name) }), nil
}
