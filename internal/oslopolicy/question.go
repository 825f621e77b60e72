package oslopolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Validate returns an error for a rule that does not exist, and for attributes of the target that Keystone does not set for the operation.
// Without it, a misspelled name would look like a denial.
func (p *Policy) Validate(rule string, target map[string]any) error {
	if _, ok := p.rules[rule]; !ok {
		hint := didYouMean(nearest(rule, slices.Collect(maps.Keys(p.rules))))
		if hint != "" {
			hint = "; " + hint
		}
		return fmt.Errorf("there is no operation or rule %q%s", rule, hint)
	}
	known := p.table.operation(rule)
	if known == nil {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(target)) {
		if known.fills(name) != never {
			continue
		}
		text := fmt.Sprintf("Keystone does not fill %q in for %s", name, rule)
		if meant := known.suggest(name); len(meant) > 0 {
			text += "; " + didYouMean(meant...)
		} else if all := known.known(); len(all) > 0 {
			text += "; it fills in " + strings.Join(all, ", ")
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}
