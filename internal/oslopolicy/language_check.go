package oslopolicy

// check is a node of a parsed rule. Exactly the types of this file are checks.
type check interface {
	isCheck()
}

type (
	// constant is @ or !, or an empty rule, which allows.
	constant bool
	// notCheck is "not".
	notCheck struct{ inner check }
	// allCheck is "and".
	allCheck []check
	// anyCheck is "or".
	anyCheck []check
	// roleCheck is role:MATCH.
	roleCheck struct{ match template }
	// ruleCheck is rule:NAME. The name is no template.
	ruleCheck struct{ name string }
	// remoteCheck is http:REST or https:REST, as one template.
	remoteCheck struct{ url template }
	// genericCheck is KIND:MATCH with any other kind.
	genericCheck struct {
		kind  string
		match template
		// class is the class of the kind. literal is the text of a literal, path a path in the credentials.
		class   kindClass
		literal string
		path    []string
	}
	// malformed is a word without a colon. It is false, and the rest of the rule is evaluated.
	malformed struct{ word string }
	// unparsed is a rule with a syntax error. The whole rule is false.
	unparsed struct{ why string }
	// raising is a rule that oslo.policy loads, but whose evaluation raises an exception: a single word such as "and".
	raising struct{ word string }
)

func (constant) isCheck()     {}
func (notCheck) isCheck()     {}
func (allCheck) isCheck()     {}
func (anyCheck) isCheck()     {}
func (roleCheck) isCheck()    {}
func (ruleCheck) isCheck()    {}
func (remoteCheck) isCheck()  {}
func (genericCheck) isCheck() {}
func (malformed) isCheck()    {}
func (unparsed) isCheck()     {}
func (raising) isCheck()      {}

// children returns the operands of a check.
func children(c check) []check {
	switch c := c.(type) {
	case notCheck:
		return []check{c.inner}
	case allCheck:
		return c
	case anyCheck:
		return c
	}
	return nil
}

// templateOf returns the template of a check, if it has one.
func templateOf(c check) (template, bool) {
	switch c := c.(type) {
	case roleCheck:
		return c.match, true
	case remoteCheck:
		return c.url, true
	case genericCheck:
		return c.match, true
	}
	return template{}, false
}

// textOf returns the text of a check with a template.
func textOf(c check) string {
	switch c := c.(type) {
	case roleCheck:
		return "role:" + c.match.text
	case remoteCheck:
		return c.url.text
	case genericCheck:
		return c.kind + ":" + c.match.text
	}
	return ""
}

// walk calls visit for a check and all checks below it. negated is true below an odd number of "not".
func walk(c check, visit func(c check, negated bool)) {
	var descend func(c check, negated bool)
	descend = func(c check, negated bool) {
		visit(c, negated)
		if _, ok := c.(notCheck); ok {
			negated = !negated
		}
		for _, child := range children(c) {
			descend(child, negated)
		}
	}
	descend(c, false)
}
