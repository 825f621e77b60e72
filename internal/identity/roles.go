package identity

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// adminRole is the role of administrators of an OpenStack. No configuration can delegate it.
const adminRole = "admin"

// RolePolicy decides which OpenStack roles may be delegated to a cluster. Names of roles are not case-sensitive, as in policies of
// Keystone, where the role "ADMIN" has the permissions of "admin". The zero value allows no roles.
type RolePolicy struct {
	// Required are the roles that a cluster must have. They may be delegated.
	Required []string
	// Allowed are the other roles that may be delegated.
	Allowed []string
	// Denied are roles that must not be delegated. The role admin is always denied.
	Denied []string
}

// RoleReport is the result of a policy for a set of roles. Roles are sorted and without duplicates.
type RoleReport struct {
	// Privileged are the role admin and the denied roles.
	Privileged []string
	// Excess are the other roles that may not be delegated.
	Excess []string
	// Missing are the missing required roles, as written in the policy.
	Missing []string
}

// Favorable reports whether the roles may be delegated.
func (r RoleReport) Favorable() bool { return len(r.Privileged)+len(r.Excess)+len(r.Missing) == 0 }

// Check compares the roles of an identity with the policy.
func (p RolePolicy) Check(roles []string) RoleReport {
	var report RoleReport
	for _, role := range sortedRoles(roles) {
		switch {
		case strings.EqualFold(role, adminRole) || containsRole(p.Denied, role):
			report.Privileged = append(report.Privileged, role)
		case !containsRole(p.Allowed, role) && !containsRole(p.Required, role):
			report.Excess = append(report.Excess, role)
		}
	}
	for _, role := range sortedRoles(p.Required) {
		if !containsRole(roles, role) {
			report.Missing = append(report.Missing, role)
		}
	}
	return report
}

// Delegable returns the roles that may be delegated, sorted and without duplicates.
func (p RolePolicy) Delegable() []string { return sortedRoles(slices.Concat(p.Required, p.Allowed)) }

// Validate returns the contradictions in the policy, with field paths below root.
func (p RolePolicy) Validate(root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name      string
		roles     []string
		delegated bool
	}{{"required", p.Required, true}, {"allowed", p.Allowed, true}, {"denied", p.Denied, false}} {
		for i, role := range list.roles {
			at := root.Child(list.name).Index(i)
			switch {
			case strings.TrimSpace(role) == "":
				errs = append(errs, field.Required(at, "the name of a role"))
			case list.delegated && strings.EqualFold(role, adminRole):
				errs = append(errs, field.Forbidden(at, "an administrator's role is never delegated"))
			case list.delegated && containsRole(p.Denied, role):
				errs = append(errs, field.Invalid(at, role, "is among those denied as well"))
			}
		}
	}
	return errs
}

func containsRole(roles []string, role string) bool {
	return slices.ContainsFunc(roles, func(other string) bool { return strings.EqualFold(other, role) })
}

func sortedRoles(roles []string) []string {
	sorted := slices.Clone(roles)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
