package keystonetest

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/domains"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
)

// User is a user of Keystone who can log in.
type User struct {
	ID, Name, DomainID, Password string
}

// CreateDomain creates a domain and returns its ID. The name must be unique.
func (k *Keystone) CreateDomain(ctx context.Context, name string) (string, error) {
	domain, err := domains.Create(ctx, k.admin, domains.CreateOpts{Name: name}).Extract()
	if err != nil {
		return "", fmt.Errorf("create domain %s: %w", name, err)
	}
	return domain.ID, nil
}

// CreateProject creates a project in a domain and returns its ID.
func (k *Keystone) CreateProject(ctx context.Context, domainID, name string) (string, error) {
	project, err := projects.Create(ctx, k.admin, projects.CreateOpts{DomainID: domainID, Name: name}).Extract()
	if err != nil {
		return "", fmt.Errorf("create project %s: %w", name, err)
	}
	return project.ID, nil
}

// CreateUser creates a user in a domain, with a random password and without any role.
func (k *Keystone) CreateUser(ctx context.Context, domainID, name string) (User, error) {
	user := User{Name: name, DomainID: domainID, Password: rand.Text()}
	created, err := users.Create(ctx, k.admin, users.CreateOpts{DomainID: domainID, Name: name, Password: user.Password}).Extract()
	if err != nil {
		return User{}, fmt.Errorf("create user %s: %w", name, err)
	}
	user.ID = created.ID
	return user, nil
}

// Role returns the ID of a role. It creates the role if none has exactly this name. Keystone itself creates admin, member and
// reader, each of which implies the next.
func (k *Keystone) Role(ctx context.Context, name string) (string, error) {
	page, err := roles.List(k.admin, roles.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return "", fmt.Errorf("find role %s: %w", name, err)
	}
	found, err := roles.ExtractRoles(page)
	if err != nil {
		return "", fmt.Errorf("find role %s: %w", name, err)
	}
	for _, role := range found {
		if role.Name == name {
			return role.ID, nil
		}
	}
	role, err := roles.Create(ctx, k.admin, roles.CreateOpts{Name: name}).Extract()
	if err != nil {
		return "", fmt.Errorf("create role %s: %w", name, err)
	}
	return role.ID, nil
}

// Assign assigns a role, by its name, to a user or group on a project, a domain or the system. It creates the role if it does not
// exist.
func (k *Keystone) Assign(ctx context.Context, role string, to roles.AssignOpts) error {
	id, err := k.Role(ctx, role)
	if err != nil {
		return err
	}
	if err := roles.Assign(ctx, k.admin, id, to).ExtractErr(); err != nil {
		return fmt.Errorf("assign role %s: %w", role, err)
	}
	return nil
}

// Unassign removes an assignment. Existing tokens and application credentials lose the role too.
func (k *Keystone) Unassign(ctx context.Context, role string, from roles.UnassignOpts) error {
	id, err := k.Role(ctx, role)
	if err != nil {
		return err
	}
	if err := roles.Unassign(ctx, k.admin, id, from).ExtractErr(); err != nil {
		return fmt.Errorf("unassign role %s: %w", role, err)
	}
	return nil
}
