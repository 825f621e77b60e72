package v1beta1

import "warrantgate.dev/internal/identity"

// Policy returns the delegation policy in the terms of the domain.
func (c GateConfiguration) Policy() identity.Policy {
	return identity.Policy{Users: c.Delegation.KeepWarrants.Users, Groups: c.Delegation.KeepWarrants.Groups}
}

// RolePolicy returns which roles in OpenStack may be delegated, in the terms of the domain.
func (c GateConfiguration) RolePolicy() identity.RolePolicy {
	roles := c.Delegation.OpenStackRoles
	return identity.RolePolicy{Required: roles.Required, Allowed: roles.Allowed, Denied: roles.Denied}
}
