package oslopolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// deadBranch is an alternative of an operation that can never match.
type deadBranch struct {
	// owner is the rule with an attribute that the operation does not have. meant is a similar attribute that it has.
	owner, attribute, meant string
}

// ownRule describes a rule that Keystone ships.
const ownRule = "Keystone's own rule"

// isBased reports whether the base has the rule or the operation.
func (l *linter) isBased(r *rule, o *shippedRule) bool { return l.based[o.name] || l.based[r.name] }

// reference describes the policy that rules are compared with.
func (l *linter) reference() string {
	if len(l.options.Base) > 0 {
		return "the base"
	}
	return ownRule
}

// tieToDomain returns the suggestion for a rule that allows too much. It names the attributes with the domains of the target.
func tieToDomain(o *shippedRule) string {
	suggestion, separator := "require a role, and compare the domain of the token with those of the target", ", by checks such as "
	for _, name := range o.known() {
		if strings.HasPrefix(name, "target.") && strings.HasSuffix(name, "id") && isDomain(o, name) {
			suggestion += separator + "token.domain.id:%(" + name + ")s"
			separator = ", "
		}
	}
	return suggestion
}

// changed returns the operations that a rule changes: its own, or, for a helper that Keystone or the base has or refers to, those that use the
// helper and are not in the files themselves. The rule "default" is used in place of rules that do not exist.
func (l *linter) changed(r *rule) []*shippedRule {
	if own := l.table.operation(r.name); own != nil {
		return []*shippedRule{own}
	}
	if l.table.rules[r.name] == nil && !l.based[r.name] && !l.missed[r.name] && r.name != defaultRule {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.users[r.name]), func(o *shippedRule) bool { return l.last[o.name] != nil })
}

// lintDifferences compares a rule with the base or with Keystone's own rule, and finds requests that are denied because of a dead alternative.
func (l *linter) lintDifferences(r *rule) {
	for _, o := range l.changed(r) {
		if l.ended() {
			return
		}
		s := l.newSearch(o, l.before)
		grants := s
		if l.limit != l.before {
			grants = l.newSearch(o, l.limit)
		}
		l.lintMore(r, o, grants)
		if grants.cut {
			l.noteIncomplete(r, o, grants)
		}
		l.lintLess(r, o, s)
		if !l.has(r, CodeNarrowerThanDefault) {
			l.lintDead(r, o)
		}
		l.noteDifferences(r, o, s)
		if s.cut || len(l.options.Base) > 0 {
			l.noteIncomplete(r, o, s)
		}
	}
}

// newSearch prepares a search that ends with the context of the linter.
func (l *linter) newSearch(o *shippedRule, before *Policy) *search {
	s := newSearch(o, before, l.policy, slices.Concat([]string{"admin"}, ordinaryRoles, l.options.ManagedRoles, l.options.ManagerRoles)...)
	s.ended = l.ended
	return s
}

// misreadCodes are the codes of errors that explain why a rule denies requests: oslo.policy reads it otherwise than it is written.
var misreadCodes = []string{
	CodeSyntax, CodeRaises, CodeMalformedCheck, CodeOperatorInList, CodeMapping, CodeUnknownRule, CodeCycle, CodeNonASCII, CodeQuotedMatch,
}

// noteDifferences adds notes for differences without a finding. They are probably intended. Rules that grant less always have a note, unless
// another finding explains it.
func (l *linter) noteDifferences(r *rule, o *shippedRule, s *search) {
	directions := []direction{less}
	switch {
	case l.options.Differences:
		directions = []direction{more, less}
	case l.isBased(r, o): // lintLess has searched
		return
	case l.counts[SeverityNote] >= MaxFindings, l.has(r, CodeNarrowerThanDefault), l.has(r, misreadCodes...):
		return
	}
	for _, which := range directions {
		code, verbs := CodeNarrowerThanDefault, [2]string{"is denied", "allows"}
		if which == more {
			code, verbs = CodeBroaderThanDefault, [2]string{"passes", "denies"}
		}
		if l.has(r, code) {
			continue
		}
		reference := l.reference()
		if which == less && !l.isBased(r, o) {
			reference = ownRule
		}
		find := s.findLoss
		if which == more {
			find = func() *Witness { return s.find(more, nil) }
		}
		if w := find(); w != nil {
			l.addWith(w, r, SeverityNote, code, fmt.Sprintf("a token with %s %s %s, which %s %s", w.As, verbs[0], o.name, reference, verbs[1]), "")
		}
	}
	l.noteIncomplete(r, o, s)
}

// admin is the role of administrators.
const admin = "admin"

