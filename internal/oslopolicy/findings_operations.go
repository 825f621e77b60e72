package oslopolicy

import (
	"maps"
	"path"
	"slices"
)

// references returns the names of the rules that a check refers to.
func references(c check) []string {
	var names []string
	walk(c, func(c check, _ bool) {
		if reference, ok := c.(ruleCheck); ok {
			names = append(names, reference.name)
		}
	})
	return names
}

// reached returns the rules that rules refer to, directly or through others, with the rule "default" in place of those that do not exist.
func reached(policy *Policy, from ...string) []string {
	var names []string
	seen := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		next := references(policy.rules[name])
		if policy.rules[name] == nil {
			next = []string{defaultRule}
		}
		for _, name := range next {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
				follow(name)
			}
		}
	}
	for _, name := range from {
		follow(name)
	}
	return names
}

// follow records the rules that an operation refers to.
func (l *linter) follow(operation *shippedRule) {
	for _, name := range reached(l.policy, operation.name) {
		l.users[name] = append(l.users[name], operation)
	}
}

// followExtensions records the rules of extensions, and those that they refer to.
func (l *linter) followExtensions() {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(l.policy.rules)), func(name string) bool { return !l.isExtension(name) })
	for _, name := range append(reached(l.policy, names...), names...) {
		l.extended[name] = true
	}
}

// isExtension reports whether a rule is evaluated by an extension of Keystone.
func (l *linter) isExtension(name string) bool {
	return l.table.rules[name] == nil && name != defaultRule && slices.ContainsFunc(l.options.KnownRules, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// UnusedPatterns returns the patterns of KnownRules that match no rule of the files and of the base, except Keystone's own. It returns none if a file
// cannot be read.
func UnusedPatterns(sources []Source, options LintOptions) []string {
	files, err := ReadAll(sources)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(options.KnownRules), func(pattern string) bool {
		options.KnownRules = []string{pattern}
		l := newLinter(sources, files, options)
		l.followExtensions()
		return len(l.extended) > 0
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

// circular returns the rules that refer to themselves, directly or through others (Tarjan's algorithm for strongly connected components).
func circular(policy *Policy) map[string]bool {
	circles, index, low, waiting := map[string]bool{}, map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(name string)
	visit = func(name string) {
		index[name] = len(index) + 1
		low[name] = index[name]
		stack, waiting[name] = append(stack, name), true
		for _, next := range references(policy.rules[name]) {
			switch {
			case next == name:
				circles[name] = true
			case index[next] == 0:
				visit(next)
				low[name] = min(low[name], low[next])
			case waiting[next]:
				low[name] = min(low[name], index[next])
			}
		}
		if low[name] != index[name] {
			return
		}
		first := slices.Index(stack, name)
		for _, member := range stack[first:] {
			waiting[member] = false
			circles[member] = circles[member] || len(stack)-first > 1
		}
		stack = stack[:first]
	}
	for name := range policy.rules {
		if index[name] == 0 {
			visit(name)
		}
	}
	return circles
}
