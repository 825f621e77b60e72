package cloudsigmatest_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	tokenPath       = "/realms/cloudsigma/protocol/openid-connect/token"
	impersonatePath = "/direct.zrh/service_provider/api/v1/user/impersonate"
	profilePath     = "/direct.zrh/api/2.0/profile/"
	// legacyProfilePath is at the host that takes passwords.
	legacyProfilePath = "/zrh/api/2.0/profile/"

	jsonType, formType = "application/json", "application/x-www-form-urlencoded"
)

// world is a cloud with a client that may act as alice. What a suite would notice is not tested here: the responses to valid requests.
type world struct {
	*cloudsigmatest.Cloud
	partner cloudsigmatest.Client
	// account, ticket and alice are tokens: of the client itself, for the service provider API, and of alice.
	account, ticket, alice string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := cloudsigmatest.Start(t.Context())
	if err != nil {
		t.Fatalf("Start() error = %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() error = %v", err)
		}
	})
	w := &world{Cloud: c, partner: c.AddClient("partner")}
	c.AddUser("alice@example.com")
	if err := c.AllowImpersonation(w.partner.ID, "alice@example.com"); err != nil {
		t.Fatalf("AllowImpersonation() error = %v", err)
	}
	w.account = w.token(t, tokenPath, "", formType, form("grant_type", "client_credentials", "client_id", w.partner.ID, "client_secret", w.partner.Secret))
	w.ticket = w.token(t, tokenPath, w.account, formType, ticketFor(cloudsigmatest.AudienceServiceProvider))
	w.alice = w.token(t, impersonatePath, w.ticket, jsonType, `{"user_email":"alice@example.com","subject_token":"`+w.account+`"}`)
	return w
}

func form(pairs ...string) string {
	values := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		values.Set(pair[0], pair[1])
	}
	return values.Encode()
}

func ticketFor(audience string) string {
	return form("grant_type", "urn:ietf:params:oauth:grant-type:uma-ticket", "audience", audience)
}

// token requests a token.
func (w *world) token(t *testing.T, path, bearer, contentType, body string) string {
	t.Helper()
	status, answer := w.send(t, http.MethodPost, path, "Bearer "+bearer, contentType, body)
	var fields struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(answer, &fields); err != nil || fields.Token == "" {
		t.Fatalf("%s: %d %s, want a token", path, status, answer)
	}
	return fields.Token
}

// send sends a request, and returns the response.
func (w *world) send(t *testing.T, method, path, authorization, contentType, body string) (status int, answer []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.OAuthURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {authorization}, "Content-Type": {contentType}}
	response, err := w.HTTPClient().Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, answer
}

