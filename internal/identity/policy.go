package identity

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Policy says which delegations may be passed on. The zero value passes on none.
//
// Warrants that a creator arrived with were lent to it for one request. They are kept in the recorded owner, which
// lives as long as the workspace, only if the policy names them, and never if they carry an administrator's power.
type Policy struct {
	// Users are patterns (path.Match: *, ?, [a-z]) of user names whose warrants are kept.
	Users []string
	// Groups are patterns of groups. A warrant is kept if all of its groups match; system:authenticated matches
	// by itself, but is not enough.
	Groups []string
}

// Validate returns each pattern that cannot be read, at its place below root.
func (p Policy) Validate(root *field.Path) field.ErrorList {
	return append(validatePatterns(p.Users, root.Child("users")), validatePatterns(p.Groups, root.Child("groups"))...)
}

func validatePatterns(patterns []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, pattern := range patterns {
		if pattern == "" {
			errs = append(errs, field.Required(at.Index(i), "a pattern of names"))
		} else if _, err := path.Match(pattern, ""); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), pattern, "must be a pattern of path.Match, such as \"team-*\""))
		}
	}
	return errs
}

// refuses returns why a warrant is not passed on, or "". A warrant is kept or dropped as a whole: with a nested one
// taken out it would be another delegation than the one that the policy names.
func (p Policy) refuses(w carried) DropReason {
	switch {
	case w.err != nil:
		return Unreadable
	case len(privilegedIn(w.warrant.Groups, w.nested)) > 0:
		return Privileged
	case w.warrant.owner().IsServiceAccount() && len(w.warrant.Extra[ClusterNameKey]) != 1:
		return Homeless
	case !p.keeps(w.warrant):
		return Lent
	}
	for _, nested := range w.nested {
		if reason := p.refuses(nested); reason != "" {
			return reason
		}
	}
	return ""
}

// keeps tells whether the policy names the warrant itself; nested warrants are asked about one by one.
func (p Policy) keeps(w Warrant) bool {
	if w.User != "" && matchesAny(p.Users, w.User) {
		return true
	}
	named := false
	for _, group := range w.Groups {
		if group == user.AllAuthenticated {
			continue
		}
		if !matchesAny(p.Groups, group) {
			return false
		}
		named = true
	}
	return named
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// privilegedGroups carry an administrator's power over a shard or over all workspaces (kcp,
// pkg/authorization/bootstrap). No configuration can have them delegated.
var privilegedGroups = []string{
	user.SystemPrivilegedGroup,
	"system:kcp:admin",
	"system:kcp:logical-cluster-admin",
	"system:kcp:external-logical-cluster-admin",
	"system:kcp:tenancy:workspace-bootstrapper",
}

// privilegedPrefixes start the groups in which kcp's virtual workspaces act for an initializer or a terminator.
var privilegedPrefixes = []string{
	"system:kcp:initializer:",
	"system:kcp:terminator:",
}

// PrivilegedGroups returns the groups, and the prefixes of groups, that carry an administrator's power.
func PrivilegedGroups() (groups, prefixes []string) {
	return slices.Clone(privilegedGroups), slices.Clone(privilegedPrefixes)
}

// isPrivileged tells whether a group carries an administrator's power.
func isPrivileged(group string) bool {
	return slices.Contains(privilegedGroups, group) ||
		slices.ContainsFunc(privilegedPrefixes, func(prefix string) bool { return strings.HasPrefix(group, prefix) })
}

// privilegedIn returns the groups with an administrator's power among groups and at any depth of the warrants,
// sorted, each once.
func privilegedIn(groups []string, warrants []carried) []string {
	var found []string
	for _, group := range groups {
		if isPrivileged(group) {
			found = append(found, group)
		}
	}
	for _, w := range warrants {
		found = append(found, privilegedIn(w.warrant.Groups, w.nested)...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
