package openstack

import (
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Scope is what a token is for.
type Scope string

// Scopes.
const (
	// ProjectScope: the resources of one project.
	ProjectScope Scope = "Project"
	// DomainScope: the users and projects of one domain.
	DomainScope Scope = "Domain"
	// SystemScope: the whole OpenStack.
	SystemScope Scope = "System"
	// Unscoped: nothing but who the user is.
	Unscoped Scope = "Unscoped"
)

// Token is what Keystone said of a token when it gave it out. The token itself is not part of it.
type Token struct {
	// UserID, UserName and UserDomain (a name) say whose it is. With a trust that impersonates, that is the trustor.
	UserID, UserName, UserDomain string
	// Scope says which of the fields below are set.
	Scope Scope
	// ProjectID, ProjectName and ProjectDomain (a name) are the project that the token is for.
	ProjectID, ProjectName, ProjectDomain string
	// DomainID and DomainName are the domain that the token is for.
	DomainID, DomainName string
	// Roles are the names of the roles that the user has there, implied ones included, sorted, each once.
	Roles []string
	// Methods are the ways in which the user authenticated, sorted, such as password or application_credential.
	Methods []string
	// IssuedAt and ExpiresAt are by Keystone's clock.
	IssuedAt, ExpiresAt time.Time
	// ApplicationCredential is what the token was had with, nil if it was not one.
	ApplicationCredential *ApplicationCredential
	// TrustID is the trust by which the token was had, "" if there is none.
	TrustID string
	// Impersonation tells whether the trustee of the trust appears as its trustor. TrustorUserID and TrusteeUserID are those two.
	Impersonation                bool
	TrustorUserID, TrusteeUserID string
	// RequestID is the id by which Keystone's operator finds the authentication.
	RequestID string
}

// ApplicationCredential is an application credential of a user.
type ApplicationCredential struct {
	ID, Name string
	// Restricted is true where it cannot make further credentials or trusts.
	Restricted bool
}

// clone returns a copy that shares nothing.
func (t Token) clone() Token {
	t.Roles, t.Methods = slices.Clone(t.Roles), slices.Clone(t.Methods)
	if t.ApplicationCredential != nil {
		copied := *t.ApplicationCredential
		t.ApplicationCredential = &copied
	}
	return t
}

// tokenBody is the answer to an authentication, below "token" (Identity API v3, "Token authentication").
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

// token returns what is kept of the answer.
func (b tokenBody) token(requestID string) Token {
	t := Token{
		UserID: b.User.ID, UserName: b.User.Name, UserDomain: b.User.Domain.Name, Scope: b.scope(),
		ProjectID: b.Project.ID, ProjectName: b.Project.Name, ProjectDomain: b.Project.Domain.Name,
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