// findLoss searches a request that the rule denies and the other policy allows: one of an administrator, if there is one.
func (s *search) findLoss() *Witness {
	var other *Witness
	w := s.find(less, func(caller Caller, target, completed map[string]any) bool {
		if other == nil && s.confirms(less, caller, target, completed) {
			other = s.newWitness(less, caller, target)
		}
		return hasRole(caller.Roles, admin)
	})
	return cmp.Or(w, other)
}

// noteIncomplete adds a note if a search is incomplete. It adds an error if the rule is too large to find out what it grants: it may grant
// everything.
func (l *linter) noteIncomplete(r *rule, o *shippedRule, s *search) {
	severity := SeverityNote
	if s.cut {
		severity = SeverityError
	}
	if s.incomplete == "" || l.hasOf(SeverityError, r, CodeNotCompared, CodeBroaderThanDefault) || l.hasOf(severity, r, CodeNotCompared) {
		return
	}
	l.add(r, severity, CodeNotCompared, fmt.Sprintf("not every request for %s was compared with %s: %s", o.name, l.reference(), s.incomplete), "")
}

// lintMore finds requests that the rule allows and that the base or Keystone's own rule denies. Without a base, roles that managers neither
// have nor grant are not tried: an operator may have made them for the rule. Nor are roles on the system, which only administrators grant.
func (l *linter) lintMore(r *rule, o *shippedRule, s *search) {
	if l.hasOf(SeverityError, r, CodeBroaderThanDefault) {
		return
	}
	warned, based := l.hasOf(SeverityWarning, r, CodeBroaderThanDefault), len(l.options.Base) > 0
	var inside *Witness
	var unknown []string
	w, texts := s.findMore(func(caller Caller, target, completed map[string]any) bool {
		mild := isDomainItself(target) && (o.reads() && isInside(o, caller, asOwn(completed, caller)) || hasRole(caller.Roles, admin))
		switch {
		case !based && (caller.System || !l.isTenant(caller)), !l.isTooMuch(o, caller, completed), !s.confirms(more, caller, target, completed):
			return false
		case !mild && !isInside(o, caller, completed) && !isOwn(o, caller, completed):
			return true
		case warned:
		case !mild && based && !o.reads():
			return true
		case inside == nil && (mild || !l.isManager(caller) || !isOwn(o, caller, completed)):
			inside, unknown = s.newWitness(more, caller, target), s.unknown()
		}
		return false
	})
	switch {
	case w != nil:
		l.addMore(w, texts, r, o, SeverityError)
	case inside != nil:
		l.addMore(inside, unknown, r, o, SeverityWarning)
	}
}

// addMore adds a finding for a request that is allowed, or that may be allowed because of checks whose values are unknown.
func (l *linter) addMore(w *Witness, unknown []string, r *rule, o *shippedRule, severity Severity) {
	if len(unknown) == 0 {
		suggestion := tieToDomain(o)
		if isDomainItself(w.Target) {
			suggestion = notNull
		}
		l.addWith(w, r, severity, CodeBroaderThanDefault, fmt.Sprintf("a token with %s passes %s, which %s denies", w.As, o.name, l.reference()), suggestion)
		return
	}
	l.add(r, severity, CodeBroaderThanDefault, fmt.Sprintf("a token with %s may pass %s, which %s denies: %s", w.As, o.name, l.reference(), notEvaluated(unknown)),
		compareInstead)
}

// notNull is the suggestion for a rule that compares the domain of a token without one with that of a project that acts as a domain.
const notNull = "write token.domain.id for domain_id, and token.project.domain.id for project_domain_id: these are null in tokens for another scope, and " +
	"so is the domain of a domain, which is a project too"

// isDomainItself reports whether a target is a domain in the place of a project: the ID of a domain is also one of a project without a domain.
func isDomainItself(target map[string]any) bool {
	return slices.ContainsFunc(domainsOfProjects, func(name string) bool {
		domain, ok := target[name]
		return ok && domain == nil
	})
}

// domainsOfProjects are attributes with the domain of a project. The second one is that of list_role_assignments_for_tree.
var domainsOfProjects = []string{"target.project.domain_id", "target.domain_id"}

// asOwn returns a target with the domain of the token in place of that of a domain.
func asOwn(target map[string]any, caller Caller) map[string]any {
	own := maps.Clone(target)
	for _, name := range domainsOfProjects {
		if domain, ok := target[name]; ok && domain == nil {
			own[name] = cmp.Or(caller.Domain, caller.ProjectDomain, caller.UserDomain)
		}
	}
	return own
}

