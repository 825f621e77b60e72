package openstack

import (
	"fmt"

	"warrantgate.dev/internal/ownership"
)

// Reasons of an *ownership.IdentityError, as words for metrics and status causes.
const (
	// IdentitySecretMissing: there is no Secret with the credentials.
	IdentitySecretMissing = "IdentitySecretMissing"
	// IdentityMalformed: the Secret cannot be read as Cluster API Provider OpenStack reads it, or says too little or too much.
	IdentityMalformed = "IdentityMalformed"
	// IdentityEndpointNotAllowed: the credentials are for a Keystone that is none of those configured.
	IdentityEndpointNotAllowed = "IdentityEndpointNotAllowed"
	// IdentityRefused: Keystone refuses the credentials, or Nova refuses what they are needed for.
	IdentityRefused = "IdentityRefused"
	// IdentityUnscoped: the credentials are for no project.
	IdentityUnscoped = "IdentityUnscoped"
	// IdentityDomainScoped: the credentials are for a domain, not for a project.
	IdentityDomainScoped = "IdentityDomainScoped"
	// IdentitySystemScoped: the credentials are for the whole OpenStack, not for a project.
	IdentitySystemScoped = "IdentitySystemScoped"
	// IdentityOfTrust: the credentials are those of a trust, by which somebody else acts. Only a gate refuses this.
	IdentityOfTrust = "IdentityOfTrust"
)

// unusable says what is wrong with the credentials, for the person who wrote them. The message begins with where they are.
func unusable(identity ownership.Identity, reason, format string, args ...any) *ownership.IdentityError {
	return &ownership.IdentityError{Reason: reason, Message: identity.String() + ": " + fmt.Sprintf(format, args...)}
}

// unscoped says why credentials that are for no project cannot be used where a project is needed, nil where they are.
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
