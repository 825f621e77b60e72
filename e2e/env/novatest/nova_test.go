//go:build e2e

package novatest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/novatest"
)

// world is a Nova with two projects, each with a user.
type world struct {
	keystone *keystonetest.Keystone
	nova     *novatest.Nova
	domain   string
	projects [2]string
	users    [2]keystonetest.User
}

// newWorld starts a Keystone and a Nova. Both stop with the test.
func newWorld(t *testing.T, options novatest.Options) *world {
	t.Helper()
	w := &world{}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.keystone, err = keystonetest.Start(t.Context(), keystonetest.Options{})
	check(err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := w.keystone.Stop(); err != nil {
			t.Error(err)
		}
	})
	options.Keystone = w.keystone
	began := time.Now()
	w.nova, err = novatest.Start(t.Context(), options)
	check(err)
	t.Cleanup(func() { w.stop(t) })
	t.Logf("the first response of Nova came after %s", time.Since(began).Round(100*time.Millisecond))
	w.domain, err = w.keystone.CreateDomain(t.Context(), "domain")
	check(err)
	for i, name := range []string{"a", "b"} {
		w.projects[i], err = w.keystone.CreateProject(t.Context(), w.domain, name)
		check(err)
		w.users[i], err = w.keystone.CreateUser(t.Context(), w.domain, name)
		check(err)
		check(w.keystone.Assign(t.Context(), "member", roles.AssignOpts{UserID: w.users[i].ID, ProjectID: w.projects[i]}))
	}
	return w
}

func (w *world) stop(t *testing.T) {
	t.Helper()
	if err := w.nova.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.nova.Dir()); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}

// token is a token of a user for a scope.
func (w *world) token(t *testing.T, user keystonetest.User, scope tokens.Scope) string {
	t.Helper()
	client, err := w.keystone.Login(t.Context(), user, scope)
	if err != nil {
		t.Fatal(err)
	}
	return client.Token()
}

func (w *world) tokenOf(t *testing.T, i int) string {
	t.Helper()
	return w.token(t, w.users[i], tokens.Scope{ProjectID: w.projects[i]})
}

// add adds a server of a project.
func (w *world) add(t *testing.T, i int, name string) novatest.Server {
	t.Helper()
	server, err := w.nova.AddServer(t.Context(), novatest.Server{
		Name: name, ProjectID: w.projects[i], UserID: w.users[i].ID, Metadata: map[string]string{"k": name},
	})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// client is gophercloud's client with a token.
func (w *world) client(token string) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{TokenID: token}, Endpoint: w.nova.Endpoint() + "/", Type: "compute",
	}
}

func TestNova(t *testing.T) {
	w := newWorld(t, novatest.Options{ExtraConf: "[api]\nmax_limit = 2\n"})
	t.Run("it shows a server to its project", func(t *testing.T) { showsAServer(t, w) })
	t.Run("it lists the servers of the project in pages", func(t *testing.T) { lists(t, w) })
	t.Run("its responses are those that callers expect", func(t *testing.T) { answers(t, w) })
	t.Run("it reports servers that cannot be added or removed", func(t *testing.T) { reportsFailures(t, w) })
}

func showsAServer(t *testing.T, w *world) {
	t.Helper()
	added := w.add(t, 0, "worker")
	got, err := servers.Get(t.Context(), w.client(w.tokenOf(t, 0)), added.ID).Extract()
	if err != nil {
		t.Fatalf("Get() error = %v", err)
	}
	want := novatest.Server{ID: got.ID, Name: got.Name, ProjectID: got.TenantID, UserID: got.UserID, Metadata: got.Metadata}
	if diff := cmp.Diff(added, want); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
	if got.Status != "ACTIVE" || time.Since(got.Created) > time.Minute {
		t.Errorf("server = %+v, want it active since now", got)
	}
	if err := w.nova.RemoveServer(t.Context(), added.ID); err != nil {
		t.Error(err)
	}
}

// lists reads the servers of a project, newest first, in pages of two servers ([api]max_limit).
func lists(t *testing.T, w *world) {
	t.Helper()
	var want []string
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		w.add(t, 0, name)
		w.add(t, 1, name)
		want = append([]string{name}, want...)
	}
	names := func(options servers.ListOpts) (names []string) {
		t.Helper()
		all, err := servers.List(w.client(w.tokenOf(t, 0)), options).AllPages(t.Context())
		if err != nil {
			t.Fatalf("List() error = %v", err)
		}
		found, err := servers.ExtractServers(all)
		if err != nil {
			t.Fatalf("ExtractServers() error = %v", err)
		}
		for _, server := range found {
			names = append(names, server.Name)
		}
		return names
	}
	if diff := cmp.Diff(want, names(servers.ListOpts{Limit: 100})); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b", "c"}, names(servers.ListOpts{Name: "^(b|c)$"})); diff != "" {
		t.Errorf("by name (-want +got):\n%s", diff)
	}
}

