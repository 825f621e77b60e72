package openstacktest_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"warrantgate.dev/e2e/fakes/openstacktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	serverPath = "/v2.1/servers/5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	detailPath = "/v2.1/servers/detail"
)

// world is a front of a server that returns each request.
type world struct {
	*openstacktest.Front
	http *http.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, r.Header.Get("X-Auth-Token"))
	}))
	front, err := openstacktest.Start(nova.URL + "/v2.1")
	if err != nil {
		t.Fatalf("Start() error = %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(front.CAPEM())
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is one
	transport.TLSClientConfig.RootCAs = roots
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		front.Stop()
		nova.Close()
	})
	return &world{Front: front, http: &http.Client{Transport: transport}}
}

// send sends a request with the token "a" and returns the response.
func (w *world) send(ctx context.Context, method, path string, header ...string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(w.Endpoint(), "/v2.1")+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("X-Auth-Token", "a")
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := w.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return response.StatusCode, string(read), err
}

func TestKnownRequestsAreForwardedAndRecorded(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{serverPath, detailPath + "?limit=100&name=%5Ea%24"} {
		status, body, err := w.send(t.Context(), http.MethodGet, path)
		if err != nil || status != http.StatusAccepted || body != "GET "+path+" a" {
			t.Errorf("the response to %s was %d %q, %v", path, status, body, err)
		}
	}
	want := []openstacktest.Request{
		{Operation: openstacktest.GetServer, Method: "GET", Path: serverPath, Status: http.StatusAccepted},
		{Operation: openstacktest.ListServers, Method: "GET", Path: detailPath, Query: "limit=100&name=%5Ea%24", Status: http.StatusAccepted},
	}
	if diff := cmp.Diff(want, w.Requests(), cmpopts.IgnoreFields(openstacktest.Request{}, "RequestID", "Time")); diff != "" {
		t.Errorf("Requests() (-want +got):\n%s", diff)
	}
	if got := w.Count(openstacktest.ListServers); got != 1 {
		t.Errorf("Count() = %d, want 1", got)
	}
	if violations := w.Violations(); len(violations) > 0 {
		t.Errorf("Violations() = %q, want none", violations)
	}
}

func TestUnknownRequestsAreViolations(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		header       []string
	}{
		"another path":     {method: http.MethodGet, path: "/v2.1/flavors"},
		"another version":  {method: http.MethodGet, path: "/v3" + serverPath},
		"the short list":   {method: http.MethodGet, path: "/v2.1/servers"},
		"no UUID":          {method: http.MethodGet, path: "/v2.1/servers/x"},
		"upper case":       {method: http.MethodGet, path: strings.ToUpper(serverPath)},
		"another method":   {method: http.MethodDelete, path: serverPath},
		"all projects":     {method: http.MethodGet, path: detailPath + "?all_tenants=True"},
		"a parameter":      {method: http.MethodGet, path: serverPath + "?limit=1"},
		"a limit, twice":   {method: http.MethodGet, path: detailPath + "?limit=1&limit=2"},
		"a microversion":   {method: http.MethodGet, path: serverPath, header: []string{"OpenStack-API-Version", "compute 2.79"}},
		"several tokens":   {method: http.MethodGet, path: serverPath, header: []string{"X-Auth-Token", "b"}},
		"the root of Nova": {method: http.MethodGet, path: "/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			status, _, err := w.send(t.Context(), tc.method, tc.path, tc.header...)
			if err != nil || status != http.StatusBadRequest || len(w.Violations()) != 1 {
				t.Errorf("the response was %d, %v, Violations() = %q, want 400 and one", status, err, w.Violations())
			}
		})
	}
}
