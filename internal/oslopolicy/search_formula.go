package oslopolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// formula is a rule as a Boolean expression of atoms.
type formula struct {
	// kind is the kind of the node: a constant, an atom, or an operator.
	kind   formulaKind
	atom   uint
	inner  []formula
	always bool
}

type formulaKind int

const (
	formulaConstant formulaKind = iota
	formulaAtom
	formulaNot
	formulaAnd
	formulaOr
)

// can reports whether a formula can have a value if these atoms are true, and all others false or unknown. It treats unknown atoms as
// independent of each other.
func (f *formula) can(value bool, atoms, unknown uint64) bool {
	switch f.kind {
	case formulaAtom:
		bit := uint64(1) << f.atom
		return unknown&bit != 0 || (atoms&bit != 0) == value
	case formulaNot:
		return f.inner[0].can(!value, atoms, unknown)
	case formulaAnd, formulaOr:
		all := (f.kind == formulaAnd) == value // an "and" is true if all parts are, and false if one is
		for i := range f.inner {
			if f.inner[i].can(value, atoms, unknown) != all {
				return !all
			}
		}
		return all
	case formulaConstant:
	}
	return f.always == value
}

// isAlways reports whether a formula has a value for all values of its atoms. It treats them as independent of each other.
func (f formula) isAlways(value bool) bool { return !f.can(!value, 0, ^uint64(0)) }

// compile returns the formula of the rule for the operation.
func (s *search) compile(policy *Policy) formula {
	c := compiler{search: s, policy: policy}
	return c.check(ruleCheck{name: s.operation.name})
}

// compiler converts a rule into a formula. It replaces references by the rules that they refer to. If the search has no atoms, all checks that
// depend on the request become the same atom.
type compiler struct {
	*search
	// policy has the rules, nil if they are unknown.
	policy *Policy
	// known are the formulas of rules if only their constants matter: another one becomes an atom. A rule can refer to others many times.
	known map[string]formula
	open  []string
	nodes int
}

func (c *compiler) check(of check) formula {
	c.nodes++
	if c.nodes > maxChecks || len(c.open) > maxDepth {
		c.truncated, c.cut = true, true
		return c.giveUp(tooLarge)
	}
	if pattern, _ := templateOf(of); c.atoms == nil && pattern.mistake() == "" && slices.ContainsFunc(pattern.attributes(), c.isNever) {
		return formula{}
	}
	switch of := of.(type) {
	case constant:
		return formula{always: bool(of)}
	case notCheck:
		return formula{kind: formulaNot, inner: []formula{c.check(of.inner)}}
	case allCheck:
		return c.operator(formulaAnd, of)
	case anyCheck:
		return c.operator(formulaOr, of)
	case ruleCheck:
		return c.reference(of.name)
	case roleCheck:
		switch isDead := slices.ContainsFunc(of.match.attributes(), c.isNever); {
		case isDead && of.match.mistake() != "":
			return c.giveUp(textOf(of) + " raises an exception")
		case isDead:
			return formula{}
		case of.match.parts != nil:
			return c.opaque(of, textOf(of)+" depends on the target")
		}
		return c.atom(of, "role:"+lower(of.match.text))
	case genericCheck:
		return c.generic(of)
	case remoteCheck:
		return c.opaque(of, fmt.Sprintf("%q sends a request to another host", of.url.text))
	case raising:
		return c.giveUp(fmt.Sprintf("%q raises an exception", of.word))
	}
	return formula{} // malformed and unparsed checks are false
}

func (c *compiler) operator(kind formulaKind, checks []check) formula {
	f := formula{kind: kind, inner: make([]formula, 0, len(checks))}
	for _, part := range checks {
		if key, _ := interchangeable(kind, part); !c.merged[key] {
			f.inner = append(f.inner, c.check(part))
		}
	}
	return f
}

// interchangeable returns a key for a check that others can stand for, and what is common to these others: roles, or texts that one
// attribute is compared with. The check is an alternative of an "or", or is negated in an "and". The key is "" for all other checks.
func interchangeable(kind formulaKind, part check) (key, common string) {
	if negated, ok := part.(notCheck); ok == (kind == formulaAnd) {
		if ok {
			part = negated.inner
		}
		return named(part)
	}
	return "", ""
}

// named returns the key of a role, or of a text that an attribute is compared with.
func named(c check) (key, common string) {
	switch c := c.(type) {
	case roleCheck:
		if c.match.parts == nil {
			return "role:" + lower(c.match.text), "role"
		}
	case genericCheck:
		if names := c.match.attributes(); c.class == kindLiteral && c.literal != "None" && len(names) == 1 && c.match.text == "%("+names[0]+")s" {
			return c.literal + ":" + c.match.text, c.match.text
		}
	}
	return "", ""
}

