package keystonetest

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Login returns a client with a new token of a user for a project, a domain, the system or a trust. Without a scope, the token is
// unscoped. The client's Token() returns the token.
func (k *Keystone) Login(ctx context.Context, user User, scope tokens.Scope) (*gophercloud.ServiceClient, error) {
	client, err := k.login(ctx, &tokens.AuthOptions{UserID: user.ID, Password: user.Password, Scope: scope})
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", user.Name, err)
	}
	return client, nil
}

// LoginWith returns a client with a new token of an application credential. The credential must contain its secret.
func (k *Keystone) LoginWith(ctx context.Context, credential *applicationcredentials.ApplicationCredential) (*gophercloud.ServiceClient, error) {
	client, err := k.login(ctx, &tokens.AuthOptions{
		ApplicationCredentialID: credential.ID, ApplicationCredentialSecret: credential.Secret,
	})
	if err != nil {
		return nil, fmt.Errorf("log in by the application credential %s: %w", credential.Name, err)
	}
	return client, nil
}

func (k *Keystone) login(ctx context.Context, options *tokens.AuthOptions) (*gophercloud.ServiceClient, error) {
	provider, err := openstack.NewClient(k.authURL)
	if err != nil {
		return nil, err
	}
	if err := openstack.AuthenticateV3(ctx, provider, options, gophercloud.EndpointOpts{}); err != nil {
		return nil, err
	}
	return openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
}
