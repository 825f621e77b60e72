package oslopolicy

import (
	"fmt"
	"slices"
	"strings"
)

// Why returns the checks that deny the case, one a line, with their rules and the values that differ: of alternatives joined with "or" all, and
// of checks joined with "and" the first that is false. It returns nil if Ask does not return AnswerDeny.
func (c Case) Why(policy *Policy) []string {
	if answer, err := c.Ask(policy); err != nil || answer != AnswerDeny {
		return nil
	}
	caller, err := ParseCaller(c.As)
	if err != nil { // Ask has parsed it
		return nil
	}
	w := why{evaluation: evaluation{policy: policy, target: Flatten(c.Target), credentials: caller.Credentials(), known: map[string]bool{}}}
	w.denies(ruleCheck{name: c.Can}, "")
	return w.lines
}

// why collects the checks that are false.
type why struct {
	evaluation
	lines []string
	// explained are the rules that were evaluated.
	explained []string
}

// denies explains why a check of a rule is false.
func (w *why) denies(c check, rule string) {
	switch c := c.(type) {
	case anyCheck:
		for _, alternative := range c {
			w.denies(alternative, rule)
		}
		return
	case allCheck:
		for _, part := range c {
			w.checks = 0
			if passed, err := w.check(part, 0); err != nil || !passed {
				w.denies(part, rule)
				return
			}
		}
	case ruleCheck:
		referred, ok := w.policy.lookup(c.name)
		if !ok {
			break
		}
		if !slices.Contains(w.explained, c.name) {
			w.explained = append(w.explained, c.name)
			w.denies(referred, c.name)
		}
		return
	}
	text := notation(c)
	switch c := c.(type) {
	case malformed:
		text = c.word
	case unparsed:
		text = "the text"
	}
	line := fmt.Sprintf("%s in rule %q: %s", text, rule, w.reason(c))
	if !slices.Contains(w.lines, line) {
		w.lines = append(w.lines, line)
	}
}

// reason returns the reason why a check is false.
func (w *why) reason(c check) string {
	if pattern, ok := templateOf(c); ok {
		for _, name := range pattern.attributes() {
			if _, ok := w.target[name]; !ok {
				return fmt.Sprintf("the target has no %s", name)
			}
		}
	}
	switch c := c.(type) {
	case constant:
		return "it denies every request"
	case notCheck:
		return `the check after "not" is true`
	case malformed:
		return "it is no check, because it has no colon"
	case unparsed:
		return "oslo.policy cannot parse it: " + c.why
	case ruleCheck:
		return "there is no such rule"
	case roleCheck:
		return held("role", values(w.credentials, []string{"roles"}))
	case genericCheck:
		wanted, err := c.match.fill(w.target)
		if err != nil {
			return err.Error()
		}
		if c.class == kindLiteral {
			return fmt.Sprintf("the target has %q", wanted)
		}
		found := values(w.credentials, c.path)
		if len(found) == 0 {
			return held(c.kind, nil)
		}
		return fmt.Sprintf("%s, not %q", held(c.kind, found), wanted)
	}
	return "it is false"
}

// held says which values the token has.
func held(what string, values []string) string {
	if len(values) == 0 {
		return "the token has no " + what
	}
	return fmt.Sprintf("the token has the %s %s", what, strings.Trim(fmt.Sprintf("%q", values), "[]"))
}

// values returns the values at a path of the credentials that find compares.
func values(value any, path []string) []string {
	if value == nil {
		return nil
	}
	if elements, ok := value.([]any); ok {
		var all []string
		for _, element := range elements {
			all = append(all, values(element, path)...)
		}
		return all
	}
	if len(path) == 0 {
		return []string{pythonString(value)}
	}
	fields, _ := value.(map[string]any)
	return values(fields[path[0]], path[1:])
}
