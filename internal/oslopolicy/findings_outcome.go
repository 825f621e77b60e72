package oslopolicy

// isAlways reports whether a check has a value for all requests for an operation, or for all operations if it is nil. A check that raises an
// exception has no such value.
func (l *linter) isAlways(value bool, c check, operation *shippedRule) bool {
	known := l.folded[operation]
	if known == nil {
		known = map[string]formula{}
		l.folded[operation] = known
	}
	compiled := compiler{search: &search{operation: operation}, policy: l.policy, known: known}
	return compiled.check(c).isAlways(value)
}

// lintOutcome finds rules that allow or deny every request, but are not @ or !.
func (l *linter) lintOutcome(r *rule) {
	if _, plain := r.check.(constant); plain {
		return
	}
	if l.isAlways(true, r.check, l.table.operation(r.name)) {
		l.add(r, SeverityError, CodeAlwaysAllows, "the rule allows every request", `write "@" in quotes if that is meant`)
	}
	// A rule that denies because of the rules that it refers to has no finding of its own.
	alone := compiler{search: &search{}}
	if alone.check(r.check).isAlways(false) {
		l.add(r, SeverityWarning, CodeNeverAllows, "the rule denies every request", `write "!" in quotes if that is meant`)
	}
}
