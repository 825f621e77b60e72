package oslopolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Domains of callers and objects in trials.
const (
	ownDomain     = "own-domain"
	foreignDomain = "foreign-domain"
)

// trial is a caller for which rules are evaluated.
type trial struct {
	label       string
	caller      Caller
	credentials map[string]any
}

// newTrials returns a caller with a token for a project, and one with a token for the domain.
func newTrials(label string, roles ...string) []trial {
	caller := Caller{User: "caller", UserDomain: ownDomain, Roles: roles}
	project, domain := caller, caller
	project.Project, project.ProjectDomain, project.AdminProject = "own-project", ownDomain, true
	domain.Domain = ownDomain
	return []trial{
		{label: label + " and a token for a project", caller: project, credentials: project.Credentials()},
		{label: label + " and a token for the domain", caller: domain, credentials: domain.Credentials()},
	}
}

// ordinaryRoles are roles of users who manage nothing.
var ordinaryRoles = []string{"load-balancer_member", "member", "reader"}

func ordinaryTrials() []trial {
	return slices.Concat(
		newTrials("any role", "any"),
		newTrials(`the role "reader"`, "reader"),
		newTrials(`the roles "load-balancer_member", "member" and "reader"`, ordinaryRoles...),
	)
}

func managerTrials(roles []string) []trial {
	var trials []trial
	for _, role := range roles {
		trials = append(trials, newTrials(fmt.Sprintf("the role %q", role), role, "member", "reader")...)
	}
	return trials
}

// setting contains the domains of the objects of a request.
type setting struct {
	label string
	// objects is the domain of users and groups, scopes the domain of projects and domains, request the domain in body and query.
	objects, scopes, request string
	// far is true if the setting is outside of the domain of a manager.
	far bool
}

// settings returns the settings that make a difference to an operation. The caller chooses body and query freely, unless the body creates the
// object or the query selects it.
func settings(operation *shippedRule) []setting {
	request := ownDomain
	if operation.isMade() || operation.Limited {
		request = foreignDomain
	}
	all := []setting{
		{label: "in another domain", objects: foreignDomain, scopes: foreignDomain, request: request, far: true},
		{label: "in its own domain", objects: ownDomain, scopes: ownDomain, request: ownDomain},
	}
	if hasWord(operation.Target, "project") && hasWord(operation.Target, "user") {
		all = append(all,
			setting{label: "whose project or domain is another one", objects: ownDomain, scopes: foreignDomain, request: request, far: true},
			setting{label: "whose user or group is of another domain", objects: foreignDomain, scopes: ownDomain, request: request, far: true})
	}
	return all
}

// attributes returns the attributes in the rules for an operation that Keystone sets.
func (l *linter) attributes(operation *shippedRule) []string {
	var names []string
	for _, rules := range slices.Compact([]*Policy{l.policy, l.before, l.own}) {
		names = append(names, asked(rules, operation.name)...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return operation.fills(name) == never })
}

// target returns a target with these attributes for a caller.
func (s setting) target(o *shippedRule, attributes []string, caller Caller) map[string]any {
	target := make(map[string]any, len(attributes))
	for _, name := range attributes {
		value, ok := o.fromToken(name, caller)
		if !ok {
			value = s.value(o, name)
		}
		if value != missing {
			target[name] = value
		}
	}
	return target
}

// asked returns the attributes in a rule, and in the rules that it refers to.
func asked(policy *Policy, name string) []string {
	var names []string
	for _, rule := range append(reached(policy, name), name) {
		walk(policy.rules[rule], func(c check, _ bool) {
			pattern, _ := templateOf(c)
			names = append(names, pattern.attributes()...)
		})
	}
	return names
}

func (s setting) value(o *shippedRule, name string) any {
	domain := s.objects
	switch {
	case isOfRequest(name):
		domain = s.request
	case isOfScope(name):
		domain = s.scopes
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case strings.Contains(name, "role.domain_id") && !o.isOfDomainRoles():
		return nil // most roles are of no domain
	case last == "domain_id", strings.HasSuffix(name, "domain.id"):
		return domain
	case strings.HasSuffix(name, "role.name"):
		return "member"
	case last == "enabled", last == "impersonation":
		return true
	}
	return "another-" + last
}

// tieToDomain is the suggestion for a rule that allows too much.
const tieToDomain = "require a role, and compare the domain of the token with those of the target"

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

// lintReach finds operations that allow requests that the base or Keystone's own rule denies: of ordinary users, and of managers outside of
// their domain.
func (l *linter) lintReach(r *rule) {
	for _, o := range l.changed(r) {
		if l.ended() || l.lintReachOf(r, o) {
			return
		}
	}
}

