package openstacktest_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"go.uber.org/goleak"

	"warrantgate.dev/e2e/fakes/openstacktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	projectA, projectB = "0f9d5f5e8c0d4b7e9d375b0a3c1e2d11", "9e107d9d372bb6826bd81d3542a419d6"
	userID             = "4705fb9a05914ead9d42b2e86493f9b4"
)

// validate knows the tokens "a" and "b" of the projects, "none" of no project, and fails for "broken".
func validate(_ context.Context, token string) (string, bool, error) {
	if token == "broken" {
		return "", false, errors.New("no Keystone")
	}
	projectID, ok := map[string]string{"a": projectA, "b": projectB, "none": ""}[token]
	return projectID, ok, nil
}

// world is a Nova with a client that trusts it.
type world struct {
	*openstacktest.Nova
	http *http.Client
}

func newWorld(t *testing.T, options openstacktest.Options) *world {
	t.Helper()
	options.Validate = validate
	nova, err := openstacktest.Start(options)
	if err != nil {
		t.Fatalf("Start() error = %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(nova.CAPEM())
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is one
	transport.TLSClientConfig.RootCAs = roots
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		nova.Stop()
	})
	return &world{Nova: nova, http: &http.Client{Transport: transport}}
}

// gopher is gophercloud's client with a token.
func (w *world) gopher(token string) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{TokenID: token, HTTPClient: *w.http}, Endpoint: w.Endpoint() + "/", Type: "compute",
	}
}

func (w *world) wantNoViolations(t *testing.T) {
	t.Helper()
	if violations := w.Violations(); len(violations) > 0 {
		t.Errorf("Violations() = %q, want none", violations)
	}
}

// ask sends a request and returns the answer.
func (w *world) ask(t *testing.T, method, path, token string, header ...string) (status int, kind string, answered http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(w.Endpoint(), "/v2.1")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("X-Auth-Token", token)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := w.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]struct{ Code int }
	if json.Unmarshal(body, &said) == nil {
		for key := range said {
			kind = key
		}
	}
	return response.StatusCode, kind, response.Header
}

func TestGophercloudUnderstandsAServer(t *testing.T) {
	for name, options := range map[string]openstacktest.Options{"https": {}, "http": {Plain: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options)
			added := w.AddServer(openstacktest.Server{Name: "worker", ProjectID: projectA, UserID: userID, Metadata: map[string]string{"k": "v"}})
			got, err := servers.Get(t.Context(), w.gopher("a"), added.ID).Extract()
			if err != nil {
				t.Fatalf("Get() error = %v", err)
			}
			want := openstacktest.Server{ID: got.ID, Name: got.Name, ProjectID: got.TenantID, UserID: got.UserID, Metadata: got.Metadata, Created: added.Created}
			if diff := cmp.Diff(added, want); diff != "" {
				t.Errorf("server (-want +got):\n%s", diff)
			}
			if got.Created.Unix() != added.Created.Unix() || got.Status != "ACTIVE" || got.LaunchedAt.Unix() != added.Created.Unix() {
				t.Errorf("server = %+v, want it active since %s", got, added.Created)
			}
			w.wantNoViolations(t)
		})
	}
}

func TestGophercloudUnderstandsPages(t *testing.T) {
	w := newWorld(t, openstacktest.Options{})
	w.SetMaxLimit(2)
	var want []string
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		w.AddServer(openstacktest.Server{Name: name, ProjectID: projectA})
		w.AddServer(openstacktest.Server{Name: name, ProjectID: projectB})
		want = append([]string{name}, want...)
	}
	names := func(options servers.ListOpts) (names []string) {
		t.Helper()
		all, err := servers.List(w.gopher("a"), options).AllPages(t.Context())
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
	if got := w.Count(openstacktest.ListServers); got != 3 {
		t.Errorf("%d requests, want 3", got)
	}
	if diff := cmp.Diff([]string{"b", "c"}, names(servers.ListOpts{Name: "^(b|c)$"})); diff != "" {
		t.Errorf("by name (-want +got):\n%s", diff)
	}
	w.wantNoViolations(t)
}

