package oslopolicy

import (
	"cmp"
	"fmt"
	"strings"
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

// ParseCaller parses a caller such as role=manager,domain=acme. The domains of the user and of the project default to the domain of the
// token.
func ParseCaller(text string) (Caller, error) {
	caller := Caller{User: defaultUser}
	fields := map[string]*string{
		"user": &caller.User, "user-domain": &caller.UserDomain, "domain": &caller.Domain, "project": &caller.Project, "project-domain": &caller.ProjectDomain,
	}
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		key, value, ok := strings.Cut(pair, "=")
		field := fields[key]
		switch {
		case !ok || value == "":
			return caller, fmt.Errorf("as: %q must be key=value", pair)
		case key == "role":
			caller.Roles = append(caller.Roles, value)
		case key == "system" && value == "all":
			caller.System = true
		case key == "admin-project" && (value == "true" || value == "false"):
			caller.AdminProject = value == "true"
		case field != nil:
			*field = value
		default:
			return caller, fmt.Errorf("as: %q must be one of role, domain, project, system=all, user, user-domain, project-domain and admin-project=true", pair)
		}
	}
	scopes := 0
	for _, scoped := range []bool{caller.Domain != "", caller.Project != "", caller.System} {
		if scoped {
			scopes++
		}
	}
	if scopes > 1 {
		return caller, fmt.Errorf("as: %q names more than one of domain, project and system; a token has one scope", text)
	}
	if caller.UserDomain == "" {
		caller.UserDomain = cmp.Or(caller.Domain, caller.ProjectDomain)
	}
	if caller.Project != "" && caller.ProjectDomain == "" {
		caller.ProjectDomain = caller.UserDomain
	}
	return caller, nil
}
