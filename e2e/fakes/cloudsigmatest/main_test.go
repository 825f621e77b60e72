package cloudsigmatest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	cloudsigma "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"
	"github.com/zitadel/oidc/v3/pkg/client"
	"github.com/zitadel/oidc/v3/pkg/client/tokenexchange"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"go.uber.org/goleak"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	region = "zrh"
	alice  = "alice@example.com"
	bob    = "bob@example.com"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// world is a cloud with a client that may act as alice but not as bob.
type world struct {
	*cloudsigmatest.Cloud
	partner    cloudsigmatest.Client
	alice, bob cloudsigmatest.User
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := cloudsigmatest.Start(t.Context(), cloudsigmatest.Options{})
	if err != nil {
		t.Fatalf("Start() error = %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() error = %v", err)
		}
	})
	w := &world{Cloud: c, partner: c.AddClient("partner"), alice: c.AddUser(alice), bob: c.AddUser(bob)}
	if err := c.AllowImpersonation(w.partner.ID, alice); err != nil {
		t.Fatalf("AllowImpersonation() error = %v", err)
	}
	return w
}

// wantNoViolations is for tests without violations.
func (w *world) wantNoViolations(t *testing.T) {
	t.Helper()
	if violations := w.Violations(); len(violations) > 0 {
		t.Errorf("Violations() = %q, want none", violations)
	}
}

// accountToken requests the service account's own token, with golang.org/x/oauth2.
func (w *world) accountToken(ctx context.Context, style oauth2.AuthStyle) (*oauth2.Token, error) {
	config := clientcredentials.Config{
		ClientID: w.partner.ID, ClientSecret: w.partner.Secret, TokenURL: w.TokenURL(), AuthStyle: style,
	}
	return config.Token(context.WithValue(ctx, oauth2.HTTPClient, w.HTTPClient()))
}

func (w *world) mustAccountToken(t *testing.T) string {
	t.Helper()
	token, err := w.accountToken(t.Context(), oauth2.AuthStyleInParams)
	if err != nil {
		t.Fatalf("client credentials: %v", err)
	}
	return token.AccessToken
}

// exchangeRequest is a token exchange with Keycloak's parameter.
type exchangeRequest struct {
	GrantType          oidc.GrantType `schema:"grant_type"`
	SubjectToken       string         `schema:"subject_token"`
	SubjectTokenType   oidc.TokenType `schema:"subject_token_type"`
	RequestedTokenType oidc.TokenType `schema:"requested_token_type,omitempty"`
	RequestedSubject   string         `schema:"requested_subject,omitempty"`
	Audience           string         `schema:"audience,omitempty"`
}

// exchange exchanges a token for a token of a user, with the client of zitadel/oidc.
func (w *world) exchange(ctx context.Context, change func(*exchangeRequest)) (*oidc.TokenExchangeResponse, error) {
	account, err := w.accountToken(ctx, oauth2.AuthStyleInHeader)
	if err != nil {
		return nil, err
	}
	exchanger, err := tokenexchange.NewTokenExchangerClientCredentials(ctx, w.Issuer(), w.partner.ID, w.partner.Secret,
		tokenexchange.WithHTTPClient(w.HTTPClient()))
	if err != nil {
		return nil, err
	}
	authorize, err := exchanger.AuthFn()
	if err != nil {
		return nil, err
	}
	request := exchangeRequest{
		GrantType: oidc.GrantTypeTokenExchange, SubjectToken: account.AccessToken, SubjectTokenType: oidc.AccessTokenType,
		RequestedTokenType: oidc.AccessTokenType, RequestedSubject: alice, Audience: cloudsigmatest.AudienceAPI,
	}
	if change != nil {
		change(&request)
	}
	return client.CallTokenExchangeEndpoint(ctx, request, authorize, exchanger)
}

// aliceToken requests a token of alice by token exchange.
func (w *world) aliceToken(t *testing.T) string {
	t.Helper()
	response, err := w.exchange(t.Context(), nil)
	if err != nil {
		t.Fatalf("token exchange: %v", err)
	}
	return response.AccessToken
}

// ticket requests the token for the service provider API.
func (w *world) ticket(t *testing.T, account string) (status int, body map[string]any) {
	t.Helper()
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:uma-ticket"}, "audience": {cloudsigmatest.AudienceServiceProvider},
	}
	return w.post(t, w.TokenURL(), account, "application/x-www-form-urlencoded", form.Encode())
}

// impersonate requests a token of a user from the service provider API.
func (w *world) impersonate(t *testing.T, ticket, subject, email string) (status int, body map[string]any) {
	t.Helper()
	request, err := json.Marshal(map[string]string{"user_email": email, "subject_token": subject})
	if err != nil {
		t.Fatal(err)
	}
	base := strings.ReplaceAll(w.ServiceProviderTemplate(), "{region}", region)
	return w.post(t, base+"user/impersonate", ticket, "application/json", string(request))
}

func (w *world) post(t *testing.T, url, bearer, contentType, body string) (status int, fields map[string]any) {
	t.Helper()
	header := http.Header{"Content-Type": {contentType}, "Authorization": {"Bearer " + bearer}}
	got := w.do(t, http.MethodPost, url, header, body)
	_ = json.Unmarshal(got.body, &fields) // errors of the API are lists
	return got.status, fields
}

// answered is the response to a request.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request and reads the response.
func (w *world) do(t *testing.T, method, url string, header http.Header, body string) answered {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := w.HTTPClient().Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return answered{response.StatusCode, response.Header, answer}
}

// sdk is CloudSigma's SDK for the host of a region that takes passwords. The SDK only supports hosts below cloudsigma.com.
func (w *world) sdk(credentials cloudsigma.CredentialsProvider) *cloudsigma.Client {
	return w.sdkAt(region, credentials)
}

// sdkOf is the SDK for the host of a region that takes tokens of users.
func (w *world) sdkOf(token string) *cloudsigma.Client {
	return w.sdkAt("direct."+region, cloudsigma.NewTokenCredentialsProvider(token))
}

func (w *world) sdkAt(location string, credentials cloudsigma.CredentialsProvider) *cloudsigma.Client {
	return cloudsigma.NewClient(credentials, cloudsigma.WithLocation(location),
		cloudsigma.WithHTTPClient(&http.Client{Transport: rewriting{base: w.OAuthURL(), next: w.HTTPClient().Transport}}))
}

// rewriting sends requests for https://<location>.cloudsigma.com/<path> to <base>/<location>/<path>.
type rewriting struct {
	base string
	next http.RoundTripper
}

func (r rewriting) RoundTrip(request *http.Request) (*http.Response, error) {
	location := strings.TrimSuffix(request.URL.Host, ".cloudsigma.com")
	target, err := url.Parse(r.base + "/" + location + request.URL.Path)
	if err != nil {
		return nil, err
	}
	target.RawQuery = request.URL.RawQuery
	request = request.Clone(request.Context())
	request.URL, request.Host = target, ""
	return r.next.RoundTrip(request)
}
