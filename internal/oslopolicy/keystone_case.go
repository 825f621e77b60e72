package oslopolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"warrantgate.dev/internal/message"
)

// Case is a request that is checked against a policy. In a table of cases, Expect is the expected answer.
type Case struct {
	Name   string         `json:"name"`
	As     string         `json:"as"`
	Can    string         `json:"can"`
	Target map[string]any `json:"target,omitempty"`
	Expect string         `json:"expect"`
}

// Answers of a policy.
const (
	AnswerPass = "PASS"
	AnswerDeny = "DENY"
)

// Ask evaluates the case. An error means that there is no answer. Keystone then denies the request.
func (c Case) Ask(policy *Policy) (string, error) {
	caller, err := ParseCaller(c.As)
	if err != nil {
		return "", err
	}
	target := Flatten(c.Target)
	if err := policy.Validate(c.Can, target); err != nil {
		return "", err
	}
	passed, err := policy.Enforce(c.Can, target, caller.Credentials())
	switch {
	case err != nil:
		return "", fmt.Errorf("%s ends with an error and is not allowed: %w", c.Can, err)
	case passed:
		return AnswerPass, nil
	}
	return AnswerDeny, nil
}

// Validate returns an error for a rule that does not exist, and for attributes of the target that Keystone does not set for the operation.
// Without it, a misspelled name would look like a denial.
func (p *Policy) Validate(rule string, target map[string]any) error {
	if _, ok := p.rules[rule]; !ok {
		hint := didYouMean(message.Nearest(rule, slices.Collect(maps.Keys(p.rules))))
		if hint != "" {
			hint = "; " + hint
		}
		return fmt.Errorf("there is no operation or rule %q%s", rule, hint)
	}
	known := p.table.operation(rule)
	if known == nil {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(target)) {
		if known.fills(name) != never {
			continue
		}
		text := fmt.Sprintf("Keystone does not fill %q in for %s", name, rule)
		if meant := known.suggest(name); len(meant) > 0 {
			text += "; " + didYouMean(meant...)
		} else if all := known.known(); len(all) > 0 {
			text += "; it fills in " + strings.Join(all, ", ")
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}
