package oslopolicy

import (
	"fmt"
	"slices"
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

// holds reports whether a formula is true if exactly these atoms are true.
func (f *formula) holds(atoms uint64) bool {
	switch f.kind {
	case formulaAtom:
		return atoms&(1<<f.atom) != 0
	case formulaNot:
		return !f.inner[0].holds(atoms)
	case formulaAnd:
		for i := range f.inner {
			if !f.inner[i].holds(atoms) {
				return false
			}
		}
		return true
	case formulaOr:
		for i := range f.inner {
			if f.inner[i].holds(atoms) {
				return true
			}
		}
		return false
	case formulaConstant:
	}
	return f.always
}

// equal reports whether two formulas have the same structure.
func (f *formula) equal(other *formula) bool {
	if f.kind != other.kind || f.atom != other.atom || f.always != other.always || len(f.inner) != len(other.inner) {
		return false
	}
	for i := range f.inner {
		if !f.inner[i].equal(&other.inner[i]) {
			return false
		}
	}
	return true
}

// compile returns the formula of the rule for the operation.
func (s *search) compile(policy *Policy) formula {
	c := compiler{search: s, policy: policy}
	return c.check(ruleCheck{name: s.operation.name})
}

// compiler converts a rule into a formula. It replaces references by the rules that they refer to.
type compiler struct {
	*search
	policy *Policy
	open   []string
	nodes  int
}

func (c *compiler) check(of check) formula {
	c.nodes++
	if c.nodes > maxChecks || len(c.open) > maxDepth {
		c.truncated, c.cut = true, true
		return c.giveUp(tooLarge)
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
		if slices.ContainsFunc(of.match.attributes(), c.isNever) {
			return formula{}
		}
		if of.match.parts != nil {
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
		f.inner = append(f.inner, c.check(part))
	}
	return f
}

func (c *compiler) reference(name string) formula {
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
	return f
}

// generic converts KIND:MATCH. A check that can never match is false.
func (c *compiler) generic(of genericCheck) formula {
	if of.class == kindRaises || of.match.mistake() != "" {
		return c.giveUp(fmt.Sprintf("%s:%s raises an exception", of.kind, of.match.text))
	}
	names, text := of.match.attributes(), textOf(of)
	switch {
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
func (c *compiler) isNever(name string) bool { return c.operation.fills(name) == never }

// opaque returns an atom for a check that cannot be evaluated. It is false in the requests that are tried, but may be true.
func (c *compiler) opaque(of check, why string) formula {
	if c.incomplete == "" {
		c.incomplete = why
	}
	f := c.atom(malformed{word: textOf(of)}, textOf(of))
	if f.kind == formulaAtom {
		c.doubtful |= 1 << f.atom
	}
	return f
}

func (c *compiler) atom(of check, key string) formula {
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
	if c.incomplete == "" {
		c.incomplete = why
	}
	return c.atom(malformed{word: why}, "?"+why)
}
