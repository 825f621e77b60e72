package openstack

import (
	"fmt"

	"warrantgate.dev/internal/ownership"
)

// Reasons of an *ownership.IdentityError, for metrics and status causes.
const (
	// IdentitySecretMissing: the Secret with the credentials does not exist.
	IdentitySecretMissing = "IdentitySecretMissing"
	// IdentityMalformed: the data of the Secret is invalid, incomplete or ambiguous for Cluster API Provider OpenStack.
	IdentityMalformed = "IdentityMalformed"
	// IdentityEndpointNotAllowed: the credentials are for a Keystone that is not configured.
	IdentityEndpointNotAllowed = "IdentityEndpointNotAllowed"
	// IdentityDenied: Keystone rejects the credentials, or Nova does not let them read servers.
	IdentityDenied = "IdentityDenied"
	// IdentityUnscoped: the credentials have no scope.
	IdentityUnscoped = "IdentityUnscoped"
	// IdentityDomainScoped: the credentials are scoped to a domain, not to a project.
	IdentityDomainScoped = "IdentityDomainScoped"
	// IdentitySystemScoped: the credentials are scoped to the system, not to a project.
	IdentitySystemScoped = "IdentitySystemScoped"
	// IdentityOfTrust: the credentials are those of a trust, so a trustee acts for another user. Only gates deny this.
	IdentityOfTrust = "IdentityOfTrust"
	// IdentityOfOperator: the user or the project of the credentials belongs to an operator of the OpenStack. Only gates deny this.
	IdentityOfOperator = "IdentityOfOperator"
)

// unusable returns an error for the user who wrote the credentials. The message begins with the Secret.
func unusable(identity ownership.Identity, reason, format string, args ...any) *ownership.IdentityError {
	return &ownership.IdentityError{Reason: reason, Message: identity.String() + ": " + fmt.Sprintf(format, args...)}
}

// unscoped returns an error for credentials that are not scoped to a project, otherwise nil.
func unscoped(identity ownership.Identity, token Token) error {
	const remedy = "name the project in clouds.yaml, or use an application credential of it"
	switch token.Scope {
	case ProjectScope:
		return nil
	case DomainScope:
		return unusable(identity, IdentityDomainScoped, "the credentials are for the domain %.100q, and servers belong to projects; %s", token.DomainName, remedy)
	case SystemScope:
		return unusable(identity, IdentitySystemScoped, "the credentials are for the system as a whole, and servers belong to projects; %s", remedy)
	case Unscoped:
	}
	return unusable(identity, IdentityUnscoped, "the credentials are for no project; %s", remedy)
}
