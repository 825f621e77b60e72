package identity

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// adminRole carries an administrator's power over an OpenStack. No configuration can have it delegated.
const adminRole = "admin"

// RolePolicy says which roles in OpenStack may be delegated to a cluster. Roles are compared without regard to case: Keystone
// lets a role "ADMIN" pass where its policy wants "admin". The zero value lets none be delegated.
type RolePolicy struct {
	// Required are the roles without which a cluster does not work. They may be delegated.
	Required []string
	// Allowed are the further roles that may be delegated.
	Allowed []string
	// Denied are refused by name. The role admin always is.
	Denied []string
}

// RoleReport is what a policy says of a set of roles. Roles are as they were given, sorted, each once.
type RoleReport struct {
	// Privileged are those that carry an administrator's power or are denied by name.
	Privileged []string
	// Excess are the others that may not be delegated.
	Excess []string
	// Missing are the required roles that are not there, in the words of the policy.
	Missing []string
}

// Favorable is true where the roles may be delegated.
func (r RoleReport) Favorable() bool { return len(r.Privileged)+len(r.Excess)+len(r.Missing) == 0 }

// Judge compares the roles that an identity has with the policy.
func (p RolePolicy) Judge(roles []string) RoleReport {
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

// Delegable returns the roles that may be delegated, sorted, each once.
func (p RolePolicy) Delegable() []string { return sortedRoles(slices.Concat(p.Required, p.Allowed)) }

// Validate returns what contradicts itself in the policy, at its place below root.
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