func TestWhoSeesAServer(t *testing.T) {
	w := newWorld(t, openstacktest.Options{})
	path := "/v2.1/servers/" + w.AddServer(openstacktest.Server{Name: "worker", ProjectID: projectA}).ID
	for name, tc := range map[string]struct {
		token, path string
		status      int
		kind        string
	}{
		"its project":         {token: "a", path: path, status: http.StatusOK, kind: "server"},
		"another project":     {token: "b", path: path, status: http.StatusNotFound, kind: "itemNotFound"},
		"nobody":              {path: path, status: http.StatusUnauthorized, kind: "error"},
		"an unknown token":    {token: "x", path: path, status: http.StatusUnauthorized, kind: "error"},
		"a token of nothing":  {token: "none", path: path, status: http.StatusForbidden, kind: "forbidden"},
		"no Keystone":         {token: "broken", path: path, status: http.StatusServiceUnavailable},
		"a wrong limit":       {token: "a", path: "/v2.1/servers/detail?limit=x", status: http.StatusBadRequest, kind: "badRequest"},
		"an unknown marker":   {token: "a", path: "/v2.1/servers/detail?marker=x", status: http.StatusBadRequest, kind: "badRequest"},
		"a name that is none": {token: "a", path: "/v2.1/servers/detail?name=%5B", status: http.StatusBadRequest, kind: "badRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			status, kind, header := w.ask(t, http.MethodGet, tc.path, tc.token)
			if status != tc.status || kind != tc.kind {
				t.Errorf("the answer was %d %q, want %d %q", status, kind, tc.status, tc.kind)
			}
			requests := w.Requests()
			last := requests[len(requests)-1]
			if header.Get("X-Openstack-Request-Id") != last.RequestID || last.Status != tc.status || last.RequestID == "" {
				t.Errorf("the answer has the id %q, recorded is %+v", header.Get("X-Openstack-Request-Id"), last)
			}
		})
	}
	w.SetAdministrators(projectB)
	if status, _, _ := w.ask(t, http.MethodGet, path, "b"); status != http.StatusOK {
		t.Errorf("an administrator gets %d, want 200", status)
	}
	w.RemoveServer(strings.TrimPrefix(path, "/v2.1/servers/"))
	if status, _, _ := w.ask(t, http.MethodGet, path, "a"); status != http.StatusNotFound {
		t.Errorf("a server that was removed: %d, want 404", status)
	}
	w.wantNoViolations(t)
}

func TestWhatIsNotKnownIsAViolation(t *testing.T) {
	const id = "/v2.1/servers/63dd227a-9502-4311-919e-cd49f3416753"
	for name, tc := range map[string]struct {
		method, path string
		header       []string
	}{
		"another path":     {method: http.MethodGet, path: "/v2.1/flavors"},
		"another version":  {method: http.MethodGet, path: "/v3" + id},
		"the short list":   {method: http.MethodGet, path: "/v2.1/servers"},
		"no UUID":          {method: http.MethodGet, path: "/v2.1/servers/x"},
		"upper case":       {method: http.MethodGet, path: strings.ToUpper(id)},
		"another method":   {method: http.MethodDelete, path: id},
		"all projects":     {method: http.MethodGet, path: "/v2.1/servers/detail?all_tenants=True"},
		"a parameter":      {method: http.MethodGet, path: id + "?limit=1"},
		"a limit, twice":   {method: http.MethodGet, path: "/v2.1/servers/detail?limit=1&limit=2"},
		"a microversion":   {method: http.MethodGet, path: id, header: []string{"OpenStack-API-Version", "compute 2.79"}},
		"several tokens":   {method: http.MethodGet, path: id, header: []string{"X-Auth-Token", "b"}},
		"the root of Nova": {method: http.MethodGet, path: "/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, openstacktest.Options{})
			status, _, _ := w.ask(t, tc.method, tc.path, "a", tc.header...)
			if status != http.StatusBadRequest || len(w.Violations()) != 1 {
				t.Errorf("the answer was %d, Violations() = %q, want 400 and one", status, w.Violations())
			}
		})
	}
}

func TestFailures(t *testing.T) {
	w := newWorld(t, openstacktest.Options{})
	path := "/v2.1/servers/" + w.AddServer(openstacktest.Server{ProjectID: projectA}).ID
	w.Fail(openstacktest.Status(http.StatusBadGateway), 1)
	for _, want := range []int{http.StatusBadGateway, http.StatusOK} {
		if status, _, _ := w.ask(t, http.MethodGet, path, "a"); status != want {
			t.Errorf("the answer was %d, want %d", status, want)
		}
	}
	hang := w.Fail(openstacktest.Hang(), 0)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := w.ask(t, http.MethodGet, path, "a")
		answered <- status
	}()
	if err := hang.WaitMet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	hang.Release()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the answer was %d once released, want 200", status)
	}

	gone := w.Fail(openstacktest.Hang(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- servers.Get(ctx, w.gopher("a"), strings.TrimPrefix(path, "/v2.1/servers/")).Err }()
	if err := gone.WaitMet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("Get() error = %v, want that it was canceled", err)
	}
	if err := gone.WaitMet(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitMet() error = %v, want that it was canceled", err)
	}
	w.wantNoViolations(t)
}

func TestATokenHasToBeChecked(t *testing.T) {
	if _, err := openstacktest.Start(openstacktest.Options{}); err == nil {
		t.Error("Start() error = nil, want that tokens cannot be checked")
	}
}