// compareInstead is the suggestion for a rule that may allow too much because of a check that cannot be evaluated.
const compareInstead = "compare an attribute of the token with one of the target, or remove the check"

// notEvaluated says that the results of checks are unknown.
func notEvaluated(unknown []string) string {
	return fmt.Sprintf("%q cannot be evaluated", unknown)
}

// ordinaryRoles are roles of users who manage nothing.
var ordinaryRoles = []string{"load-balancer_member", "member", "reader"}

// isTenant reports whether a token has only roles of users and managers of a domain.
func (l *linter) isTenant(caller Caller) bool {
	return !slices.ContainsFunc(caller.Roles, func(role string) bool {
		return !hasRole(ordinaryRoles, role) && !hasRole(l.options.ManagedRoles, role) && !hasRole(l.options.ManagerRoles, role)
	})
}

// lintLess finds requests that the rule denies and that the base allows.
func (l *linter) lintLess(r *rule, o *shippedRule, s *search) {
	if !l.has(r, CodeNarrowerThanDefault) && l.isBased(r, o) {
		if w := s.findLoss(); w != nil {
			severity, suggestion := SeverityWarning, "keep the alternatives of the base, if that is not meant"
			if len(l.dead[o.name]) > 0 {
				severity, suggestion = SeverityError, ""
			}
			l.addWith(w, r, severity, CodeNarrowerThanDefault, fmt.Sprintf("a token with %s is denied %s, which the base allows", w.As, o.name), suggestion)
		}
	}
}

// isTooMuch reports whether a request that the base denies should be denied. Managers may do more within their domain, and may read what
// cannot be of another domain. An administrator of a domain may do everything in the domain that Keystone's own rule allows, because the base may
// have a mistake.
func (l *linter) isTooMuch(o *shippedRule, caller Caller, target map[string]any) bool {
	inside := isWithin(o, target, caller.Domain) || o.Limited && caller.Domain != ""
	if l.isManager(caller) {
		return !inside && (!o.reads() || canBeForeign(o, caller, target))
	}
	if !inside {
		return true
	}
	passed, err := l.own.Enforce(o.name, target, caller.Credentials())
	return err != nil || !passed
}

// isInside reports whether a request reaches only objects of the domain of the token, of its project, or of its user.
func isInside(o *shippedRule, caller Caller, target map[string]any) bool {
	return o.Limited && caller.Domain != "" || isWithin(o, target, cmp.Or(caller.Domain, caller.ProjectDomain), caller.UserDomain)
}

// isManager reports whether a token has the role of a manager, and is no administrator's.
func (l *linter) isManager(caller Caller) bool {
	return !hasRole(caller.Roles, "admin") && slices.ContainsFunc(l.options.ManagerRoles, func(role string) bool { return hasRole(caller.Roles, role) })
}

// hasRole reports whether a role is one of several, whose names are equal in any case.
func hasRole(roles []string, role string) bool {
	return slices.ContainsFunc(roles, func(other string) bool { return lower(other) == lower(role) })
}

// isWithin reports whether all domains in the target are among some that belong to the token. A grant is within the domain if the user or group
// is, and the project or domain is. A member is added within the domain if the user is, and the group is. The requester chooses the body and the
// query freely, unless the operation creates the object or lists objects by the query.
func isWithin(o *shippedRule, target map[string]any, domains ...string) bool {
	users, groups, scopes, others := false, false, false, false
	for name, value := range target {
		switch {
		case !isDomain(o, name):
			continue
		case value == "" || !slices.ContainsFunc(domains, func(domain string) bool { return value == domain }):
			return false
		case isOfScope(name):
			scopes = true
		case strings.HasPrefix(name, "target.group."):
			groups = true
		case strings.HasPrefix(name, "target.user."):
			users = true
		default:
			others = true
		}
	}
	switch {
	case hasWord(o.Target, "project") && hasWord(o.Target, "user"):
		return (users || groups || others) && scopes
	case hasWord(o.Target, "group") && hasWord(o.Target, "user"):
		return users && groups
	}
	return users || groups || scopes || others
}