func TestUnknownRequestsAreViolations(t *testing.T) {
	w := newWorld(t)
	owner := w.AddUser("alice@example.com")
	server := w.AddServer("zrh", owner, "worker").UUID
	const noPath = "the API has no such path, or the UUID is not written in the usual way"
	for name, tc := range map[string]struct {
		method, path, contentType, body string
		wantStatus                      int
		want                            string
	}{
		"a region":                     {"GET", "/mars/api/2.0/profile/", "", "", 404, "there is no such region"},
		"a resource":                   {"GET", "/zrh/api/2.0/drives/", "", "", 404, noPath},
		"an upper-case UUID":           {"GET", "/zrh/api/2.0/servers/" + strings.ToUpper("aaaa"+server[4:]) + "/", "", "", 404, noPath},
		"an escaped path":              {"GET", "/zrh/api/2.0/servers%2Fdetail/", "", "", 404, "the path is escaped where it need not be"},
		"a method":                     {"PUT", "/zrh/api/2.0/servers/" + server + "/", jsonType, "", 405, "the resource has no such method"},
		"a parameter":                  {"GET", "/zrh/api/2.0/servers/?uuid=secret", "", "", 400, "parameter uuid is unknown, or comes more than once"},
		"a body where none is allowed": {"GET", "/zrh/api/2.0/profile/", jsonType, "{}", 400, "the method has no body"},
		"an unknown field":             {"POST", "/zrh/api/2.0/servers/", jsonType, `{"objects":[{"owner":{}}]}`, 400, "the body is not the JSON that is documented"},

		"a path of the service provider API": {"POST", "/direct.zrh/service_provider/api/v1/user/", jsonType, "{}", 404, "the service provider API has no such path"},
		"an unknown field of impersonation":  {"POST", impersonatePath, jsonType, `{"email":"x"}`, 400, "the body is not the JSON that is documented"},

		"a path of the identity provider": {"GET", "/realms/cloudsigma/healthz", "", "", 404, "the identity provider has no such path"},
		"secrets in the URL":              {"POST", tokenPath + "?client_secret=x", formType, "", 400, "parameter client_secret is unknown, or comes more than once"},
		"a grant type":                    {"POST", tokenPath, formType, "grant_type=password", 400, `there is no grant type "password"`},
		"a parameter of a grant":          {"POST", tokenPath, formType, "grant_type=client_credentials&requested_subject=x", 400, "parameter requested_subject is unknown to the grant, or comes more than once"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(w.Violations())
			status, answer := w.send(t, tc.method, tc.path, "Bearer "+w.alice, tc.contentType, tc.body)
			if status != tc.wantStatus || !json.Valid(answer) {
				t.Errorf("response = %d %s, want %d and JSON", status, answer, tc.wantStatus)
			}
			got := w.Violations()[before:]
			if len(got) != 1 || !strings.HasSuffix(got[0], ": "+tc.want) {
				t.Errorf("violations = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestInvalidCredentialsAreDenied has the credentials that no suite presents.
func TestInvalidCredentialsAreDenied(t *testing.T) {
	w, elsewhere := newWorld(t), newWorld(t)
	w.AddUser("bob@example.com")
	w.AllowPassword("bob@example.com", "legacy")
	forged := func(token string) string { return token[:strings.LastIndex(token, ".")+1] + strings.Repeat("A", 342) }
	ticket := ticketFor(cloudsigmatest.AudienceServiceProvider)
	for name, tc := range map[string]struct {
		path, authorization, body string
		want                      int
		wantError                 string
	}{
		"a token for another audience":        {profilePath, "Bearer " + w.account, "", http.StatusUnauthorized, "permission"},
		"a forged token":                      {profilePath, "Bearer " + forged(w.alice), "", http.StatusUnauthorized, "permission"},
		"the token of another cloud":          {profilePath, "Bearer " + elsewhere.alice, "", http.StatusUnauthorized, "permission"},
		"not a token":                         {profilePath, "Bearer guess", "", http.StatusUnauthorized, "permission"},
		"a password, while passwords are off": {legacyProfilePath, basic("alice@example.com", "legacy"), "", http.StatusUnauthorized, "permission"},
		"a wrong password":                    {legacyProfilePath, basic("bob@example.com", "guess"), "", http.StatusUnauthorized, "permission"},
		"a ticket without a token":            {tokenPath, "Bearer ", ticket, http.StatusUnauthorized, "invalid_grant"},
		"a ticket for a forged token":         {tokenPath, "Bearer " + forged(w.account), ticket, http.StatusUnauthorized, "invalid_grant"},
		"a ticket for what is not a token":    {tokenPath, "Bearer guess", ticket, http.StatusUnauthorized, "invalid_grant"},
		"a ticket for what is no JWT":         {tokenPath, "Bearer a.b.c", ticket, http.StatusUnauthorized, "invalid_grant"},
		"a ticket for a user's token":         {tokenPath, "Bearer " + w.alice, ticket, http.StatusForbidden, "access_denied"},
		"a ticket for another audience":       {tokenPath, "Bearer " + w.account, ticketFor("elsewhere"), http.StatusBadRequest, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			method, contentType := http.MethodGet, ""
			if tc.body != "" {
				method, contentType = http.MethodPost, formType
			}
			status, answer := w.send(t, method, tc.path, tc.authorization, contentType, tc.body)
			if status != tc.want || !strings.Contains(string(answer), `"`+tc.wantError+`"`) {
				t.Errorf("response = %d %s, want %d %s", status, answer, tc.want, tc.wantError)
			}
		})
	}
	if violations := w.Violations(); len(violations) > 0 {
		t.Errorf("Violations() = %q, want none", violations)
	}
	status, answer := w.send(t, http.MethodGet, profilePath, basic("bob@example.com", "legacy"), "", "")
	if status != http.StatusUnauthorized || len(w.Violations()) != 1 {
		t.Errorf("a password at the direct host: %d %s, violations %q; want 401 and one violation", status, answer, w.Violations())
	}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
