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

// Token contains the properties of a token in Keystone's response, without the token itself. It is shared, so it must not be changed.
type Token struct {
	// UserID, UserName, UserDomainID and UserDomain (a name) are the user. For a trust with impersonation, it is the trustor.
	UserID, UserName, UserDomainID, UserDomain string
	// Scope decides which of the following fields are set.
	Scope Scope
	// ProjectID, ProjectName, ProjectDomainID and ProjectDomain (a name) are the project of the token.
	ProjectID, ProjectName, ProjectDomainID, ProjectDomain string
	// DomainName is the domain of the token.
	DomainName string
	// Roles are the names of the roles of the token, including implied ones, sorted and without duplicates.
	Roles []string
	// ApplicationCredential is the application credential of the token, nil if it has none.
	ApplicationCredential *ApplicationCredential
	// TrustID is the ID of the trust of the token, "" if it has none.
	TrustID string
	// RequestID is the ID of the request in Keystone's log.
	RequestID string
}

// ApplicationCredential is an application credential of a user.
type ApplicationCredential struct {
	Name string `json:"name"`
	// Restricted is true if it cannot create further application credentials or trusts.
	Restricted bool `json:"restricted"`
}

// tokenBody is the response to an authentication, below "token" (Identity API v3, "Token authentication").
type tokenBody struct {
	User                  tokens.User            `json:"user"`
	Project               tokens.Project         `json:"project"`
	Domain                tokens.Domain          `json:"domain"`
	System                map[string]any         `json:"system"`
	Roles                 []tokens.Role          `json:"roles"`
	IssuedAt              time.Time              `json:"issued_at"`
	ExpiresAt             time.Time              `json:"expires_at"`
	ApplicationCredential *ApplicationCredential `json:"application_credential"`
	Trust                 tokens.Trust           `json:"OS-TRUST:trust"`
	Catalog               []tokens.CatalogEntry  `json:"catalog"`
}

// token returns the Token of the response.
func (b tokenBody) token(requestID string) Token {
	t := Token{
		UserID: b.User.ID, UserName: b.User.Name, UserDomainID: b.User.Domain.ID, UserDomain: b.User.Domain.Name, Scope: b.scope(),
		ProjectID: b.Project.ID, ProjectName: b.Project.Name, ProjectDomainID: b.Project.Domain.ID, ProjectDomain: b.Project.Domain.Name,
		DomainName: b.Domain.Name, ApplicationCredential: b.ApplicationCredential, TrustID: b.Trust.ID, RequestID: requestID,
	}
	for _, role := range b.Roles {
		t.Roles = append(t.Roles, role.Name)
	}
	slices.Sort(t.Roles)
	t.Roles = slices.Compact(t.Roles)
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
