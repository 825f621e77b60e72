package openstack

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	delegation "warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/ownership"
)

// Reasons why valid credentials of a project must not be delegated to a cluster.
const (
	// RolePrivileged: they have the role admin, or a denied role.
	RolePrivileged = "RolePrivileged"
	// RoleNotDelegable: they have a role that is neither required nor allowed.
	RoleNotDelegable = "RoleNotDelegable"
	// RoleMissing: they lack a required role.
	RoleMissing = "RoleMissing"
	// ApplicationCredentialUnrestricted: they can create further application credentials. This is a warning, unless the policy denies it.
	ApplicationCredentialUnrestricted = "ApplicationCredentialUnrestricted"
)

// maxNames and maxNameBytes are the maximum number and length of names in a message.
const maxNames, maxNameBytes = 10, 100

// plainName matches names that need no quotes in a shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._+@-]+$`)

// Delegation decides whether a cluster may use the credentials, and returns their token. The error is an *ownership.IdentityError if it may
// not, and an *ownership.UnknownError if there is no verdict.
//
// A cached token is at most 5 minutes old if it is allowed, and at most 9 seconds if it is denied.
func (c *Cloud) Delegation(ctx context.Context, identity ownership.Identity, policy delegation.CredentialPolicy) (Token, error) {
	token, err := c.token(ctx, identity, recent)
	if err != nil || delegable(identity, token, policy) == nil {
		return token, err
	}
	if token, err = c.token(ctx, identity, begunSince(time.Now().Add(-rejectionTTL))); err != nil {
		return Token{}, err
	}
	return token, delegable(identity, token, policy)
}

// DelegationNow is Delegation with a new authentication.
func (c *Cloud) DelegationNow(ctx context.Context, identity ownership.Identity, policy delegation.CredentialPolicy) (Token, error) {
	token, err := c.token(ctx, identity, begunSince(time.Now()))
	if err != nil {
		return Token{}, err
	}
	return token, delegable(identity, token, policy)
}

// delegable returns an *ownership.IdentityError if the policy does not allow the token for a cluster.
func delegable(identity ownership.Identity, token Token, policy delegation.CredentialPolicy) error {
	if err := unscoped(identity, token); err != nil {
		return err
	}
	if token.TrustID != "" {
		return unusable(identity, IdentityOfTrust, "the credentials are those of trust %.100s, with which a trustee acts for another user; use the tenant's own", token.TrustID)
	}
	if err := ofOperator(identity, token, policy.Operators); err != nil {
		return err
	}
	report := policy.Roles.Check(token.Roles)
	reason := RoleMissing
	switch {
	case report.Favorable() && policy.DenyUnrestricted && token.Unrestricted():
		return unusable(identity, ApplicationCredentialUnrestricted, "%s", token.unrestrictedMessage())
	case report.Favorable():
		return nil
	case len(report.Privileged) > 0:
		reason = RolePrivileged
	case len(report.Excess) > 0:
		reason = RoleNotDelegable
	}
	return unusable(identity, reason, "%s; %s", token.Carries(), strings.Join(remedies(token, policy.Roles, report), "; "))
}

// ofOperator returns an *ownership.IdentityError if the user or the project belongs to an operator. It uses the names and IDs in Keystone's
// response, so the form of the names in the credentials does not matter.
func ofOperator(identity ownership.Identity, token Token, operators delegation.Operators) error {
	const remedy = "belongs to the operators of this OpenStack, and no cluster may act as them; use an identity of the tenant in the tenant's own project"
	switch user, project := token.user(), token.project(); {
	case operators.IncludeUser(user):
		return unusable(identity, IdentityOfOperator, "user %.100q of domain %.100q %s", user.Name, user.DomainName, remedy)
	case operators.IncludeProject(project):
		return unusable(identity, IdentityOfOperator, "project %.100q of domain %.100q, for which user %.100q has a token, %s",
			project.Name, project.DomainName, user.Name, remedy)
	}
	return nil
}

func (t Token) user() delegation.Principal {
	return delegation.Principal{ID: t.UserID, Name: t.UserName, DomainID: t.UserDomainID, DomainName: t.UserDomain}
}

