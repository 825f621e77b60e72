package oslopolicy

import (
	"path"
	"slices"
)

// followExtensions records the rules of extensions, and those that they refer to.
func (l *linter) followExtensions() {
	var follow func(name string)
	follow = func(name string) {
		if l.extended[name] {
			return
		}
		l.extended[name] = true
		walk(l.policy.rules[name], func(c check, _ bool) {
			if reference, ok := c.(ruleCheck); ok {
				follow(reference.name)
				if l.policy.rules[reference.name] == nil {
					follow(defaultRule)
				}
			}
		})
	}
	for name := range l.policy.rules {
		if l.isExtension(name) {
			follow(name)
		}
	}
}

// isExtension reports whether a rule is evaluated by an extension of Keystone.
func (l *linter) isExtension(name string) bool {
	return l.table.rules[name] == nil && name != defaultRule && slices.ContainsFunc(l.options.KnownRules, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// operationsWith returns the names of the operations that refer to a rule, nil for an operation.
func (l *linter) operationsWith(name string) []string {
	if l.table.operation(name) != nil {
		return nil
	}
	var names []string
	for _, o := range l.users[name] {
		names = append(names, o.name)
	}
	return names
}
