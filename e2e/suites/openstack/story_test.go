//go:build e2e

package openstack_test

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/novatest"
)

// Roles that a tenant has.
const member, reader, loadBalancer = "member", "reader", "load-balancer_member"

// story is a domain of Keystone with a project and its user, and a namespace with the Secret that the user put there.
type story struct {
	*world
	namespace         string
	domainID, project string
	// user is the tenant, trustee a user without any role.
	user, trustee keystonetest.User
}

// stories counts them, for the names of their domains.
var stories int

// begin creates a user with roles on a project, and the Secret with the user's password. There is no cluster yet.
func (w *world) begin(ctx context.Context, roleNames ...string) story {
	GinkgoHelper()
	stories++
	s := story{world: w, namespace: w.namespace(ctx)}
	var err error
	s.domainID, err = w.keystone.CreateDomain(ctx, fmt.Sprintf("domain-%d", stories))
	Expect(err).NotTo(HaveOccurred())
	s.project, err = w.keystone.CreateProject(ctx, s.domainID, "project")
	Expect(err).NotTo(HaveOccurred())
	s.user, s.trustee = s.newUser(ctx, "tenant", roleNames...), s.newUser(ctx, "trustee")
	s.writeSecret(ctx, credentials, s.password(s.user))
	return s
}

// beginCluster is begin for a tenant with valid credentials, with the cluster "pool".
func (w *world) beginCluster(ctx context.Context) story {
	GinkgoHelper()
	s := w.begin(ctx, member, loadBalancer)
	Expect(s.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
	return s
}

// newUser creates a user with roles on the story's project.
func (s story) newUser(ctx context.Context, name string, roleNames ...string) keystonetest.User {
	GinkgoHelper()
	user, err := s.keystone.CreateUser(ctx, s.domainID, name)
	Expect(err).NotTo(HaveOccurred())
	keepSecret(user.Password)
	for _, role := range roleNames {
		s.grant(ctx, role, user)
	}
	return user
}

func (s story) grant(ctx context.Context, role string, user keystonetest.User) {
	GinkgoHelper()
	Expect(s.keystone.Assign(ctx, role, roles.AssignOpts{UserID: user.ID, ProjectID: s.project})).To(Succeed())
}

func (s story) revoke(ctx context.Context, role string) {
	GinkgoHelper()
	Expect(s.keystone.Unassign(ctx, role, roles.UnassignOpts{UserID: s.user.ID, ProjectID: s.project})).To(Succeed())
}

// entry is the section auth of a cloud in a clouds.yaml, without the URL.
type entry map[string]string

// password is the entry of a user with a password, for the story's project.
func (s story) password(user keystonetest.User) entry {
	return entry{"user_id": user.ID, "password": user.Password, "project_id": s.project}
}

// with is the entry with another value of a key, "" for none.
func (e entry) with(key, value string) entry {
	changed := entry{key: value}
	for k, v := range e {
		if k != key {
			changed[k] = v
		}
	}
	if value == "" {
		delete(changed, key)
	}
	return changed
}

// credential creates an application credential of the story's user.
func (s story) credential(ctx context.Context, options applicationcredentials.CreateOpts) *applicationcredentials.ApplicationCredential {
	GinkgoHelper()
	if options.Name == "" {
		options.Name = "cluster"
	}
	made, err := s.keystone.CreateApplicationCredential(ctx, s.user, s.project, options)
	Expect(err).NotTo(HaveOccurred())
	keepSecret(made.Secret)
	return made
}

func entryOf(made *applicationcredentials.ApplicationCredential) entry {
	return entry{"application_credential_id": made.ID, "application_credential_secret": made.Secret}
}

// asUser is a client of Keystone with a token of the story's user.
func (s story) asUser(ctx context.Context, scope tokens.Scope) (*gophercloud.ServiceClient, error) {
	return s.keystone.Login(ctx, s.user, scope)
}

// writeSecret writes a Secret with the entry, for the configured Keystone unless the entry names another.
func (s story) writeSecret(ctx context.Context, name string, auth entry) {
	GinkgoHelper()
	if _, set := auth["auth_url"]; !set {
		auth = auth.with("auth_url", s.front.Endpoint())
	}
	s.writeFile(ctx, name, cloudsYAML(auth))
}

// cloudsYAML is a file with one cloud.
func cloudsYAML(auth entry) string {
	GinkgoHelper()
	content, err := yaml.Marshal(map[string]any{"clouds": map[string]any{cloudName: map[string]any{"auth": auth, "region_name": region}}})
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// writeFile stores a Secret with a clouds.yaml as if it were older than the gates: these stories test the objects that refer to it.
// clouds_test.go tests writes of it through the API server.
func (s story) writeFile(ctx context.Context, name, content string) {
	GinkgoHelper()
	Expect(s.api.StoreSecret(ctx, s.namespace, name, map[string][]byte{"clouds.yaml": []byte(content)})).To(Succeed())
}

func (s story) createCluster(ctx context.Context, name string, modify ...change) error {
	return s.client.Create(ctx, newObject(clusterKind, s.namespace, name, modify...))
}

// existing creates a cluster or a machine as it is, and returns it.
func (s story) existing(ctx context.Context, object *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(s.client.Create(ctx, object)).To(Succeed())
	return object
}

// machine creates a machine of the cluster "pool" that names no server.
func (s story) machine(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	return s.existing(ctx, newMachine(s.namespace, name, clusterName))
}

// machineOf creates a machine of the cluster "pool" with the name of a server, and makes it name the server. The cloud's denial of another ID is
// final then. It asks again for seconds before it denies the first one.
func (s story) machineOf(ctx context.Context, server novatest.Server) *unstructured.Unstructured {
	GinkgoHelper()
	machine := s.machine(ctx, server.Name)
	Expect(s.set(ctx, machine, instanceIDPath, server.ID)).To(Succeed())
	return machine
}

// server adds a server of the story's project.
func (s story) server(ctx context.Context, name string) novatest.Server {
	GinkgoHelper()
	server, err := s.nova.AddServer(ctx, novatest.Server{Name: name, ProjectID: s.project, UserID: s.user.ID})
	Expect(err).NotTo(HaveOccurred())
	return server
}

// foreignServer adds a server of another project.
func (w *world) foreignServer(ctx context.Context, name string) novatest.Server {
	GinkgoHelper()
	server, err := w.nova.AddServer(ctx, novatest.Server{
		Name: name, ProjectID: "9e107d9d372bb6826bd81d3542a419d6", UserID: "2f6b80d31c4e4d7ab5f93a8e6c0d7b12",
	})
	Expect(err).NotTo(HaveOccurred())
	return server
}
