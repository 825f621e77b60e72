package oslopolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

const (
	// maxChecks is the maximum number of checks for one request. The rules of Keystone need about 50.
	maxChecks = 2000
	// defaultRule is the name of the rule that replaces rules that do not exist.
	defaultRule = "default"
)

// errTooLarge means that an evaluation exceeds maxChecks or maxDepth. oslo.policy has other limits.
var errTooLarge = fmt.Errorf("the rule takes more than %d checks or is nested more than %d deep", maxChecks, maxDepth)

// Policy is a set of rules.
type Policy struct {
	// table contains the rules that Keystone ships.
	table *shippedTable
	rules map[string]check
}

func (p *Policy) override(file *File) {
	for _, r := range file.rules {
		p.rules[r.name] = r.check
	}
}

// lookup returns a rule, or the rule "default" if it does not exist.
func (p *Policy) lookup(name string) (check, bool) {
	if c, ok := p.rules[name]; ok {
		return c, true
	}
	c, ok := p.rules[defaultRule]
	return c, ok
}

// Enforce reports whether a rule allows a request with these credentials for a target. The target is flat, with keys such as
// target.user.domain_id. Both contain JSON values. An error means that Keystone raises an exception, or that the result depends on another
// host or exceeds a limit. The caller must treat it as a denial.
func (p *Policy) Enforce(rule string, target, credentials map[string]any) (bool, error) {
	return p.assume(rule, target, credentials, nil)
}

// assume is Enforce, with values for checks that cannot be evaluated.
func (p *Policy) assume(rule string, target, credentials map[string]any, assumed map[string]assumption) (bool, error) {
	c, ok := p.lookup(rule)
	if !ok {
		return false, nil
	}
	e := evaluation{policy: p, target: target, credentials: credentials, assumed: assumed, known: map[string]bool{}}
	return e.check(c, 0)
}

// assumption is the value of a check that cannot be evaluated.
type assumption int

const (
	assumedFalse assumption = iota
	assumedTrue
	// assumedOther: the value that the check does not have.
	assumedOther
)

// evaluation is the state of one call of Enforce.
type evaluation struct {
	policy              *Policy
	target, credentials map[string]any
	// assumed are the values of checks, by their texts.
	assumed map[string]assumption
	// checks is the number of evaluated checks.
	checks int
	// open are the rules that are being evaluated, known the results of evaluated rules.
	open  []string
	known map[string]bool
}

func (e *evaluation) check(c check, depth int) (bool, error) {
	e.checks++
	if e.checks > maxChecks || depth > maxDepth {
		return false, errTooLarge
	}
	if len(e.assumed) > 0 {
		if value, ok := e.assumed[textOf(c)]; ok && value != assumedOther {
			return value == assumedTrue, nil
		}
	}
	switch c := c.(type) {
	case constant:
		return bool(c), nil
	case notCheck:
		passed, err := e.check(c.inner, depth+1)
		return !passed && err == nil, err
	case allCheck:
		for _, child := range c {
			if passed, err := e.check(child, depth+1); err != nil || !passed {
				return false, err
			}
		}
		return true, nil
	case anyCheck:
		for _, child := range c {
			if passed, err := e.check(child, depth+1); err != nil || passed {
				return passed, err
			}
		}
		return false, nil
	case ruleCheck:
		return e.rule(c.name, depth)
	case roleCheck:
		return e.role(c.match)
	case remoteCheck:
		return e.remote(c.url)
	case genericCheck:
		return e.generic(c)
	case raising:
		return false, fmt.Errorf("the rule is the lone word %q, which raises an exception", c.word)
	}
	return false, nil // malformed and unparsed checks
}

func (e *evaluation) rule(name string, depth int) (bool, error) {
	if passed, ok := e.known[name]; ok {
		return passed, nil
	}
	c, ok := e.policy.lookup(name)
	if !ok {
		return false, nil
	}
	if slices.Contains(e.open, name) {
		return false, fmt.Errorf("the rules %s refer to each other in a circle", strings.Join(append(e.open, name), " -> "))
	}
	e.open = append(e.open, name)
	passed, err := e.check(c, depth+1)
	e.open = e.open[:len(e.open)-1]
	if errors.Is(err, errMissing) {
		// oslo.policy treats the missing attribute as a missing rule. This happens with http and https checks only.
		passed, err = false, nil
	}
	if err == nil {
		e.known[name] = passed
	}
	return passed, err
}

func (e *evaluation) role(pattern template) (bool, error) {
	match, err := pattern.fill(e.target)
	if errors.Is(err, errMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held, ok := e.credentials["roles"]
	if !ok {
		return false, nil
	}
	roles, ok := held.([]any)
	if !ok {
		return false, errors.New("the roles of the credentials are not a list")
	}
	match = lower(match)
	found := false
	for _, held := range roles {
		role, ok := held.(string)
		if !ok {
			return false, fmt.Errorf("the credentials hold the role %s, which is not a string", pythonRepr(held))
		}
		found = found || lower(role) == match
	}
	return found, nil
}

// lower implements Python's str.lower.
func lower(text string) string {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return cases.Lower(language.Und).String(text)
		}
	}
	return strings.ToLower(text)
}

func (e *evaluation) remote(url template) (bool, error) {
	if _, err := url.fill(e.target); err != nil {
		return false, err
	}
	return false, fmt.Errorf("%q sends a request to another host, which is not supported here", url.text)
}

func (e *evaluation) generic(c genericCheck) (bool, error) {
	match, err := c.match.fill(e.target)
	if errors.Is(err, errMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch c.class {
	case kindLiteral:
		return c.literal == match, nil
	case kindPath:
		found, err := find(e.credentials, c.path, match)
		if len(e.assumed) > 0 && e.assumed[textOf(c)] == assumedOther {
			found = !found
		}
		return found, err
	case kindRaises:
	}
	return false, fmt.Errorf("%q before the colon is neither a name nor a literal of Python", c.kind)
}

// find reports whether the value at a path is a text. In a list, it compares every element.
func find(value any, path []string, match string) (bool, error) {
	if len(path) == 0 {
		return pythonString(value) == match, nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return false, fmt.Errorf("%q is looked for in %s, which has no fields", path[0], pythonRepr(value))
	}
	next, ok := fields[path[0]]
	if !ok {
		return false, nil
	}
	list, ok := next.([]any)
	if !ok {
		return find(next, path[1:], match)
	}
	for _, element := range list {
		if found, err := find(element, path[1:], match); err != nil || found {
			return found, err
		}
	}
	return false, nil
}