// lintReachOf is lintReach for one operation. It returns true after an error: a warning must not hide one about another operation.
func (l *linter) lintReachOf(r *rule, o *shippedRule) bool {
	if l.outcome(l.policy.rules[o.name], o) == neverPasses {
		return false
	}
	attributes := l.attributes(o)
	for _, s := range settings(o) {
		trials, severity := l.ordinary, SeverityWarning
		if s.far {
			severity = SeverityError
			if !o.reads() || o.Tenants {
				trials = slices.Concat(trials, l.managers)
			}
		}
		if severity == SeverityWarning && l.has(r, CodeBroaderThanDefault) {
			continue
		}
		for _, t := range trials {
			if s.far && o.Limited && t.caller.Domain != "" {
				continue
			}
			if target := s.target(o, attributes, t.caller); l.isBroader(o, l.before, target, t) {
				l.addWith(l.witness(o, l.before, t.caller, target), r, severity, CodeBroaderThanDefault,
					fmt.Sprintf("a user with %s passes %s for an object %s, which %s denies", t.label, o.name, s.label, l.reference()), tieToDomain)
				return severity == SeverityError
			}
		}
	}
	return false
}

// isBroader reports whether the policy allows a request that another policy denies. An error is a denial.
func (l *linter) isBroader(o *shippedRule, than *Policy, target map[string]any, t trial) bool {
	if passed, err := l.policy.Enforce(o.name, target, t.credentials); err != nil || !passed {
		return false
	}
	passed, err := than.Enforce(o.name, target, t.credentials)
	return err != nil || !passed
}

// lintEscalation checks whether managers or ordinary users can grant a role that is not a managed role, in their own domain.
func (l *linter) lintEscalation(r *rule) {
	for _, o := range l.changed(r) {
		if o.Granted == "" || l.ended() || l.has(r, CodeEscalation) {
			continue
		}
		than := l.own
		if o.name != r.name {
			than = l.before
		}
		managed := l.options.ManagedRoles
		if strings.Contains(o.name, "system") || strings.Contains(o.name, "implied") {
			managed = nil // managers may grant no role on the system, and create no implied role
		}
		if !l.lintGrants(r, o, than, managed) {
			l.lintGrantsOfAny(r, o, than, managed)
		}
	}
}

// lintGrants tries to grant usual roles. It reports whether there is a finding.
func (l *linter) lintGrants(r *rule, o *shippedRule, than *Policy, managed []string) bool {
	attribute := o.Granted
	target := setting{objects: ownDomain, scopes: ownDomain, request: ownDomain}.target(o, l.attributes(o), Caller{})
	roles := slices.Concat([]string{"admin", "ADMIN"}, l.options.ManagerRoles, []string{"reader", "service", "some-other-role"}, l.options.ManagedRoles)
	given := map[string]trial{}
	for _, t := range slices.Concat(l.ordinary, l.managers) {
		for _, role := range roles {
			if slices.Contains(managed, role) {
				continue
			}
			target[attribute] = role
			if _, found := given[role]; !found && l.isBroader(o, than, target, t) {
				given[role] = t
			}
		}
	}
	if len(given) == 0 {
		return false
	}
	names := slices.Sorted(maps.Keys(given))
	first := given[names[0]]
	target[attribute] = names[0]
	l.addWith(l.witness(o, than, first.caller, target), r, SeverityError, CodeEscalation,
		fmt.Sprintf("a user with %s can grant the roles %q, which a manager must not grant", first.label, names), l.grantOnly(o))
	return true
}

// grantOnly is the suggestion for a rule that grants too many roles.
func (l *linter) grantOnly(o *shippedRule) string {
	return fmt.Sprintf("allow only %q, by checks such as '%s':%%(%s)s; roles that managers may grant are listed in keystonePolicy.managedRoles (--managed-role)",
		l.options.ManagedRoles, l.options.ManagedRoles[0], o.Granted)
}

// lintGrantsOfAny searches a token of a user or manager that can grant a role that is not a managed role.
func (l *linter) lintGrantsOfAny(r *rule, o *shippedRule, than *Policy, managed []string) {
	s := l.newSearch(o, than)
	w, unknown := s.findMore(func(caller Caller, target, _ map[string]any) bool {
		role, ok := target[o.Granted].(string)
		return l.isTenant(caller) && (!ok || !slices.Contains(managed, role))
	})
	const what = "a token with %s %s a role that a manager must not grant"
	switch {
	case w == nil:
		if s.cut {
			l.noteIncomplete(r, o, s)
		}
	case len(unknown) == 0:
		l.addWith(w, r, SeverityError, CodeEscalation, fmt.Sprintf(what, w.As, "can grant"), l.grantOnly(o))
	default:
		l.add(r, SeverityError, CodeEscalation, fmt.Sprintf(what+": %s", w.As, "may grant", notEvaluated(unknown)), compareInstead)
	}
}
