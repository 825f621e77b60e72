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

// Reasons why credentials are not to be delegated to a cluster although they are good for a project.
const (
	// RolePrivileged: they carry a role with an administrator's power, or one that is denied by name.
	RolePrivileged = "RolePrivileged"
	// RoleNotDelegable: they carry a role that is not among those which may be delegated.
	RoleNotDelegable = "RoleNotDelegable"
	// RoleMissing: they lack a role without which a cluster does not work.
	RoleMissing = "RoleMissing"
)

// maxNames and maxNameBytes bound the names in a message, in number and length.
const maxNames, maxNameBytes = 10, 100

// plainName needs no quotes in a shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._+@-]+$`)

// Delegation finds out whether a cluster may act with the credentials, and what Keystone says of them. The error is an
// *ownership.IdentityError where it must not, and an *ownership.UnknownError where it cannot be told.
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
		return unusable(identity, IdentityOfTrust, "the credentials are those of trust %.100s, by which somebody else acts; use the tenant's own", token.TrustID)
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

// remedies say what is wrong with the roles, and what to do about each.
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
		said = append(said, "then make the application credential anew, as one keeps the roles that it was made with")
	}
	return said
}

// insteadOf says what to use in place of an identity that has too many roles.
func insteadOf(policy delegation.RolePolicy) string {
	roles := policy.Delegable()
	if len(roles) == 0 {
		return "no role may be delegated at all; whoever runs warrantgate has to allow some"
	}
	return "use an identity of the tenant that has only " + list(roles) + ", or an application credential that is made with these roles only"
}

// grants returns the commands that give the user the roles, as the end of a sentence. There are none where a name could mean
// something else to a shell, or the names are more than a message can carry.
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

// plain tells whether a name means nothing but itself to a shell, to the command that it is given to, and in a list.
func plain(name string) bool {
	return len(name) <= maxNameBytes && plainName.MatchString(name) && !strings.HasPrefix(name, "-")
}

// list joins names that somebody else chose, no more than a message can carry. Those that could be misread are in quotes.
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
