package openstacktest

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestUnknownRequestsAreViolations needs no Keystone and no Nova, because no such request is forwarded. The suite openstack has the requests that are.
func TestUnknownRequestsAreViolations(t *testing.T) {
	const serverPath = "/v2.1/servers/5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	for name, tc := range map[string]struct {
		version      string // default: that of Nova
		method, path string
		header       [2]string
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
		"a microversion":   {method: http.MethodGet, path: serverPath, header: [2]string{"OpenStack-API-Version", "compute 2.79"}},
		"several tokens":   {method: http.MethodGet, path: serverPath, header: [2]string{tokenHeader, "b"}},
		"the root of Nova": {method: http.MethodGet, path: "/"},

		"an authentication by Nova": {method: http.MethodPost, path: tokensPath},
		"a server of Keystone":      {version: keystoneVersion, method: http.MethodGet, path: serverPath},
		"a token of Keystone":       {version: keystoneVersion, method: http.MethodGet, path: tokensPath},
		"the versions of Keystone":  {version: keystoneVersion, method: http.MethodGet, path: "/v3/"},
		"a token without a catalog": {version: keystoneVersion, method: http.MethodPost, path: tokensPath + "?nocatalog"},
	} {
		t.Run(name, func(t *testing.T) {
			front, err := Start("http://127.0.0.1:1" + cmp.Or(tc.version, novaVersion))
			if err != nil {
				t.Fatalf("Start() error = %v", err)
			}
			defer front.Stop()
			request := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, http.NoBody)
			request.Header.Set(tokenHeader, "a")
			if tc.header[0] != "" {
				request.Header.Add(tc.header[0], tc.header[1])
			}
			response := httptest.NewRecorder()
			front.serve(response, request)
			if response.Code != http.StatusBadRequest || len(front.Violations()) != 1 {
				t.Errorf("the response was %d, Violations() = %q, want 400 and one", response.Code, front.Violations())
			}
		})
	}
}
