package oslopolicy

import (
	"fmt"
	"slices"
	"strings"
)

// lintEscalation checks whether managers or ordinary users can grant a role that is not a managed role, in their own domain.
func (l *linter) lintEscalation(r *rule) {
	for _, o := range l.changed(r) {
		if o.Granted == "" || l.ended() || l.has(r, CodeEscalation) {
			continue
		}
		than := l.own
		if o.name != r.name {
			than = l.limit
		}
		managed := l.options.ManagedRoles
		if strings.Contains(o.name, "system") || strings.Contains(o.name, "implied") {
			managed = nil // managers may grant no role on the system, and create no implied role
		}
		l.lintGrants(r, o, than, managed)
	}
}

// grantOnly is the suggestion for a rule that grants too many roles.
func (l *linter) grantOnly(o *shippedRule) string {
	return fmt.Sprintf("allow only %q, by checks such as '%s':%%(%s)s; roles that managers may grant are listed in keystonePolicy.managedRoles (--managed-role)",
		l.options.ManagedRoles, l.options.ManagedRoles[0], o.Granted)
}

// lintGrants searches a token of a user or manager that can grant a role that is not a managed role.
func (l *linter) lintGrants(r *rule, o *shippedRule, than *Policy, managed []string) {
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
