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
)

// maxNames and maxNameBytes are the maximum number and length of names in a message.
const maxNames, maxNameBytes = 10, 100

// plainName matches names that need no quotes in a shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._+@-]+$`)

// Delegation decides whether a cluster may use the credentials, and returns their token. The error is an *ownership.IdentityError if it may
// not, and an *ownership.UnknownError if there is no verdict.
//
// What is remembered of a token is at most 5 minutes old where it is allowed, and some seconds where it is refused.
func (c *Cloud) Delegation(ctx context.Context, identity ownership.Identity, policy delegation.RolePolicy) (Token, error) {
	young := begunSince(time.Now().Add(-refusalBelievedFor))
	s, err := c.session(ctx, identity, recent)
	if err != nil {
		return Token{}, err
	}
	refused := delegable(identity, s.token, policy)
	if refused == nil || young(s) {
		return s.token.clone(), refused
	}
	token, err := c.token(ctx, identity, young)
	if err != nil {
		return Token{}, err
	}
	return token, delegable(identity, token, policy)
}

// DelegationNow is Delegation by an authentication that begins after the call.
func (c *Cloud) DelegationNow(ctx context.Context, identity ownership.Identity, policy delegation.RolePolicy) (Token, error) {
	token, err := c.TokenNow(ctx, identity)
	if err != nil {
		return Token{}, err
	}
	return token, delegable(identity, token, policy)
}

// delegable returns an *ownership.IdentityError where the policy lets no cluster act with what the token stands for.
func delegable(identity ownership.Identity, token Token, policy delegation.RolePolicy) error {
	if err := unscoped(identity, token); err != nil {
		return err
	}
	if token.TrustID != "" {
		return unusable(identity, IdentityOfTrust, "the credentials are those of trust %.100s, with which a trustee acts for another user; use the tenant's own", token.TrustID)
	}
	report := policy.Judge(token.Roles)
	reason := RoleMissing
	switch {
	case report.Favorable():
		return nil
	case len(report.Privileged) > 0:
		reason = RolePrivileged
	case len(report.Excess) > 0:
		reason = RoleNotDelegable
	}
	return unusable(identity, reason, "%s has %s; %s", token.bearer(), rolesOf(token.Roles), strings.Join(remedies(token, policy, report), "; "))
}

// bearer names whose token it is as a person would.
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
		said = append(said, "too many: "+list(report.Privileged)+", with an administrator's power, which no cluster may have")
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
