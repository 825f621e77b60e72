package main

import (
	"context"
	"errors"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

// tenantIdentity is the identity that clusters refer to.
var tenantIdentity = ownership.Identity{Namespace: "tenant", Secret: "cloud-config", Entry: "tenant"}

// tenant is a user whose roles are allowed for a cluster.
type tenant struct {
	authURL string
	// secret is the data of the Secret of tenantIdentity.
	secret map[string][]byte
}

// newTenant creates a user with a project and the roles that a cluster needs. The user's Secret contains the authURL.
func newTenant(ctx context.Context, keystone *keystonetest.Keystone, authURL string) (*tenant, error) {
	domain, err := keystone.CreateDomain(ctx, "tenant")
	if err != nil {
		return nil, err
	}
	project, err := keystone.CreateProject(ctx, domain, "web")
	if err != nil {
		return nil, err
	}
	user, err := keystone.CreateUser(ctx, domain, "alice")
	if err != nil {
		return nil, err
	}
	for _, role := range []string{"member", "load-balancer_member"} {
		if err := keystone.Assign(ctx, role, roles.AssignOpts{UserID: user.ID, ProjectID: project}); err != nil {
			return nil, err
		}
	}
	clouds, err := yaml.Marshal(map[string]any{"clouds": map[string]any{tenantIdentity.Entry: map[string]any{"auth": map[string]string{
		"auth_url": authURL, "user_id": user.ID, "password": user.Password, "project_id": project,
	}}}})
	if err != nil {
		return nil, err
	}
	return &tenant{authURL: authURL, secret: map[string][]byte{"clouds.yaml": clouds}}, nil
}

// newCloud returns a checker for the tenant that has not sent a request to Keystone yet.
func (t *tenant) newCloud() (*openstack.Cloud, error) {
	return openstack.New(openstack.Options{
		AuthURLs: []string{t.authURL},
		Secrets: func(_ context.Context, namespace, name string) (map[string][]byte, error) {
			if namespace != tenantIdentity.Namespace || name != tenantIdentity.Secret {
				return nil, errors.New("the checker reads another Secret than the referenced one")
			}
			return t.secret, nil
		},
	})
}
