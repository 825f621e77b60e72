package v1beta1

import "warrantgate.dev/internal/identity"

// Policy returns the delegation policy as package identity takes it.
func (c GateConfiguration) Policy() identity.Policy {
	return identity.Policy{Users: c.Delegation.KeepWarrants.Users, Groups: c.Delegation.KeepWarrants.Groups}
}

// RolePolicy returns which OpenStack roles may be delegated, as package identity takes it.
func (c GateConfiguration) RolePolicy() identity.RolePolicy {
	roles := c.Delegation.OpenStackRoles
	return identity.RolePolicy{Required: roles.Required, Allowed: roles.Allowed, Denied: roles.Denied}
}
