//go:build e2e

package keystonepolicy_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/keystonetest"
)

// Policies, in the order of statuses.
const (
	// shipped overrides nothing.
	shipped = iota
	// broken gives managers the needed permissions, and removes those that the administrators of domains had.
	broken
	// mended restores them, except for the three lists.
	mended
	// sound is the override without findings of the linter. It has no administrators of domains.
	sound
)

// statuses are the status codes of Keystone under each of the policies.
type statuses [sound + 1]int

// The paths of the policies.
var files = [...]string{
	shipped: filepath.Join("testdata", "shipped.yaml"),
	broken:  filepath.Join("testdata", "broken.yaml"),
	mended:  filepath.Join("testdata", "mended.yaml"),
	sound:   filepath.Join("..", "oslopolicy", "testdata", "domain-manager.yaml"),
}

// enforce applies a policy in Keystone.
func enforce(ctx context.Context, file string) {
	GinkgoHelper()
	policy, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(keystone.SetPolicy(ctx, policy)).To(Succeed())
}

// The callers. All but the cloud's administrator are in the domain of the spec.
const (
	// manager has the role manager on the domain, and a token for it.
	manager = "manager"
	// projectManager is the same user with a token for a project of the domain, with the role manager there.
	projectManager = "manager with a token for a project"
	// domainAdmin has the role admin on the domain, as the user of Magnum has on the domain of trustees, and a token for it.
	domainAdmin = "administrator of the domain"
	// cloudAdmin has the role admin on the admin project, and a token for it.
	cloudAdmin = "cloud administrator"
	// tenant has the role member on a project of the domain, and a token for it.
	tenant = "tenant"
)

// place is a domain with its objects.
type place struct {
	domain, project, group string
	user                   keystonetest.User
}

// The domain of a call. Nowhere is for a call that names none.
const (
	own     = "the own domain"
	other   = "another domain"
	nowhere = "no domain"
)

// world is the part of the state that a spec has for itself.
type world struct {
	places  map[string]place
	roles   map[string]string
	callers map[string]caller
}

// newWorld creates two domains and the callers, under the rules that Keystone ships.
func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	enforce(ctx, files[shipped])
	w := &world{places: map[string]place{own: newPlace(ctx), other: newPlace(ctx)}, roles: map[string]string{}, callers: map[string]caller{}}
	for _, role := range []string{"admin", "manager", "member", "load-balancer_member", "reader"} {
		id, err := keystone.Role(ctx, role)
		Expect(err).NotTo(HaveOccurred())
		w.roles[role] = id
	}
	home := w.places[own]
	onDomain, onProject := tokens.Scope{DomainID: home.domain}, tokens.Scope{ProjectID: home.project}
	managing := newUser(ctx, home)
	w.callers[manager] = newCaller(ctx, managing, "manager", onDomain)
	w.callers[projectManager] = newCaller(ctx, managing, "manager", onProject)
	w.callers[domainAdmin] = newCaller(ctx, newUser(ctx, home), "admin", onDomain)
	w.callers[tenant] = newCaller(ctx, newUser(ctx, home), "member", onProject)
	w.callers[cloudAdmin] = describe(ctx, keystone.Admin())
	return w
}

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	domain, err := keystone.CreateDomain(ctx, rand.Text())
	Expect(err).NotTo(HaveOccurred())
	project, err := keystone.CreateProject(ctx, domain, "project")
	Expect(err).NotTo(HaveOccurred())
	group, err := groups.Create(ctx, keystone.Admin(), groups.CreateOpts{DomainID: domain, Name: "group"}).Extract()
	Expect(err).NotTo(HaveOccurred())
	p := place{domain: domain, project: project, group: group.ID}
	p.user = newUser(ctx, p)
	return p
}

func newUser(ctx context.Context, p place) keystonetest.User {
	GinkgoHelper()
	user, err := keystone.CreateUser(ctx, p.domain, rand.Text())
	Expect(err).NotTo(HaveOccurred())
	return user
}

// newCaller gives a user a role on the scope of a token, and requests the token.
func newCaller(ctx context.Context, user keystonetest.User, role string, scope tokens.Scope) caller {
	GinkgoHelper()
	to := roles.AssignOpts{UserID: user.ID, ProjectID: scope.ProjectID, DomainID: scope.DomainID}
	Expect(keystone.Assign(ctx, role, to)).To(Succeed())
	client, err := keystone.Login(ctx, user, scope)
	Expect(err).NotTo(HaveOccurred())
	return describe(ctx, client)
}

// caller is a user with a token.
type caller struct {
	*gophercloud.ServiceClient
	// user, domain and project are the IDs of the user and of the scope of the token.
	user, domain, project string
	// as describes the token to warrantgate.
	as string
}

// describe reads a token in Keystone.
func describe(ctx context.Context, client *gophercloud.ServiceClient) caller {
	GinkgoHelper()
	type owned struct {
		ID     string
		Domain struct{ ID string }
	}
	var token struct {
		User, Project  owned
		Domain         struct{ ID string }
		Roles          []struct{ Name string }
		IsAdminProject bool `json:"is_admin_project"`
	}
	Expect(tokens.Get(ctx, keystone.Admin(), client.Token()).ExtractInto(&token)).To(Succeed())
	as := "user=" + token.User.ID + ",user-domain=" + token.User.Domain.ID
	for _, role := range token.Roles {
		as += ",role=" + role.Name
	}
	if token.Domain.ID != "" {
		as += ",domain=" + token.Domain.ID
	}
	if token.Project.ID != "" {
		as += ",project=" + token.Project.ID + ",project-domain=" + token.Project.Domain.ID
	}
	if token.IsAdminProject {
		as += ",admin-project=true"
	}
	return caller{ServiceClient: client, user: token.User.ID, domain: token.Domain.ID, project: token.Project.ID, as: as}
}
