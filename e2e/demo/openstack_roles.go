package main

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/e2e/env/keystonetest"
)

const (
	// projectName is the project of the tenant. One user with roles in it is an administrator, the other is the tenant.
	projectName, operatorName, tenantName = "web", "operator", "dave"
	// clusterName is the cluster that acts as one of them.
	clusterName = "pool"
)

// denyAdministrator creates a cluster that acts as an administrator, and then one that acts as the tenant.
func denyAdministrator(ctx context.Context, d *demo) error {
	if d.keystone == nil {
		d.skipped++
		d.say("Skipped, because it needs a Keystone.")
		return nil
	}
	domain, err := d.keystone.CreateDomain(ctx, tenant)
	if err != nil {
		return err
	}
	project, err := d.keystone.CreateProject(ctx, domain, projectName)
	if err != nil {
		return err
	}
	own := []string{"member", "load-balancer_member"}
	operator, err := d.newUser(ctx, domain, project, operatorName, append([]string{"admin"}, own...)...)
	if err != nil {
		return err
	}
	user, err := d.newUser(ctx, domain, project, tenantName, own...)
	if err != nil {
		return err
	}

	c := d.machines.api.Client()
	secret, err := d.credentials(operator, project)
	if err != nil {
		return err
	}
	d.say("A cluster should act with the clouds.yaml of Secret %s, which has the password of %s, an administrator of OpenStack:",
		identitySecret, operatorName)
	d.quote("CREATE Secret " + identitySecret)
	err = c.Create(ctx, secret)
	if err := d.showDenial(err, "RolePrivileged", operatorName, projectName, "too many: admin"); err != nil {
		return err
	}

	if secret, err = d.credentials(user, project); err != nil {
		return err
	}
	if err := c.Create(ctx, secret); err != nil {
		return err
	}
	d.say("With the password of %s, who has the roles member and load-balancer_member in project %s, the Secret and the cluster "+
		"are accepted:", tenantName, projectName)
	d.quote("CREATE OpenStackCluster " + clusterName)
	return c.Create(ctx, openStackCluster(clusterName))
}

// newUser creates a user with roles on a project.
func (d *demo) newUser(ctx context.Context, domain, project, name string, names ...string) (keystonetest.User, error) {
	user, err := d.keystone.CreateUser(ctx, domain, name)
	if err != nil {
		return user, err
	}
	for _, role := range names {
		if err := d.keystone.Assign(ctx, role, roles.AssignOpts{UserID: user.ID, ProjectID: project}); err != nil {
			return user, err
		}
	}
	return user, nil
}

// credentials is the Secret with which a cluster acts as a user, for a project.
func (d *demo) credentials(user keystonetest.User, project string) (*corev1.Secret, error) {
	clouds, err := yaml.Marshal(map[string]any{"clouds": map[string]any{identityCloud: map[string]any{"auth": map[string]string{
		"auth_url": d.keystone.AuthURL(), "user_id": user.ID, "password": user.Password, "project_id": project,
	}}}})
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: identitySecret}, Data: map[string][]byte{"clouds.yaml": clouds},
	}, err
}
