package cloudsigmatest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	cloudsigma "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"
	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// apiError returns the fields of the API error that the SDK decoded.
func apiError(t *testing.T, err error) (status int, kind, message, requestID string) {
	t.Helper()
	response := (*cloudsigma.ErrorResponse)(nil)
	if !errors.As(err, &response) || len(response.Errors) != 1 {
		t.Fatalf("error = %v, want an error of the API", err)
	}
	return response.Response.StatusCode, response.Errors[0].Type, response.Errors[0].Message, response.Response.RequestID
}

func TestGetServer(t *testing.T) {
	w := newWorld(t)
	const id = "11111111-2222-4333-8444-555555555555"
	w.AddServer(region, w.alice, "own", cloudsigmatest.WithUUID(id), cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, "uid-1"))
	shared := w.AddServer(region, w.bob, "shared", cloudsigmatest.SharedWith(alice))
	elsewhere := w.AddServer("next", w.alice, "elsewhere")
	sdk := w.sdkOf(w.aliceToken(t))

	server, response, err := sdk.Servers.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get() error = %v", err)
	}
	got := cloudsigma.Server{UUID: server.UUID, Name: server.Name, Status: server.Status, Meta: server.Meta, Owner: server.Owner}
	want := cloudsigma.Server{
		UUID: id, Name: "own", Status: "running", Meta: map[string]any{"machine-uid": "uid-1"},
		Owner: &cloudsigma.ResourceLink{UUID: w.alice.UUID, ResourceURI: "/api/2.0/user/" + w.alice.UUID + "/"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
	if !slices.Contains(w.Secrets(), server.VNCPassword) {
		t.Error("Secrets() lacks the server's VNC password")
	}
	requests := w.Requests()
	last := requests[len(requests)-1]
	last.Time = w.Requests()[0].Time
	wantRequest := cloudsigmatest.Request{
		Operation: cloudsigmatest.GetServer, Method: http.MethodGet, Path: "/direct.zrh/api/2.0/servers/" + id + "/",
		User: alice, Region: region, RequestID: response.RequestID, Time: last.Time, Status: http.StatusOK,
	}
	if diff := cmp.Diff(wantRequest, last); diff != "" {
		t.Errorf("last request (-want +got):\n%s", diff)
	}
	if want := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(requests)); response.RequestID != want {
		t.Errorf("request ID = %q, want %q", response.RequestID, want)
	}
	if server, _, err := sdk.Servers.Get(t.Context(), shared.UUID); err != nil || server.Owner.UUID != w.bob.UUID {
		t.Errorf("shared server: %v, error = %v; want bob's", server, err)
	}
	_, _, err = sdk.Servers.Get(t.Context(), elsewhere.UUID)
	if status, kind, _, _ := apiError(t, err); status != http.StatusNotFound || kind != "notexist" {
		t.Errorf("server of another region: %d %s, want 404 notexist", status, kind)
	}
	w.wantNoViolations(t)
}

