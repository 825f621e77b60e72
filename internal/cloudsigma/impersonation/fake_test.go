package impersonation

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	tokenPath = "/realms/cloudsigma/protocol/openid-connect/token"
	alice     = "alice@example.com"
	bob       = "bob@example.com"
	secret    = "canary-secret-1"
)

// reply is the response that a fake server sends instead of its own.
type reply struct {
	status int
	header map[string]string
	body   string
}

func says(status int, body string) *reply { return &reply{status: status, body: body} }

// cloud is an identity provider and a service provider API. A request that does not match exactly fails the test.
type cloud struct {
	t *testing.T
	// secrets are the accepted secrets.
	secrets []string
	// life is the expires_in of all tokens.
	life int
	// delay is the duration of each response.
	delay time.Duration
	// answer may return another response.
	answer func(step cloudhttp.Operation, form url.Values, number int) *reply

	mu       sync.Mutex
	requests map[cloudhttp.Operation]int
	revoked  map[string]bool
	seen     []string
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	return &cloud{t: t, secrets: []string{secret}, life: 300, requests: map[cloudhttp.Operation]int{}, revoked: map[string]bool{}}
}

// counts returns the number of requests by step.
func (c *cloud) counts() map[cloudhttp.Operation]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.requests)
}

// ServeHTTP implements http.Handler.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("read a request: %v", err)
	}
	at, form := c.read(r, string(body))
	c.mu.Lock()
	c.requests[at]++
	number := c.requests[at]
	c.seen = append(c.seen, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, string(body)))
	revoked := c.revoked[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] || c.revoked[form.Get("subject_token")]
	c.mu.Unlock()

	var out *reply
	if c.answer != nil {
		out = c.answer(at, form, number)
	}
	if out == nil {
		out = c.normal(at, form, number, revoked)
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range out.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(out.status)
	_, _ = io.WriteString(w, out.body)
}

func (c *cloud) normal(at cloudhttp.Operation, form url.Values, number int, revoked bool) *reply {
	token := fmt.Sprintf("canary-%s-%d", at, number)
	switch {
	case at == "":
		return says(http.StatusNotFound, "")
	case revoked && at == stepExchange:
		return says(http.StatusBadRequest, `{"error":"invalid_request"}`)
	case revoked:
		return says(http.StatusUnauthorized, "")
	case form.Has("client_secret") && !slices.Contains(c.secrets, form.Get("client_secret")):
		return says(http.StatusUnauthorized, `{"error":"invalid_client","error_description":"canary-description"}`)
	case at == stepImpersonate:
		return says(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"expires_in":%d}`, token, c.life))
	case at == stepExchange:
		return says(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"expires_in":%d,"token_type":"Bearer","refresh_token":"canary-refresh",
			"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, token, c.life))
	}
	return says(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"expires_in":%d,"token_type":"Bearer"}`, token, c.life))
}

// read returns the step and the parameters of a request.
func (c *cloud) read(r *http.Request, body string) (cloudhttp.Operation, url.Values) {
	bearer, hasBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/service_provider/") && r.Header.Get("Content-Type") == "application/json" {
		var wire map[string]string
		if err := json.Unmarshal([]byte(body), &wire); err != nil || len(wire) != 2 || wire["user_email"] == "" || wire["subject_token"] == "" || bearer == "" {
			c.t.Errorf("unexpected body for the service provider API: %s", body)
		}
		return stepImpersonate, url.Values{"user_email": {wire["user_email"]}, "subject_token": {wire["subject_token"]}}
	}
	form, err := url.ParseQuery(body)
	fields := slices.Sorted(maps.Keys(form))
	var at cloudhttp.Operation
	var want []string
	switch form.Get("grant_type") {
	case "client_credentials":
		at, want = stepAccount, []string{"client_id", "client_secret", "grant_type"}
	case "urn:ietf:params:oauth:grant-type:uma-ticket":
		at, want = stepTicket, []string{"audience", "grant_type"}
	case "urn:ietf:params:oauth:grant-type:token-exchange":
		at, want = stepExchange, []string{
			"audience", "client_id", "client_secret", "grant_type", "requested_subject", "requested_token_type", "subject_token", "subject_token_type",
		}
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != tokenPath || r.URL.RawQuery != "" || hasBearer != (at == stepTicket) ||
		r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || !slices.Equal(fields, want) {
		c.t.Errorf("unexpected request: %s %s %s", r.Method, r.URL, body)
		return "", form
	}
	return at, form
}

// RoundTrip implements http.RoundTripper without a network, for tests with a fake clock.
func (c *cloud) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.delay > 0 {
		select {
		case <-time.After(c.delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	recorder := httptest.NewRecorder()
	c.ServeHTTP(recorder, r)
	if recorder.Header().Get("X-No-Answer") != "" {
		return nil, errors.New("canary-connection")
	}
	return recorder.Result(), nil
}

// noAnswer breaks the connection.
func noAnswer() *reply {
	return &reply{status: http.StatusOK, header: map[string]string{"X-No-Answer": "1"}}
}

func options(flow v1beta1.ImpersonationFlow) Options {
	audience := "service_provider_api"
	if flow == v1beta1.TokenExchange {
		audience = "cloudsigma-api"
	}
	return Options{
		Flow: flow, TokenPath: tokenPath, Audience: audience,
		ServiceProviderAPI: "https://direct.{region}.example.com/service_provider/api/v1/",
		Credentials:        Fixed(Credentials{OAuthURL: "https://idp.example.com", ClientID: "kube-dc-partner", ClientSecret: secret}),
	}
}

// source returns a source of tokens with a cloud without a network.
func source(t *testing.T, c http.RoundTripper, opts Options) *Source {
	t.Helper()
	return newSource(opts, c)
}

// settle waits until the background work of a bubble has ended.
func settle() {
	advance(2 * workTimeout)
	synctest.Wait()
}

// advance advances the clock of a bubble.
func advance(d time.Duration) { <-time.After(d) }

// mustToken returns a token or fails the test.
func mustToken(t *testing.T, s *Source, user string) string {
	t.Helper()
	token, err := s.Token(t.Context(), user, "zrh")
	if err != nil {
		t.Fatalf("Token(%q) error = %v", user, err)
	}
	return token
}

// unknown returns the error as an *ownership.UnknownError, or fails the test.
func unknown(t *testing.T, err error) *ownership.UnknownError {
	t.Helper()
	found, ok := err.(*ownership.UnknownError) //nolint:errorlint // the type itself is promised
	if !ok {
		t.Fatalf("error = %v (%T), want an *ownership.UnknownError", err, err)
	}
	return found
}

func wantCause(t *testing.T, err error, want ownership.Cause) {
	t.Helper()
	if got := unknown(t, err).Cause; got != want {
		t.Errorf("cause = %q, want %q (%v)", got, want, err)
	}
}

func wantCounts(t *testing.T, c *cloud, want map[cloudhttp.Operation]int) {
	t.Helper()
	if diff := cmp.Diff(want, c.counts()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// jwt returns an unsigned token with claims.
func jwt(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}