// isDomain reports whether an attribute is the domain of an object of a request. The requester can add fields with any names to an object
// that the operation creates.
func isDomain(o *shippedRule, name string) bool {
	created, creates := strings.CutPrefix(o.name, prefix+"create_")
	inDomain := hasWord(objectAttributes[created], "domain_id")
	switch {
	case isSubject(o, name):
		return false
	case o.Limited && hasWord("filter_attr.domain_id filter_attr.scope.domain.id", name),
		name == "target.role.domain_id" && o.isOfDomainRoles():
		return true
	case isOfRequest(name) && !o.isMade(), strings.HasSuffix(name, "role.domain_id"):
		return false
	case isOfRequest(name):
		return inDomain && name == "request_body."+created+".domain_id" || name == "filter_attr.domain_id" && !creates
	case creates && strings.HasPrefix(name, "target."+created+"."):
		return inDomain && name == "target."+created+".domain_id"
	}
	return name == "domain_id" || name == "target.domain.name" || strings.HasSuffix(name, ".domain_id") || strings.HasSuffix(name, ".domain.id")
}

// isOfRequest reports whether an attribute is part of the body or the query.
func isOfRequest(name string) bool {
	return strings.HasPrefix(name, "request_body.") || strings.HasPrefix(name, "filter_attr.")
}

// isSubject reports whether an attribute is one of a token that the requester sends in addition, and that is not the object of the request.
func isSubject(o *shippedRule, name string) bool {
	return strings.HasPrefix(name, "target.token.") && !hasWord(o.Target, "token")
}

// isOfScope reports whether an attribute is one of the project or domain of a grant.
func isOfScope(name string) bool {
	return strings.HasPrefix(name, "target.project.") || strings.HasPrefix(name, "target.domain.") || name == "domain_id"
}

// Attributes with the ID of the user who owns the object of a request, or of the project that is or owns it. Keystone applies the filters.
const (
	ownersOfObjects = "user_id target.user_id target.user.id target.credential.user_id target.trust.trustor_user_id target.token.user_id " +
		"filter_attr.user.id filter_attr.user_id"
	projectsOfObjects = "project_id target.project.id target.limit.project_id filter_attr.scope.project.id filter_attr.parent_id"
)

// isOwn reports whether the target is the user or the project of the token, or is owned by the user. An operation that changes the relation of two
// objects is no change of one of them.
func isOwn(o *shippedRule, caller Caller, target map[string]any) bool {
	if !o.reads() && len(strings.Fields(o.Target)) > 1 {
		return false
	}
	for name, value := range target {
		if isSubject(o, name) || name == "user_id" && hasWord(o.Path, "credential_id") { // the user in the path need not be that of the credential
			continue
		}
		if hasWord(ownersOfObjects, name) && value == caller.User || hasWord(projectsOfObjects, name) && value == caller.Project && value != "" {
			return true
		}
	}
	return false
}

// canBeForeign reports whether a target can be of another domain than the token: it names another one, or it does not name all and is not the user
// or the project of the token.
func canBeForeign(o *shippedRule, caller Caller, target map[string]any) bool {
	return o.Tenants && !isOwn(o, caller, target) && !isInside(o, caller, target)
}

// lintDead finds requests that an operation denies because of a dead alternative, although Keystone's own rule and the corrected alternative
// allow them.
func (l *linter) lintDead(r *rule, o *shippedRule) {
	for _, dead := range l.dead[o.name] {
		alive := &Policy{table: l.table, rules: maps.Clone(l.policy.rules)}
		alive.rules[dead.owner] = substitute(alive.rules[dead.owner], dead.attribute, dead.meant)
		s := l.newSearch(o, alive)
		w := s.find(less, func(caller Caller, _, completed map[string]any) bool {
			passed, err := l.own.Enforce(o.name, completed, caller.Credentials())
			return err == nil && passed
		})
		if w != nil {
			l.addWith(w, r, SeverityError, CodeNarrowerThanDefault,
				fmt.Sprintf("a token with %s is denied %s, which Keystone's own rule allows: %%(%s)s never matches", w.As, o.name, dead.attribute),
				fmt.Sprintf("write %q in the rule %q", "%("+dead.meant+")s", dead.owner))
			return
		}
		s.cut = false // lintMore has looked for what the rule grants
		l.noteIncomplete(r, o, s)
	}
}

// substitute replaces an attribute in a check.
func substitute(c check, attribute, with string) check {
	replaced := func(t template) template {
		return newTemplate(strings.ReplaceAll(t.text, "%("+attribute+")", "%("+with+")"))
	}
	all := func(checks []check) []check {
		others := make([]check, len(checks))
		for i, part := range checks {
			others[i] = substitute(part, attribute, with)
		}
		return others
	}
	switch c := c.(type) {
	case notCheck:
		return notCheck{inner: substitute(c.inner, attribute, with)}
	case allCheck:
		return allCheck(all(c))
	case anyCheck:
		return anyCheck(all(c))
	case roleCheck:
		c.match = replaced(c.match)
		return c
	case genericCheck:
		c.match = replaced(c.match)
		return c
	}
	return c
}