// answers tests the responses on which package openstack depends.
func answers(t *testing.T, w *world) {
	t.Helper()
	id, removed := w.add(t, 0, "worker").ID, w.add(t, 0, "gone")
	path := "/servers/" + id
	if err := w.nova.RemoveServer(t.Context(), removed.ID); err != nil {
		t.Fatal(err)
	}
	administrator, err := w.keystone.CreateUser(t.Context(), w.domain, "administrator")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.keystone.Assign(t.Context(), "admin", roles.AssignOpts{UserID: administrator.ID, ProjectID: w.projects[1]}); err != nil {
		t.Fatal(err)
	}
	balancer, err := w.keystone.CreateUser(t.Context(), w.domain, "balancer")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.keystone.Assign(t.Context(), "load-balancer_member", roles.AssignOpts{UserID: balancer.ID, ProjectID: w.projects[0]}); err != nil {
		t.Fatal(err)
	}
	own, other := w.tokenOf(t, 0), w.tokenOf(t, 1)
	for name, tc := range map[string]struct {
		token, path string
		status      int
		kind        string
	}{
		"its project":             {token: own, path: path, status: http.StatusOK, kind: "server"},
		"another project":         {token: other, path: path, status: http.StatusNotFound, kind: "itemNotFound"},
		"another's administrator": {token: w.token(t, administrator, tokens.Scope{ProjectID: w.projects[1]}), path: path, status: http.StatusOK, kind: "server"},
		"a role that Nova does not know": {
			token: w.token(t, balancer, tokens.Scope{ProjectID: w.projects[0]}), path: path, status: http.StatusOK, kind: "server",
		},
		"without a token":             {path: path, status: http.StatusUnauthorized, kind: "error"},
		"an unknown token":            {token: "x", path: path, status: http.StatusUnauthorized, kind: "error"},
		"a token of nothing":          {token: w.token(t, w.users[0], tokens.Scope{}), path: path, status: http.StatusInternalServerError, kind: "computeFault"},
		"a server that was removed":   {token: own, path: "/servers/" + removed.ID, status: http.StatusNotFound, kind: "itemNotFound"},
		"a server that never existed": {token: own, path: "/servers/" + uuid.NewString(), status: http.StatusNotFound, kind: "itemNotFound"},
		"an ID in upper case":         {token: own, path: "/servers/" + strings.ToUpper(id), status: http.StatusNotFound, kind: "itemNotFound"},
		"an unknown marker":           {token: own, path: "/servers/detail?marker=" + uuid.NewString(), status: http.StatusBadRequest, kind: "badRequest"},
		"a wrong limit":               {token: own, path: "/servers/detail?limit=x", status: http.StatusBadRequest, kind: "badRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			status, kind, requestID := w.send(t, tc.path, tc.token)
			if status != tc.status || kind != tc.kind {
				t.Errorf("the response was %d %q, want %d %q", status, kind, tc.status, tc.kind)
			}
			if !strings.HasPrefix(requestID, "req-") {
				t.Errorf("the response has the request ID %q", requestID)
			}
		})
	}
}

// send sends a request and returns the status, the first key of the body, and the request ID of the response.
func (w *world) send(t *testing.T, path, token string) (status int, kind, requestID string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.nova.Endpoint()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("X-Auth-Token", token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var text map[string]json.RawMessage
	if json.Unmarshal(body, &text) == nil && len(text) == 1 {
		for key := range text {
			kind = key
		}
	}
	return response.StatusCode, kind, response.Header.Get("X-Openstack-Request-Id")
}

func reportsFailures(t *testing.T, w *world) {
	t.Helper()
	server := w.add(t, 0, "once")
	if _, err := w.nova.AddServer(t.Context(), server); err == nil || !strings.Contains(err.Error(), "add server \"once\": 500") {
		t.Errorf("AddServer() error = %v, want that there is one of this UUID", err)
	}
	if err := w.nova.RemoveServer(t.Context(), uuid.NewString()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("RemoveServer() error = %v, want that there is none", err)
	}
}
