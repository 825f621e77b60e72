package oslopolicy

import (
	"fmt"
	"slices"
	"strings"
)

// lintAttributes finds attributes that Keystone does not set: for an operation, for all operations that use a helper, or for any operation.
func (l *linter) lintAttributes(r *rule) {
	operations := l.users[r.name]
	if own := l.table.operation(r.name); own != nil {
		operations = []*shippedRule{own}
	}
	seen := map[string]bool{}
	walk(r.check, func(c check, negated bool) {
		pattern, ok := templateOf(c)
		if !ok || pattern.mistake() != "" {
			return
		}
		for _, name := range pattern.attributes() {
			if !seen[name] && !l.full() && !l.ended() {
				seen[name] = true
				l.lintAttribute(r, name, operations, negated)
			}
		}
	})
}

func (l *linter) lintAttribute(r *rule, name string, operations []*shippedRule, negated bool) {
	if len(operations) == 0 {
		if !l.extended[r.name] && !slices.ContainsFunc(l.table.list, func(s shippedRule) bool { return s.fills(name) != never }) {
			l.add(r, SeverityWarning, CodeUnknownAttribute, fmt.Sprintf("Keystone fills %%(%s)s in for no operation", name), "")
		}
		return
	}
	best := never
	for _, o := range operations {
		best = max(best, o.fills(name))
	}
	if best == filled {
		return
	}
	var meant []string
	for _, o := range operations {
		for _, suggestion := range o.suggest(name) {
			if !slices.Contains(meant, suggestion) {
				meant = append(meant, suggestion)
			}
		}
	}
	for i := range meant {
		meant[i] = "%(" + meant[i] + ")s"
	}
	where := describeOperations(operations)
	switch best {
	case never:
		l.explained[[2]string{r.name, name}] = true
		effect := "the check is always false"
		if negated {
			effect = `the check is always false, and the "not" before it always true`
		}
		l.add(r, SeverityError, CodeUnknownAttribute, fmt.Sprintf("Keystone does not fill %%(%s)s in for %s: %s", name, where, effect), didYouMean(meant...))
	case doubtful:
		l.add(r, SeverityWarning, CodeUnknownAttribute,
			fmt.Sprintf("Keystone fills %%(%s)s in for %s only if such an attribute was stored with the object", name, where), didYouMean(meant...))
	case filled:
	}
}

// describeOperations lists at most three operations.
func describeOperations(operations []*shippedRule) string {
	const most = 3
	var names []string
	for _, o := range operations {
		if len(names) == most {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(operations)-most)
		}
		names = append(names, o.name)
	}
	return strings.Join(names, ", ")
}

// lintBranches finds alternatives of the rule of an operation that can never match, because of an attribute in a helper that this operation
// does not have. The helper may be correct for other operations.
func (l *linter) lintBranches(r *rule) {
	own := l.table.operation(r.name)
	if own == nil {
		return
	}
	branches := []check{r.check}
	if alternatives, ok := r.check.(anyCheck); ok {
		branches = alternatives
	}
	for _, branch := range branches { // thousands of them can refer to the same thousands of rules
		if l.ended() {
			return
		}
		if !l.isAlways(false, branch, own) || l.isAlways(false, branch, nil) {
			continue
		}
		if owner, name, ok := l.unexplained(r.name, branch, own); ok {
			var meant []string
			for _, suggestion := range own.suggest(name) {
				meant = append(meant, "%("+suggestion+")s")
				l.dead[r.name] = append(l.dead[r.name], deadBranch{owner: owner, attribute: name, meant: suggestion})
			}
			l.add(r, SeverityWarning, CodeDeadBranch,
				fmt.Sprintf("one of its alternatives can never match: the rule %q looks at %%(%s)s, which Keystone does not fill in for this operation", owner, name),
				didYouMean(meant...))
		}
	}
}

// unexplained returns an attribute that the operation does not have, and its rule. ok is false if there is none, or if one already has a
// finding.
func (l *linter) unexplained(name string, branch check, own *shippedRule) (owner, attribute string, ok bool) {
	said := false
	seen := map[string]bool{}
	var look func(name string, c check)
	look = func(name string, c check) {
		walk(c, func(c check, _ bool) {
			if reference, isReference := c.(ruleCheck); isReference && !seen[reference.name] {
				seen[reference.name] = true
				look(reference.name, l.policy.rules[reference.name])
			}
			pattern, _ := templateOf(c)
			for _, a := range pattern.attributes() {
				if own.fills(a) != never {
					continue
				}
				said = said || l.explained[[2]string{name, a}]
				owner, attribute, ok = name, a, true
			}
		})
	}
	look(name, branch)
	return owner, attribute, ok && !said
}