// merge finds checks that only appear side by side in both rules: roles as alternatives, such as those of a long list, or texts that an
// attribute is compared with. The first of them stands for the others, because rules treat them alike. Names in apart stay.
func (s *search) merge(apart []string) {
	places, commons := map[string][]int{}, map[string]string{} // the operators that have a check as an operand
	var keys []string
	count := 0
	var look func(c check)
	note := func(key, common string, place int) {
		if _, ok := places[key]; !ok {
			keys = append(keys, key)
			commons[key] = common
		}
		places[key] = append(places[key], place)
	}
	look = func(c check) {
		kind := formulaOr
		switch c.(type) {
		case allCheck:
			kind = formulaAnd
		case anyCheck:
		default: // no other operator has several operands
			if key, common := named(c); key != "" {
				count++
				note(key, common, count)
			}
			for _, child := range children(c) {
				look(child)
			}
			return
		}
		count++
		place := count
		for _, child := range children(c) {
			if key, common := interchangeable(kind, child); key != "" {
				note(key, common, place)
			} else {
				look(child)
			}
		}
	}
	for _, policy := range []*Policy{s.before, s.after} {
		for _, name := range append(reached(policy, s.operation.name), s.operation.name) {
			look(policy.rules[name])
		}
	}
	first := map[string]bool{}
	for _, key := range keys {
		name, _, _ := strings.Cut(strings.TrimPrefix(key, "role:"), ":%(")
		if hasRole(apart, name) {
			continue
		}
		if same := fmt.Sprint(commons[key], places[key]); first[same] {
			s.merged[key] = true
		} else {
			first[same] = true
		}
	}
}

func (c *compiler) reference(name string) formula {
	if c.policy == nil {
		return c.giveUp("the rules are unknown")
	}
	if f, ok := c.known[name]; ok {
		return f
	}
	of, ok := c.policy.lookup(name)
	switch {
	case !ok:
		return formula{}
	case slices.Contains(c.open, name):
		return c.giveUp(fmt.Sprintf("the rule %q refers to itself", name))
	}
	c.open = append(c.open, name)
	f := c.check(of)
	c.open = c.open[:len(c.open)-1]
	if c.known != nil {
		if always := f.isAlways(true); always || f.isAlways(false) {
			f = formula{always: always}
		} else {
			f = formula{kind: formulaAtom}
		}
		c.known[name] = f
	}
	return f
}

// generic converts KIND:MATCH. A check that can never match is false.
func (c *compiler) generic(of genericCheck) formula {
	names, text := of.match.attributes(), textOf(of)
	switch {
	case of.class == kindRaises || of.match.mistake() != "":
		return c.giveUp(text + " raises an exception")
	case slices.ContainsFunc(names, c.isNever):
		return formula{}
	case len(names) == 0 && of.match.parts != nil: // it has only %%
		return c.opaque(of, text+" compares more than an attribute")
	case len(names) == 0 && of.class == kindLiteral:
		return formula{always: of.literal == of.match.text}
	case len(names) > 0 && of.match.text != "%("+names[0]+")s":
		return c.opaque(of, text+" compares more than an attribute")
	case of.class == kindPath && !isSearched(of):
		return c.opaque(of, text+" depends on more of the token than user, scope and roles")
	case of.class == kindPath && !known(of) && raises(of):
		return c.giveUp(text + " raises an exception")
	}
	return c.atom(of, text)
}

// isNever reports whether Keystone never sets an attribute for the operation.
func (c *compiler) isNever(name string) bool {
	return c.operation != nil && c.operation.fills(name) == never
}

// opaque returns an atom for a check that cannot be evaluated. It is false in the requests that are tried, but may be true.
func (c *compiler) opaque(of check, why string) formula {
	c.incomplete = cmp.Or(c.incomplete, why)
	f := c.atom(malformed{word: textOf(of)}, textOf(of))
	if f.kind == formulaAtom {
		c.doubtful |= 1 << f.atom
	}
	return f
}

func (c *compiler) atom(of check, key string) formula {
	if c.atoms == nil {
		return formula{kind: formulaAtom}
	}
	n, ok := c.atoms[key]
	if !ok {
		n = len(c.asked)
		if n == maxAtoms {
			c.truncated, c.cut = true, true
			c.incomplete = fmt.Sprintf("the rules have more than %d checks", maxAtoms)
			return formula{}
		}
		c.atoms[key], c.asked = n, append(c.asked, of)
	}
	return formula{kind: formulaAtom, atom: uint(n)}
}

// giveUp makes the search incomplete, and returns an atom that is always false, for a check that raises an exception or is too large. Two
// rules are equal only if both have this atom, and neither is truncated.
func (c *compiler) giveUp(why string) formula {
	c.incomplete = cmp.Or(c.incomplete, why)
	return c.atom(malformed{word: why}, "?"+why)
}
