package oslopolicy

import "slices"

// outcome is what can be said of a check without a request.
type outcome int

const (
	// varies: it depends on the request.
	varies outcome = iota
	// neverPasses: it is false whatever the request.
	neverPasses
	// alwaysPasses: it is true whatever the request.
	alwaysPasses
)

// outcome folds a check for an operation, or for any if that is nil. What raises an exception varies.
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
	// known are the outcomes of rules. Those that are being folded vary, because of circles.
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

// join folds the parts of an "and" or an "or": one that is decisive decides, and so do all together if they are neutral.
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

// isDead tells whether a template names an attribute that the operation does not fill in.
func (f *folding) isDead(pattern template) bool {
	if f.operation == nil || pattern.mistake() != "" {
		return false
	}
	return slices.ContainsFunc(pattern.attributes(), func(name string) bool { return f.operation.fills(name) == never })
}

// lintOutcome finds rules that say neither @ nor ! and mean it.
func (l *linter) lintOutcome(r *rule) {
	if _, plain := r.check.(constant); plain {
		return
	}
	if l.outcome(r.check, operation(r.name)) == alwaysPasses {
		l.add(r, SeverityError, CodeAlwaysAllows, "the rule allows everybody, whatever the request", `write "@" in quotes if that is meant`)
	}
	// One that denies because of the rules that it refers to is no surprise, or the surprise is there.
	alone := folding{}
	if alone.fold(r.check) == neverPasses {
		l.add(r, SeverityWarning, CodeNeverAllows, "the rule denies everybody, whatever the request", `write "!" in quotes if that is meant`)
	}
}