func TestGetForeignServer(t *testing.T) {
	w := newWorld(t)
	foreign := w.AddServer(region, w.bob, "foreign")
	token := w.aliceToken(t)
	_, _, err := w.sdkOf(token).Servers.Get(t.Context(), foreign.UUID)
	status, kind, message, requestID := apiError(t, err)
	want := fmt.Sprintf("User %s does not have all of the permissions [LIST] in order to complete the operation on resources [%s]",
		w.alice.UUID, foreign.UUID)
	if status != http.StatusForbidden || kind != "permission" || message != want || requestID == "" {
		t.Errorf("apiError = %d %s %q %q, want 403 permission %q", status, kind, message, requestID, want)
	}

	path := strings.ReplaceAll(w.APITemplate(), "{region}", region) + "servers/" + foreign.UUID + "/"
	header := http.Header{"Authorization": {"Bearer " + token}}
	body := w.do(t, http.MethodGet, path, header, "").body
	wantBody := `[{"error_type":"permission","error_message":"` + want + `","error_point":null}]` + "\n"
	if diff := cmp.Diff(wantBody, string(body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestListServers(t *testing.T) {
	w := newWorld(t)
	want := []string{}
	for i := range 25 {
		want = append(want, w.AddServer(region, w.alice, fmt.Sprintf("worker-%d", i/2)).UUID)
	}
	shared := w.AddServer(region, w.bob, "worker-0", cloudsigmatest.SharedWith(alice))
	w.AddServer(region, w.bob, "worker-0")
	w.AddServer("next", w.alice, "worker-0")
	want = append(want, shared.UUID)
	token := w.aliceToken(t)

	for name, tc := range map[string]struct {
		path string
		want []string
		meta string
	}{
		"the first page":          {"servers/detail/", want[:20], `{"limit":20,"offset":0,"total_count":26}`},
		"the second page":         {"servers/detail/?offset=20", want[20:], `{"limit":20,"offset":20,"total_count":26}`},
		"a page of one":           {"servers/detail/?limit=1&offset=3", want[3:4], `{"limit":1,"offset":3,"total_count":26}`},
		"everything":              {"servers/detail/?limit=0", want, `{"limit":0,"offset":0,"total_count":26}`},
		"beyond the end":          {"servers/detail/?offset=99", []string{}, `{"limit":20,"offset":99,"total_count":26}`},
		"by name":                 {"servers/detail/?name=worker-0", []string{want[0], want[1], shared.UUID}, `{"limit":20,"offset":0,"total_count":3}`},
		"a name without a server": {"servers/detail/?name=worker", []string{}, `{"limit":20,"offset":0,"total_count":0}`},
		"the short list":          {"servers/?limit=2", want[:2], `{"limit":2,"offset":0,"total_count":26}`},
		"the short list by name":  {"servers/?name=worker-12", want[24:25], `{"limit":20,"offset":0,"total_count":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.do(t, http.MethodGet, strings.ReplaceAll(w.APITemplate(), "{region}", region)+tc.path,
				http.Header{"Authorization": {"Bearer " + token}}, "")
			var list struct {
				Meta    json.RawMessage  `json:"meta"`
				Objects []map[string]any `json:"objects"`
			}
			if err := json.Unmarshal(got.body, &list); err != nil || got.status != http.StatusOK {
				t.Fatalf("list = %d %s, error = %v", got.status, got.body, err)
			}
			ids := []string{}
			for _, object := range list.Objects {
				id, _ := object["uuid"].(string)
				ids = append(ids, id)
				if _, detailed := object["meta"]; detailed != strings.Contains(tc.path, "detail") {
					t.Errorf("object has details: %t", detailed)
				}
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.meta, string(list.Meta)); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
		})
	}
	servers, response, err := w.sdkOf(token).Servers.List(t.Context())
	if err != nil || len(servers) != 20 || response.Meta.TotalCount != 26 {
		t.Errorf("the SDK sees %d of %v servers, error = %v; want 20 of 26", len(servers), response.Meta, err)
	}
	w.wantNoViolations(t)
}

func TestAuthentication(t *testing.T) {
	w := newWorld(t)
	account, token := w.mustAccountToken(t), w.aliceToken(t)
	w.AllowPassword(bob, "legacy-canary")
	elsewhere := newWorld(t)
	for name, credentials := range map[string]cloudsigma.CredentialsProvider{
		"a token for another audience":             cloudsigma.NewTokenCredentialsProvider(account),
		"a forged token":                           cloudsigma.NewTokenCredentialsProvider(forge(token)),
		"the token of another cloud":               cloudsigma.NewTokenCredentialsProvider(elsewhere.aliceToken(t)),
		"not a token":                              cloudsigma.NewTokenCredentialsProvider("guess"),
		"a password, while passwords are off":      cloudsigma.NewUsernamePasswordCredentialsProvider(alice, "secret"),
		"a wrong password, while passwords are on": cloudsigma.NewUsernamePasswordCredentialsProvider(bob, "guess"),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.sdk(credentials).Profile.Get(t.Context())
			if status, kind, _, _ := apiError(t, err); status != http.StatusUnauthorized || kind != "permission" {
				t.Errorf("apiError = %d %s, want 401 permission", status, kind)
			}
		})
	}
	legacy := w.sdk(cloudsigma.NewUsernamePasswordCredentialsProvider(bob, "legacy-canary"))
	if profile, _, err := legacy.Profile.Get(t.Context()); err != nil || profile.UUID != w.bob.UUID {
		t.Errorf("with a password: profile = %v, error = %v; want bob's", profile, err)
	}
	if !slices.Contains(w.Secrets(), "legacy-canary") {
		t.Error("Secrets() lacks the password")
	}

	sdk := w.sdkOf(token)
	if _, _, err := sdk.Profile.Get(t.Context()); err != nil {
		t.Errorf("Get() error = %v", err)
	}
	w.RevokeTokens(alice)
	_, _, err := sdk.Profile.Get(t.Context())
	if status, _, _, _ := apiError(t, err); status != http.StatusUnauthorized {
		t.Errorf("with a revoked token: %d, want 401", status)
	}
	w.wantNoViolations(t)
}

func TestHosts(t *testing.T) {
	w := newWorld(t)
	foreign, own := w.AddServer(region, w.bob, "foreign"), w.AddServer(region, w.alice, "own")
	account := w.AddUser("service-account-" + w.partner.ID)
	subject := w.mustAccountToken(t)
	_, ticket := w.ticket(t, subject)
	rpt, _ := ticket["access_token"].(string)
	_, impersonated := w.impersonate(t, rpt, subject, alice)
	token, _ := impersonated["access_token"].(string)
	for what, token := range map[string]string{"exchanged": w.aliceToken(t), "impersonated": token} {
		direct, other := w.sdkOf(token), w.sdk(cloudsigma.NewTokenCredentialsProvider(token))
		if profile, _, err := direct.Profile.Get(t.Context()); err != nil || profile.UUID != w.alice.UUID {
			t.Errorf("%s token at the direct host: profile = %v, error = %v; want alice's", what, profile, err)
		}
		if profile, _, err := other.Profile.Get(t.Context()); err != nil || profile.UUID != account.UUID || profile.Email != account.Email {
			t.Errorf("%s token at the other host: profile = %v, error = %v; want the service account's", what, profile, err)
		}
		for _, id := range []string{own.UUID, foreign.UUID} {
			_, _, err := other.Servers.Get(t.Context(), id)
			if status, kind, message, _ := apiError(t, err); status != http.StatusForbidden || kind != "permission" ||
				!strings.HasPrefix(message, "User "+account.UUID+" ") {
				t.Errorf("%s token at the other host: %d %s %q, want 403 for the service account", what, status, kind, message)
			}
		}
		requests := w.Requests()
		if last := requests[len(requests)-1]; last.User != account.Email || last.Region != region {
			t.Errorf("last request = %+v, want one of %s in %s", last, account.Email, region)
		}
	}
	w.wantNoViolations(t)

	w.AllowPassword(bob, "legacy-canary")
	_, _, err := w.sdkAt("direct."+region, cloudsigma.NewUsernamePasswordCredentialsProvider(bob, "legacy-canary")).Profile.Get(t.Context())
	if status, _, _, _ := apiError(t, err); status != http.StatusUnauthorized || len(w.Violations()) != 1 {
		t.Errorf("a password at the direct host: %d, violations %q; want 401 and one violation", status, w.Violations())
	}
}

func TestViolations(t *testing.T) {
	w := newWorld(t)
	bearer := "Bearer " + w.aliceToken(t)
	server := w.AddServer(region, w.alice, "worker").UUID
	jsonType, formType := "application/json", "application/x-www-form-urlencoded"
	const grant = "/realms/cloudsigma/protocol/openid-connect/token"
	const impersonate = "/direct.zrh/service_provider/api/v1/user/impersonate"
	for name, tc := range map[string]struct {
		method, path, contentType, body string
		wantStatus                      int
		want                            string
	}{
		"a region":                     {"GET", "/mars/api/2.0/profile/", "", "", 404, "there is no such region"},
		"a resource":                   {"GET", "/zrh/api/2.0/drives/", "", "", 404, "the API has no such path, or the UUID is not written in the usual way"},
		"an upper-case UUID":           {"GET", "/zrh/api/2.0/servers/" + strings.ToUpper("aaaa"+server[4:]) + "/", "", "", 404, "the API has no such path, or the UUID is not written in the usual way"},
		"an escaped path":              {"GET", "/zrh/api/2.0/servers%2Fdetail/", "", "", 404, "the path is escaped where it need not be"},
		"a method":                     {"PUT", "/zrh/api/2.0/servers/" + server + "/", jsonType, "", 405, "the resource has no such method"},
		"a parameter":                  {"GET", "/zrh/api/2.0/servers/?uuid=secret", "", "", 400, "parameter uuid is unknown, or comes more than once"},
		"a body where none is allowed": {"GET", "/zrh/api/2.0/profile/", jsonType, "{}", 400, "the method has no body"},
		"an unknown field":             {"POST", "/zrh/api/2.0/servers/", jsonType, `{"objects":[{"owner":{}}]}`, 400, "the body is not the JSON that is documented"},

		"a path of the service provider API": {"POST", "/direct.zrh/service_provider/api/v1/user/", jsonType, "{}", 404, "the service provider API has no such path"},
		"an unknown field of impersonation":  {"POST", impersonate, jsonType, `{"email":"x"}`, 400, "the body is not the JSON that is documented"},

		"a path of the identity provider": {"GET", "/realms/cloudsigma/healthz", "", "", 404, "the identity provider has no such path"},
		"secrets in the URL":              {"POST", grant + "?client_secret=x", formType, "", 400, "parameter client_secret is unknown, or comes more than once"},
		"a grant type":                    {"POST", grant, formType, "grant_type=password", 400, `there is no grant type "password"`},
		"a parameter of a grant":          {"POST", grant, formType, "grant_type=client_credentials&requested_subject=x", 400, "parameter requested_subject is unknown to the grant, or comes more than once"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(w.Violations())
			answer := w.do(t, tc.method, w.OAuthURL()+tc.path, http.Header{"Authorization": {bearer}, "Content-Type": {tc.contentType}}, tc.body)
			if answer.status != tc.wantStatus || !json.Valid(answer.body) {
				t.Errorf("response = %d %s, want %d and JSON", answer.status, answer.body, tc.wantStatus)
			}
			got := w.Violations()[before:]
			if len(got) != 1 || !strings.HasSuffix(got[0], ": "+tc.want) {
				t.Errorf("violations = %q, want %q", got, tc.want)
			}
			requests := w.Requests()
			if last := requests[len(requests)-1]; last.Status != tc.wantStatus || answer.header.Get("X-REQUEST-ID") != last.RequestID {
				t.Errorf("last request = %+v", last)
			}
		})
	}
}
