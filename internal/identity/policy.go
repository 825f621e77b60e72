package identity

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Policy decides which warrants of a creator are kept in the owner of its workspace. The zero value keeps none.
//
// The warrants of a request are valid for that request. The recorded owner is valid as long as the workspace exists. So a warrant is kept
// only if the policy names it, and never if it has the permissions of an administrator, or if an impersonator can have added it. Only users
// without scopes whose requests did not come through a virtual workspace cannot be impersonated, except by system:masters.
type Policy struct {
	// Users are patterns (path.Match: *, ?, [a-z]) of user names. The warrants of these users are kept.
	Users []string
	// Groups are patterns of groups. A warrant is kept if all its groups match. system:authenticated always matches, but is not
	// sufficient.
	Groups []string
}

// Validate returns the invalid patterns, with field paths below root.
func (p Policy) Validate(root *field.Path) field.ErrorList {
	return append(validatePatterns(p.Users, root.Child("users")), validatePatterns(p.Groups, root.Child("groups"))...)
}

func validatePatterns(patterns []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, pattern := range patterns {
		if pattern == "" {
			errs = append(errs, field.Required(at.Index(i), "a pattern of names"))
			continue
		}
		errs = append(errs, validatePattern(pattern, at.Index(i))...)
	}
	return errs
}

func validatePattern(pattern string, at *field.Path) field.ErrorList {
	if _, err := path.Match(pattern, ""); err != nil {
		return field.ErrorList{field.Invalid(at, pattern, "must be a pattern of path.Match, such as \"team-*\"")}
	}
	return nil
}

// dropReason returns the reason why a warrant is dropped, or "" if it is kept. A warrant is kept or dropped as a whole: without a nested
// warrant it would be another delegation than the one that the policy names.
func (p Policy) dropReason(w carried) DropReason {
	switch {
	case w.err != nil:
		return Unreadable
	case len(privilegedIn(w.warrant.Groups, w.nested)) > 0:
		return Privileged
	case w.warrant.owner().IsServiceAccount() && len(w.warrant.Extra[ClusterNameKey]) != 1:
		return HomeInvalid
	case !p.keeps(w.warrant):
		return NotDelegated
	}
	for _, nested := range w.nested {
		if reason := p.dropReason(nested); reason != "" {
			return reason
		}
	}
	return ""
}

// keeps reports whether the policy names the warrant itself. It does not check nested warrants.
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

// privilegedGroups have the permissions of an administrator of a shard or of all workspaces (kcp, pkg/authorization/bootstrap). No
// configuration can delegate them.
var privilegedGroups = []string{
	user.SystemPrivilegedGroup,
	"system:kcp:admin",
	"system:kcp:logical-cluster-admin",
	"system:kcp:external-logical-cluster-admin",
	"system:kcp:tenancy:workspace-bootstrapper",
	// kcp binds this group, too, in every logical cluster: it is the name of the former one in maximal permission policies. Unlike the
	// others, anybody who may impersonate can claim it.
	"apis.kcp.io:binding:system:kcp:tenancy:workspace-bootstrapper",
}

// lifecyclePrefixes are the prefixes of the groups that kcp's virtual workspaces add to the requests of initializers and terminators.
var lifecyclePrefixes = []string{
	"system:kcp:initializer:",
	"system:kcp:terminator:",
}

// LifecyclePrefixes returns the prefixes of the groups that kcp's virtual workspaces add to the requests of initializers and terminators.
func LifecyclePrefixes() []string { return slices.Clone(lifecyclePrefixes) }

// PrivilegedGroups returns the groups, and the prefixes of groups, with the permissions of an administrator.
func PrivilegedGroups() (groups, prefixes []string) {
	return slices.Clone(privilegedGroups), LifecyclePrefixes()
}

// IsSystem reports whether a requester is kcp itself or an administrator of a shard: it is in system:masters, and was not impersonated in a virtual
// workspace. kcp adds a group to the requests of initializers and terminators there, and a warrant to those of an APIExport.
func IsSystem(groups, warrants []string) bool {
	return slices.Contains(groups, user.SystemPrivilegedGroup) && len(warrants) == 0 && !slices.ContainsFunc(groups, isOfLifecycle)
}

// isClaimed reports whether anybody can have sent a request as the owner, because it came through a virtual workspace: kcp has added a group
// of an initializer or terminator, or an administrator's warrant. There, the author of a WorkspaceType with initializerPermissions, or of an
// APIExport with the resources users and groups of the core group, can impersonate everybody, system:masters included, and kcp adds no scope.
func isClaimed(owner Owner) bool {
	warrants, err := readWarrants(owner.Extra)
	return err != nil || slices.ContainsFunc(owner.Groups, isOfLifecycle) || len(privilegedIn(nil, warrants)) > 0
}

func isOfLifecycle(group string) bool {
	return slices.ContainsFunc(lifecyclePrefixes, func(prefix string) bool { return strings.HasPrefix(group, prefix) })
}

// isPrivileged reports whether a group has the permissions of an administrator.
func isPrivileged(group string) bool {
	return slices.Contains(privilegedGroups, group) || isOfLifecycle(group)
}

// privilegedIn returns the privileged groups among groups and in the warrants, including nested ones, sorted and without duplicates.
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
