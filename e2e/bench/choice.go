package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// measurement prints the figures of one benchmark.
type measurement struct {
	// name selects the measurement. Its errors begin with it.
	name string
	// measure can write files into dir.
	measure func(ctx context.Context, out *figures, dir string) error
}

// measurements returns all measurements. Those without a kcp come first: an idle kcp uses enough CPU to disturb others.
func measurements() []measurement {
	return []measurement{
		{"rewrite", logged(measureHandler)},
		{"policy", measurePolicy},
		{"start", anywhere(measureStart)},
		{"serve", logged(measureServe)},
		{"writes", anywhere(measureWrites)},
		{"machines", anywhere(measureMachines)},
		{"external", anywhere(measureExternal)},
		{"workspaces", anywhere(measureWorkspaces)},
		{"policies", anywhere(measurePolicies)},
		{"repair", anywhere(measureRepairs)},
	}
}

// anywhere is a measurement without a directory.
func anywhere(measure func(context.Context, *figures) error) func(context.Context, *figures, string) error {
	return func(ctx context.Context, out *figures, _ string) error { return measure(ctx, out) }
}

// logged is a measurement with a log file of the compared handlers.
func logged(measure func(context.Context, *figures, string) error) func(context.Context, *figures, string) error {
	return func(ctx context.Context, out *figures, dir string) error {
		return measure(ctx, out, filepath.Join(dir, "handlers.log"))
	}
}

// choose returns the measurements of the given names in their own order, or all if there are none. A name can be a list with commas.
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
