package v1beta1

import "warrantgate.dev/internal/identity"

// Policy returns the delegation policy for package identity.
func (c GateConfiguration) Policy() identity.Policy {
	return identity.Policy{Users: c.Delegation.KeepWarrants.Users, Groups: c.Delegation.KeepWarrants.Groups}
}

// RolePolicy returns which OpenStack roles may be delegated, for package identity.
func (c GateConfiguration) RolePolicy() identity.RolePolicy {
	roles := c.Delegation.OpenStackRoles
	return identity.RolePolicy{Required: roles.Required, Allowed: roles.Allowed, Denied: roles.Denied}
}

// CredentialPolicy returns which OpenStack credentials a cluster may use, for package identity.
func (c GateConfiguration) CredentialPolicy() identity.CredentialPolicy {
	return identity.CredentialPolicy{
		Roles: c.RolePolicy(), Operators: c.Cluster.Delegation.Operators.policy(),
		DenyUnrestricted: c.Cluster.Delegation.UnrestrictedApplicationCredentials == DenyUnrestricted,
	}
}

func (o OpenStackOperators) policy() identity.Operators {
	patterns := func(principals []OpenStackPrincipal) []identity.PrincipalPattern {
		patterns := make([]identity.PrincipalPattern, 0, len(principals))
		for _, principal := range principals {
			patterns = append(patterns, identity.PrincipalPattern(principal))
		}
		return patterns
	}
	return identity.Operators{Users: patterns(o.Users), Projects: patterns(o.Projects)}
}
