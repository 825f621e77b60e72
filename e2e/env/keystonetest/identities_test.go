//go:build e2e

package keystonetest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"warrantgate.dev/e2e/env/keystonetest"
)

// place is the domain of a test with a project and a user in it.
type place struct {
	domain, project string
	user            keystonetest.User
}

func newPlace(t *testing.T, k *keystonetest.Keystone) place {
	t.Helper()
	var p place
	var err error
	if p.domain, err = k.CreateDomain(t.Context(), t.Name()); err != nil {
		t.Fatal(err)
	}
	if p.project, err = k.CreateProject(t.Context(), p.domain, "project"); err != nil {
		t.Fatal(err)
	}
	if p.user, err = k.CreateUser(t.Context(), p.domain, "user"); err != nil {
		t.Fatal(err)
	}
	return p
}

// assign assigns roles on the project to the user of a place.
func (p place) assign(t *testing.T, k *keystonetest.Keystone, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := k.Assign(t.Context(), name, roles.AssignOpts{UserID: p.user.ID, ProjectID: p.project}); err != nil {
			t.Fatal(err)
		}
	}
}

// token is the administrator's view of a client's token.
type token struct {
	User, Project, Domain string
	System                bool
	Roles                 []string
}

func describe(t *testing.T, k *keystonetest.Keystone, client *gophercloud.ServiceClient) token {
	t.Helper()
	var body struct {
		Roles                 []struct{ Name string }
		User, Project, Domain struct{ ID string }
		System                struct{ All bool }
	}
	if err := tokens.Get(t.Context(), k.Admin(), client.Token()).ExtractInto(&body); err != nil {
		t.Fatal(err)
	}
	described := token{User: body.User.ID, Project: body.Project.ID, Domain: body.Domain.ID, System: body.System.All}
	for _, role := range body.Roles {
		described.Roles = append(described.Roles, role.Name)
	}
	slices.Sort(described.Roles)
	return described
}

// is reports a token that differs from the wanted one.
func is(t *testing.T, k *keystonetest.Keystone, client *gophercloud.ServiceClient, want token) {
	t.Helper()
	if diff := cmp.Diff(want, describe(t, k, client)); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
}

func login(t *testing.T, k *keystonetest.Keystone, user keystonetest.User, scope tokens.Scope) *gophercloud.ServiceClient {
	t.Helper()
	client, err := k.Login(t.Context(), user, scope)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func scopes(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	p := newPlace(t, k)
	p.assign(t, k, "member")
	for role, to := range map[string]roles.AssignOpts{
		"manager": {UserID: p.user.ID, DomainID: p.domain}, "reader": {UserID: p.user.ID, System: true},
	} {
		if err := k.Assign(t.Context(), role, to); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		scope tokens.Scope
		want  token
	}{
		"project": {tokens.Scope{ProjectID: p.project}, token{Project: p.project, Roles: []string{"member", "reader"}}},
		"domain":  {tokens.Scope{DomainID: p.domain}, token{Domain: p.domain, Roles: []string{"manager"}}},
		"system":  {tokens.Scope{System: true}, token{System: true, Roles: []string{"reader"}}},
		"none":    {tokens.Scope{}, token{}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.User = p.user.ID
			is(t, k, login(t, k, p.user, tc.scope), tc.want)
		})
	}
	if _, err := k.Login(t.Context(), p.user, tokens.Scope{ProjectName: "admin", DomainID: "default"}); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("Login() where the user has no role: error = %v, want 401", err)
	}
}

func takenBack(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	p := newPlace(t, k)
	p.assign(t, k, "reader", "load-balancer_member")
	client := login(t, k, p.user, tokens.Scope{ProjectID: p.project})
	is(t, k, client, token{User: p.user.ID, Project: p.project, Roles: []string{"load-balancer_member", "reader"}})
	if err := k.Unassign(t.Context(), "load-balancer_member", roles.UnassignOpts{UserID: p.user.ID, ProjectID: p.project}); err != nil {
		t.Fatal(err)
	}
	is(t, k, client, token{User: p.user.ID, Project: p.project, Roles: []string{"reader"}})
}

func applicationCredential(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	p := newPlace(t, k)
	p.assign(t, k, "member", "load-balancer_member")
	options := applicationcredentials.CreateOpts{Name: "reading", Roles: []applicationcredentials.Role{{Name: "reader"}}}
	credential, err := k.CreateApplicationCredential(t.Context(), p.user, p.project, options)
	if err != nil {
		t.Fatal(err)
	}
	client, err := k.LoginWith(t.Context(), credential)
	if err != nil {
		t.Fatal(err)
	}
	is(t, k, client, token{User: p.user.ID, Project: p.project, Roles: []string{"reader"}})
	if _, err := k.CreateApplicationCredential(t.Context(), p.user, p.project, options); !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		t.Errorf("CreateApplicationCredential() of the same name: error = %v, want 409", err)
	}
	credential.Secret = "wrong"
	if _, err := k.LoginWith(t.Context(), credential); !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("LoginWith() with another secret: error = %v, want 401", err)
	}
}

func trust(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	p := newPlace(t, k)
	p.assign(t, k, "member", "load-balancer_member")
	trustee, err := k.CreateUser(t.Context(), p.domain, "trustee")
	if err != nil {
		t.Fatal(err)
	}
	created, err := k.CreateTrust(t.Context(), p.user, trustee, p.project, "load-balancer_member")
	if err != nil {
		t.Fatal(err)
	}
	client := login(t, k, trustee, tokens.Scope{TrustID: created.ID})
	is(t, k, client, token{User: p.user.ID, Project: p.project, Roles: []string{"load-balancer_member"}})
	// For Keystone, the trustor sends the request, and the trustee is the subject.
	if err := tokens.Get(t.Context(), client, client.Token()).Err; !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("the token of a trust validates itself: error = %v, want 403", err)
	}
	if _, err := k.CreateTrust(t.Context(), p.user, trustee, p.project, "admin"); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("CreateTrust() of a role that the trustor lacks: error = %v, want 404", err)
	}
}

func catalog(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	p := newPlace(t, k)
	p.assign(t, k, "reader")
	const compute = "http://127.0.0.1:8774/v2.1/"
	if err := k.RegisterEndpoint(t.Context(), "compute", "elsewhere", compute); err != nil {
		t.Fatal(err)
	}
	client := login(t, k, p.user, tokens.Scope{ProjectID: p.project})
	nova, err := openstack.NewComputeV2(client.ProviderClient, gophercloud.EndpointOpts{Region: "elsewhere"})
	if err != nil || nova.Endpoint != compute {
		t.Errorf("endpoint = %v, %v, want %s", nova, err, compute)
	}
	if _, err := openstack.NewComputeV2(client.ProviderClient, gophercloud.EndpointOpts{Region: keystonetest.Region}); err == nil {
		t.Error("there is a compute endpoint in a region without one")
	}
}

func many(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	p := newPlace(t, k)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 5 {
				if _, err := k.CreateUser(t.Context(), p.domain, fmt.Sprintf("user-%d-%d", worker, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// twice tests names that already exist.
func twice(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	p := newPlace(t, k)
	_, domain := k.CreateDomain(t.Context(), t.Name())
	_, project := k.CreateProject(t.Context(), p.domain, "project")
	_, user := k.CreateUser(t.Context(), p.domain, "user")
	for name, err := range map[string]error{"domain": domain, "project": project, "user": user} {
		if !gophercloud.ResponseCodeIs(err, http.StatusConflict) || !strings.Contains(err.Error(), name) {
			t.Errorf("create the %s again: error = %v, want 409", name, err)
		}
	}
}
