package openstack

import (
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Scope is the scope of a token.
type Scope string

// Scopes.
const (
	// ProjectScope: a project.
	ProjectScope Scope = "Project"
	// DomainScope: a domain.
	DomainScope Scope = "Domain"
	// SystemScope: the whole OpenStack.
	SystemScope Scope = "System"
	// Unscoped: none.
	Unscoped Scope = "Unscoped"
)

// Token contains the properties of a token in Keystone's response, without the token itself.
type Token struct {
	// UserID, UserName, UserDomainID and UserDomain (a name) are the user. For a trust with impersonation, it is the trustor.
	UserID, UserName, UserDomainID, UserDomain string
	// Scope decides which of the following fields are set.
	Scope Scope
	// ProjectID, ProjectName, ProjectDomainID and ProjectDomain (a name) are the project of the token.
	ProjectID, ProjectName, ProjectDomainID, ProjectDomain string
	// DomainID and DomainName are the domain of the token.
	DomainID, DomainName string
	// Roles are the names of the roles of the token, including implied ones, sorted and without duplicates.
	Roles []string
	// Methods are the authentication methods, sorted, such as password or application_credential.
	Methods []string
	// IssuedAt and ExpiresAt are by Keystone's clock.
	IssuedAt, ExpiresAt time.Time
	// ApplicationCredential is the application credential of the token, nil if it has none.
	ApplicationCredential *ApplicationCredential
	// TrustID is the ID of the trust of the token, "" if it has none.
	TrustID string
	// Impersonation is true if the trustee impersonates the trustor. TrustorUserID and TrusteeUserID are the IDs of both.
	Impersonation                bool
	TrustorUserID, TrusteeUserID string
	// RequestID is the ID of the request in Keystone's log.
	RequestID string
}

// ApplicationCredential is an application credential of a user.
type ApplicationCredential struct {
	ID, Name string
	// Restricted is true if it cannot create further application credentials or trusts.
	Restricted bool
}

// clone returns a deep copy.
func (t Token) clone() Token {
	t.Roles, t.Methods = slices.Clone(t.Roles), slices.Clone(t.Methods)
	if t.ApplicationCredential != nil {
		copied := *t.ApplicationCredential
		t.ApplicationCredential = &copied
	}
	return t
}

// tokenBody is the response to an authentication, below "token" (Identity API v3, "Token authentication").
type tokenBody struct {
	Methods               []string       `json:"methods"`
	User                  tokens.User    `json:"user"`
	Project               tokens.Project `json:"project"`
	Domain                tokens.Domain  `json:"domain"`
	System                map[string]any `json:"system"`
	Roles                 []tokens.Role  `json:"roles"`
	IssuedAt              time.Time      `json:"issued_at"`
	ExpiresAt             time.Time      `json:"expires_at"`
	ApplicationCredential *struct {
		ID         string `json:"id"`
		Name       string `json:"name"`
		Restricted bool   `json:"restricted"`
	} `json:"application_credential"`
	Trust   tokens.Trust          `json:"OS-TRUST:trust"`
	Catalog []tokens.CatalogEntry `json:"catalog"`
}

// token returns the Token of the response.
func (b tokenBody) token(requestID string) Token {
	t := Token{
		UserID: b.User.ID, UserName: b.User.Name, UserDomainID: b.User.Domain.ID, UserDomain: b.User.Domain.Name, Scope: b.scope(),
		ProjectID: b.Project.ID, ProjectName: b.Project.Name, ProjectDomainID: b.Project.Domain.ID, ProjectDomain: b.Project.Domain.Name,
		DomainID: b.Domain.ID, DomainName: b.Domain.Name, Methods: sortedSet(b.Methods),
		IssuedAt: b.IssuedAt, ExpiresAt: b.ExpiresAt,
		TrustID: b.Trust.ID, Impersonation: b.Trust.Impersonation,
		TrustorUserID: b.Trust.TrustorUserID.ID, TrusteeUserID: b.Trust.TrusteeUserID.ID,
		RequestID: requestID,
	}
	var roles []string
	for _, role := range b.Roles {
		roles = append(roles, role.Name)
	}
	t.Roles = sortedSet(roles)
	if a := b.ApplicationCredential; a != nil {
		t.ApplicationCredential = &ApplicationCredential{ID: a.ID, Name: a.Name, Restricted: a.Restricted}
	}
	return t
}

func (b tokenBody) scope() Scope {
	switch {
	case b.Project.ID != "":
		return ProjectScope
	case b.Domain.ID != "":
		return DomainScope
	case len(b.System) > 0:
		return SystemScope
	}
	return Unscoped
}

func sortedSet(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
