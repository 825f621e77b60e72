package cloudsigmatest_test

import (
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
	status, answer := w.send(t, http.MethodPost, path, bearer, contentType, body)
	var fields struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(answer, &fields); err != nil || fields.Token == "" {
		t.Fatalf("%s: %d %s, want a token", path, status, answer)
	}
	return fields.Token
}

// send sends a request, and returns the response.
func (w *world) send(t *testing.T, method, path, bearer, contentType, body string) (status int, answer []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.OAuthURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + bearer}, "Content-Type": {contentType}}
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
			status, answer := w.send(t, tc.method, tc.path, w.alice, tc.contentType, tc.body)
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
	forged := func(token string) string { return token[:strings.LastIndex(token, ".")+1] + strings.Repeat("A", 342) }
	for name, tc := range map[string]struct {
		path, bearer, body string
		want               int
	}{
		"a token for another audience":  {profilePath, w.account, "", http.StatusUnauthorized},
		"a forged token":                {profilePath, forged(w.alice), "", http.StatusUnauthorized},
		"the token of another cloud":    {profilePath, elsewhere.alice, "", http.StatusUnauthorized},
		"not a token":                   {profilePath, "guess", "", http.StatusUnauthorized},
		"a ticket for a forged token":   {tokenPath, forged(w.account), ticketFor(cloudsigmatest.AudienceServiceProvider), http.StatusUnauthorized},
		"a ticket for a user's token":   {tokenPath, w.alice, ticketFor(cloudsigmatest.AudienceServiceProvider), http.StatusForbidden},
		"a ticket for another audience": {tokenPath, w.account, ticketFor("elsewhere"), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			method, contentType := http.MethodGet, ""
			if tc.body != "" {
				method, contentType = http.MethodPost, formType
			}
			if status, answer := w.send(t, method, tc.path, tc.bearer, contentType, tc.body); status != tc.want {
				t.Errorf("response = %d %s, want %d", status, answer, tc.want)
			}
		})
	}
	if violations := w.Violations(); len(violations) > 0 {
		t.Errorf("Violations() = %q, want none", violations)
	}
}
