package oslopolicy

import "slices"

// outcome is the result of a check for all requests.
type outcome int

const (
	// varies: it depends on the request.
	varies outcome = iota
	// neverPasses: it is false for every request.
	neverPasses
	// alwaysPasses: it is true for every request.
	alwaysPasses
)

// outcome returns the outcome of a check for an operation, or for all operations if it is nil. It is varies for a check that raises an
// exception.
func (l *linter) outcome(c check, operation *shippedRule) outcome {
	f := folding{policy: l.policy, operation: operation, known: map[string]outcome{}}
	if operation == nil {
		f.known = l.folded
	}
	return f.fold(c)
}

type folding struct {
	policy    *Policy
	operation *shippedRule
	// known are the outcomes of rules. It is varies during the evaluation of a rule, because of cycles.
	known map[string]outcome
	steps int
}

func (f *folding) fold(c check) outcome {
	f.steps++
	if f.steps > maxChecks {
		return varies
	}
	if pattern, ok := templateOf(c); ok && f.isDead(pattern) {
		return neverPasses
	}
	switch c := c.(type) {
	case constant:
		if c {
			return alwaysPasses
		}
		return neverPasses
	case malformed, unparsed:
		return neverPasses
	case notCheck:
		switch f.fold(c.inner) {
		case neverPasses:
			return alwaysPasses
		case alwaysPasses:
			return neverPasses
		case varies:
		}
	case allCheck:
		return f.join(c, neverPasses, alwaysPasses)
	case anyCheck:
		return f.join(c, alwaysPasses, neverPasses)
	case ruleCheck:
		return f.reference(c.name)
	case genericCheck:
		if c.class == kindLiteral && c.match.parts == nil {
			if c.literal == c.match.text {
				return alwaysPasses
			}
			return neverPasses
		}
	}
	return varies
}

// join returns the outcome of an "and" or "or": decisive if one operand is, neutral if all operands are, otherwise varies.
func (f *folding) join(parts []check, decisive, neutral outcome) outcome {
	all := true
	for _, part := range parts {
		switch f.fold(part) {
		case decisive:
			return decisive
		case neutral:
		default:
			all = false
		}
	}
	if all {
		return neutral
	}
	return varies
}

func (f *folding) reference(name string) outcome {
	if known, ok := f.known[name]; ok {
		return known
	}
	if f.policy == nil {
		return varies
	}
	c, ok := f.policy.lookup(name)
	if !ok {
		return neverPasses
	}
	f.known[name] = varies
	f.known[name] = f.fold(c)
	return f.known[name]
}

// isDead reports whether a template contains an attribute that Keystone does not set for the operation.
func (f *folding) isDead(pattern template) bool {
	if f.operation == nil || pattern.mistake() != "" {
		return false
	}
	return slices.ContainsFunc(pattern.attributes(), func(name string) bool { return f.operation.fills(name) == never })
}

// lintOutcome finds rules that allow or deny every request, but are not @ or !.
func (l *linter) lintOutcome(r *rule) {
	if _, plain := r.check.(constant); plain {
		return
	}
	if l.outcome(r.check, l.table.operation(r.name)) == alwaysPasses {
		l.add(r, SeverityError, CodeAlwaysAllows, "the rule allows every request", `write "@" in quotes if that is meant`)
	}
	// A rule that denies because of the rules that it refers to has no finding of its own.
	alone := folding{}
	if alone.fold(r.check) == neverPasses {
		l.add(r, SeverityWarning, CodeNeverAllows, "the rule denies every request", `write "!" in quotes if that is meant`)
	}
}