func (t Token) project() delegation.Principal {
	return delegation.Principal{ID: t.ProjectID, Name: t.ProjectName, DomainID: t.ProjectDomainID, DomainName: t.ProjectDomain}
}

// Unrestricted reports whether the token is of an application credential that can create further ones.
func (t Token) Unrestricted() bool {
	return t.ApplicationCredential != nil && !t.ApplicationCredential.Restricted
}

// UnrestrictedWarning returns the warning for credentials with this token, which is unrestricted.
func (t Token) UnrestrictedWarning(identity ownership.Identity) string {
	return identity.String() + ": " + t.unrestrictedMessage()
}

func (t Token) unrestrictedMessage() string {
	return t.bearer() + " is unrestricted: it can create further application credentials of this user, which stay valid after it is deleted; " +
		"use one that was created without --unrestricted"
}

// Carries describes the user, project and roles of the token.
func (t Token) Carries() string { return t.bearer() + " has " + rolesOf(t.Roles) }

// bearer describes the user and project of the token.
func (t Token) bearer() string {
	who := fmt.Sprintf("user %.100q", t.UserName)
	if t.ApplicationCredential != nil {
		who = fmt.Sprintf("application credential %.100q of %s", t.ApplicationCredential.Name, who)
	}
	return fmt.Sprintf("%s in project %.100q", who, t.ProjectName)
}

func rolesOf(roles []string) string {
	if len(roles) == 0 {
		return "no role"
	}
	return "the roles " + list(roles)
}

// remedies returns the problems of the roles, and the remedy for each.
func remedies(token Token, policy delegation.RolePolicy, report delegation.RoleReport) []string {
	var said []string
	if len(report.Privileged) > 0 {
		said = append(said, "too many: "+list(report.Privileged)+", with an administrator's permissions, which no cluster may have")
	}
	if len(report.Excess) > 0 {
		said = append(said, "too many: "+list(report.Excess)+", which may not be delegated")
	}
	if len(said) > 0 {
		said = append(said, insteadOf(policy))
	}
	if len(report.Missing) == 0 {
		return said
	}
	said = append(said, "missing: "+list(report.Missing), "an administrator grants it"+grants(token, report.Missing))
	if token.ApplicationCredential != nil {
		said = append(said, "then create a new application credential, because the roles of an existing one do not change")
	}
	return said
}

// insteadOf returns the remedy for too many roles.
func insteadOf(policy delegation.RolePolicy) string {
	roles := policy.Delegable()
	if len(roles) == 0 {
		return "no role may be delegated at all; the operator of warrantgate has to allow some"
	}
	return "use an identity of the tenant that has only " + list(roles) + ", or an application credential that is made with these roles only"
}

// grants returns the commands that grant the roles, as the end of a sentence. It returns "" if a shell could interpret a name differently, or
// if there are more than maxNames roles.
func grants(token Token, roles []string) string {
	if len(roles) > maxNames {
		return ""
	}
	commands := make([]string, 0, len(roles))
	for _, role := range roles {
		for _, word := range []string{token.UserID, token.ProjectID, role} {
			if !plain(word) {
				return ""
			}
		}
		commands = append(commands, fmt.Sprintf("openstack role add --user %s --project %s %s", token.UserID, token.ProjectID, role))
	}
	return ": " + strings.Join(commands, " && ")
}

// plain reports whether a name needs no quotes in a shell and in a list, and is no option of a command.
func plain(name string) bool {
	return len(name) <= maxNameBytes && plainName.MatchString(name) && !strings.HasPrefix(name, "-")
}

// list joins at most maxNames names, which other users chose. Names that are not plain are quoted.
func list(names []string) string {
	said := make([]string, 0, maxNames)
	for _, name := range names[:min(len(names), maxNames)] {
		if !plain(name) {
			name = fmt.Sprintf("%.*q", maxNameBytes, name)
		}
		said = append(said, name)
	}
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(said, ", "), more)
	}
	return strings.Join(said, ", ")
}
