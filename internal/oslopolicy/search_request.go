package oslopolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// newRequests makes requests with tokens of all scopes: for a domain, a project, the admin project and the system. Each part of a token is
// tried with the constants that the rules compare it with, and with another value.
func (s *search) newRequests() []request {
	own, home := s.unused(ownDomain), s.unused(homeDomain)
	users := s.constants(s.unused(defaultUser), "user_id", "token.user.id", "token.user.name")
	userDomains := s.domains("", "user_domain_id", "token.user.domain.id", "token.user.domain.name") // the domain of the scope, if empty
	if s.asks("user_domain_id", "token.user.domain.id", "token.user.domain.name") ||
		s.asks("user_id", "token.user.id") && slices.Contains(s.attributes, "target.user.domain_id") {
		userDomains = append(userDomains, home)
	}
	domains := s.domains(own, "domain_id", "token.domain.id", "token.domain.name")
	projects := s.constants(s.unused("own-project"), "project_id", "token.project.id", "token.project.name")
	projectDomains := s.domains(own, "project_domain_id", "token.project.domain.id", "token.project.domain.name")
	// The tokens with the fewest constants come first.
	var callers [4][]Caller
	add := func(constants int, c Caller) { callers[constants] = append(callers[constants], c) }
	for i, userDomain := range userDomains {
		for j, user := range users {
			named := min(i, 1) + min(j, 1)
			for k, domain := range domains {
				add(min(named+min(k, 1), 3), Caller{User: user, UserDomain: cmp.Or(userDomain, domain), Domain: domain})
			}
			for k, project := range projects {
				for l, domain := range projectDomains {
					caller := Caller{User: user, UserDomain: cmp.Or(userDomain, domain), Project: project, ProjectDomain: domain}
					admin := caller
					admin.AdminProject = true
					add(min(named+min(k, 1)+min(l, 1), 3), caller)
					add(min(named+min(k, 1)+min(l, 1), 3), admin)
				}
			}
			add(named, Caller{User: user, UserDomain: cmp.Or(userDomain, own), System: true})
			add(named, Caller{User: user, UserDomain: cmp.Or(userDomain, own)})
		}
	}
	all := slices.Concat(callers[:]...)
	if len(all) > maxTokens {
		s.incomplete, s.cut = fmt.Sprintf("there are more than %d tokens to try", maxTokens), true
		all = all[:maxTokens]
	}
	requests := make([]request, 0, len(all))
	for _, caller := range all {
		if s.isEnded() {
			break
		}
		requests = append(requests, s.request(caller))
	}
	return requests
}

// unused returns a value that the rules do not name: their author could otherwise exclude the values that are tried.
func (s *search) unused(value string) string {
	for slices.ContainsFunc(s.asked, func(c check) bool {
		generic, ok := c.(genericCheck)
		return ok && (generic.literal == value || generic.match.text == value)
	}) {
		value += "-x"
	}
	return value
}

// asks reports whether the rules check one of these credentials.
func (s *search) asks(kinds ...string) bool {
	return slices.ContainsFunc(s.asked, func(c check) bool {
		generic, ok := c.(genericCheck)
		return ok && generic.class == kindPath && slices.Contains(kinds, generic.kind)
	})
}

// domains are constants for credentials with a domain. Those of other credentials are among them, because two of them can be equal.
func (s *search) domains(other string, kinds ...string) []string {
	if !s.asks(kinds...) {
		return []string{other}
	}
	return s.constants(other, append(kinds, "user_domain_id", "token.user.domain.id", "token.user.domain.name", "domain_id", "token.domain.id",
		"token.domain.name", "project_domain_id", "token.project.domain.id", "token.project.domain.name")...)
}

// constants are the texts that the rules compare credentials with, after the value of all other tokens. If an attribute is compared with
// credentials and with a text, the credentials can be equal to the text too.
func (s *search) constants(other string, kinds ...string) []string {
	texts := []string{other}
	add := func(kind, text string) {
		// Null is None as a text, which is the ID of nothing.
		if !slices.Contains(texts, text) && (text != "None" || hasWord(nameCredentials, kind)) {
			texts = append(texts, text)
		}
	}
	for _, c := range s.asked {
		generic, ok := c.(genericCheck)
		if !ok || generic.class != kindPath || !slices.Contains(kinds, generic.kind) {
			continue
		}
		if generic.match.parts == nil {
			add(generic.kind, generic.match.text)
			continue
		}
		for _, c := range s.asked {
			if literal, ok := c.(genericCheck); ok && literal.class == kindLiteral && literal.match.text == generic.match.text {
				add(generic.kind, literal.literal)
			}
		}
	}
	return texts
}

