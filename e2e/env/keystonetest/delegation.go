package keystonetest

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
)

// CreateApplicationCredential creates an application credential of a user for a project, as that user. It has all roles of the user
// on the project, unless options name some of them. The result contains the secret.
func (k *Keystone) CreateApplicationCredential(
	ctx context.Context, user User, projectID string, options applicationcredentials.CreateOpts,
) (*applicationcredentials.ApplicationCredential, error) {
	client, err := k.Login(ctx, user, tokens.Scope{ProjectID: projectID})
	if err != nil {
		return nil, err
	}
	credential, err := applicationcredentials.Create(ctx, client, user.ID, options).Extract()
	if err != nil {
		return nil, fmt.Errorf("create the application credential %s of %s: %w", options.Name, user.Name, err)
	}
	return credential, nil
}

// CreateTrust creates a trust with impersonation, as Magnum does: the trustor, with a token for the project, delegates roles there
// to the trustee. The trustee then logs in with the trust as scope.
func (k *Keystone) CreateTrust(ctx context.Context, trustor, trustee User, projectID string, roles ...string) (*trusts.Trust, error) {
	client, err := k.Login(ctx, trustor, tokens.Scope{ProjectID: projectID})
	if err != nil {
		return nil, err
	}
	options := trusts.CreateOpts{Impersonation: true, TrustorUserID: trustor.ID, TrusteeUserID: trustee.ID, ProjectID: projectID}
	for _, role := range roles {
		options.Roles = append(options.Roles, trusts.Role{Name: role})
	}
	trust, err := trusts.Create(ctx, client, options).Extract()
	if err != nil {
		return nil, fmt.Errorf("create a trust of %s for %s: %w", trustor.Name, trustee.Name, err)
	}
	return trust, nil
}