// request evaluates the atoms for a token.
func (s *search) request(caller Caller) request {
	credentials := caller.Credentials()
	r := request{caller: caller, values: make([][]any, len(s.attributes)), holds: make([][]uint64, len(s.attributes))}
	for n, c := range s.asked {
		if generic, ok := c.(genericCheck); ok && generic.match.parts == nil && s.matches(generic, nil, credentials) {
			r.fixed |= 1 << uint(n)
		}
	}
	for i, name := range s.attributes {
		r.values[i] = s.values(name, caller, credentials)
		r.holds[i] = make([]uint64, len(r.values[i]))
		for j, value := range r.values[i] {
			if value == missing {
				continue
			}
			for n, c := range s.asked {
				bit := uint64(1) << uint(n)
				if generic, ok := c.(genericCheck); ok && s.open[i+1]&^s.open[i]&bit != 0 && s.matches(generic, map[string]any{name: value}, credentials) {
					r.holds[i][j] |= bit
				}
			}
		}
	}
	return r
}

// matches evaluates one check.
func (s *search) matches(c genericCheck, target, credentials map[string]any) bool {
	e := evaluation{policy: s.before, target: target, credentials: credentials}
	passed, err := e.generic(c)
	return passed && err == nil
}

// values returns the values to try for an attribute: those that the rules compare it with, and another value.
func (s *search) values(name string, caller Caller, credentials map[string]any) []any {
	if value, ok := s.operation.fromToken(name, caller); ok {
		return []any{value}
	}
	values := []any{s.unused(foreign + "-" + name[strings.LastIndexByte(name, '.')+1:])}
	add := func(value any) {
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	for _, c := range s.asked {
		generic, ok := c.(genericCheck)
		if !ok || !slices.Contains(generic.match.attributes(), name) {
			continue
		}
		var value any = generic.literal
		switch {
		case generic.class != kindLiteral:
			value = at(credentials, generic.path)
		case generic.literal == "None" && strings.HasSuffix(name, "id"):
			value = nil
		}
		if _, isText := value.(string); isText || value == nil && s.canBeNull(name) {
			add(value)
		}
	}
	return values
}

// nullAttributes are the IDs that can be null: global roles have no domain, and a project that acts as a domain has neither domain nor
// parent. In a token for another scope, the credential is null too, and null is equal to null.
const nullAttributes = "target.domain_id target.role.domain_id target.prior_role.domain_id target.implied_role.domain_id " +
	"target.project.domain_id target.project.parent_id request_body.project.domain_id request_body.project.parent_id " +
	"target.limit.domain_id target.limit.project_id target.limit.region_id target.credential.project_id target.endpoint.region_id " +
	"target.trust.project_id target.trust.redelegated_trust_id"

// canBeNull reports whether an attribute can be null. The requester chooses the fields of the body, and of an object that it creates, except the
// domain of a user or group.
func (s *search) canBeNull(name string) bool {
	field, isTarget := strings.CutPrefix(name, "target.")
	switch {
	case hasWord(nullAttributes, name):
		return !s.operation.isOfDomainRoles()
	case strings.HasPrefix(name, "request_body."), isTarget && s.operation.makes(field):
		return !isDomain(s.operation, name)
	}
	return isTarget && !strings.HasSuffix(name, "id") && !strings.HasSuffix(name, "name")
}

// at returns the value of credentials at a path, nil if there is none.
func at(value any, path []string) any {
	for _, name := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[name]
	}
	return value
}

// subsets yields all sets of size numbers below n, in order. The set is valid until the next one.
func subsets(n, size int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		set := make([]int, size)
		for i := range set {
			set[i] = i
		}
		for size <= n && yield(set) {
			last := size - 1
			for last >= 0 && set[last] == n-size+last { // it is as large as it can be
				last--
			}
			if last < 0 {
				return
			}
			set[last]++
			for i := last + 1; i < size; i++ {
				set[i] = set[i-1] + 1
			}
		}
	}
}
