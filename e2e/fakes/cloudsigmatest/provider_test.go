package cloudsigmatest_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zitadel/oidc/v3/pkg/client/rp"
	"github.com/zitadel/oidc/v3/pkg/client/tokenexchange"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/oauth2"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// claims verifies a token by the provider's published keys, and returns its claims.
func (w *world) claims(t *testing.T, token string) *oidc.AccessTokenClaims {
	t.Helper()
	keys := rp.NewRemoteKeySet(w.HTTPClient(), w.Issuer()+"/protocol/openid-connect/certs")
	claims, err := op.VerifyAccessToken[*oidc.AccessTokenClaims](t.Context(), token, op.NewAccessTokenVerifier(w.Issuer(), keys))
	if err != nil {
		t.Fatalf("verify token: %v", err)
	}
	return claims
}

func TestClientCredentials(t *testing.T) {
	w := newWorld(t)
	for name, style := range map[string]oauth2.AuthStyle{
		"the secret in the form": oauth2.AuthStyleInParams, "the secret in the header": oauth2.AuthStyleInHeader,
	} {
		t.Run(name, func(t *testing.T) {
			token, err := w.accountToken(t.Context(), style)
			if err != nil {
				t.Fatalf("client credentials: %v", err)
			}
			if life := time.Until(token.Expiry); life < 4*time.Minute || life > 5*time.Minute {
				t.Errorf("the lifetime of the token is %s, want about 5 minutes", life)
			}
			claims := w.claims(t, token.AccessToken)
			if diff := cmp.Diff(oidc.Audience{"account"}, claims.Audience); diff != "" {
				t.Errorf("audience (-want +got):\n%s", diff)
			}
			if claims.Claims["azp"] != w.partner.ID || claims.Claims["preferred_username"] != "service-account-partner" {
				t.Errorf("claims = %v", claims.Claims)
			}
		})
	}
	if got := w.Count(cloudsigmatest.ClientCredentials, "service-account-partner"); got != 2 {
		t.Errorf("Count() = %d, want 2", got)
	}
	w.wantNoViolations(t)
}

func TestClientCredentialsRejected(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		client    cloudsigmatest.Client
		wantError string
	}{
		"a wrong secret":    {cloudsigmatest.Client{ID: "partner", Secret: "guess"}, "unauthorized_client"},
		"an unknown client": {cloudsigmatest.Client{ID: "unknown", Secret: "guess"}, "invalid_client"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := *w
			asked.partner = tc.client
			_, err := asked.accountToken(t.Context(), oauth2.AuthStyleInParams)
			rejected := (*oauth2.RetrieveError)(nil)
			if !errors.As(err, &rejected) || rejected.Response.StatusCode != http.StatusUnauthorized || rejected.ErrorCode != tc.wantError {
				t.Errorf("client credentials: error = %v, want 401 %s", err, tc.wantError)
			}
		})
	}
	w.wantNoViolations(t)
}

func TestSecretRotation(t *testing.T) {
	w := newWorld(t)
	before := w.mustAccountToken(t)
	old := w.partner
	rotated, err := w.RotateSecret(old.ID)
	if err != nil {
		t.Fatalf("RotateSecret() error = %v", err)
	}
	if _, err := w.accountToken(t.Context(), oauth2.AuthStyleInHeader); err == nil {
		t.Error("the old secret still works")
	}
	w.partner = rotated
	after := w.mustAccountToken(t)
	if status, _ := w.ticket(t, before); status != http.StatusOK {
		t.Errorf("a request with a token from before the rotation got %d, want 200", status)
	}
	known := strings.Join(w.Secrets(), " ")
	for what, secret := range map[string]string{"old secret": old.Secret, "new secret": rotated.Secret, "old token": before, "new token": after} {
		if !strings.Contains(known, secret) {
			t.Errorf("Secrets() lacks the %s", what)
		}
	}
	if _, err := w.RotateSecret("unknown"); err == nil {
		t.Error("RotateSecret() of an unknown client has no error")
	}
	if got := w.AddClient(old.ID); got != rotated {
		t.Errorf("AddClient() of a known client = %v, want %v", got, rotated)
	}
}

func TestTokenExchange(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		change      func(*exchangeRequest)
		wantType    oidc.TokenType
		wantRefresh bool
	}{
		"by e-mail":               {nil, oidc.AccessTokenType, false},
		"by UUID":                 {func(r *exchangeRequest) { r.RequestedSubject = w.alice.UUID }, oidc.AccessTokenType, false},
		"no requested token type": {func(r *exchangeRequest) { r.RequestedTokenType = "" }, oidc.RefreshTokenType, true},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := w.exchange(t.Context(), tc.change)
			if err != nil {
				t.Fatalf("token exchange: %v", err)
			}
			if response.IssuedTokenType != tc.wantType || response.TokenType != "Bearer" || (response.RefreshToken != "") != tc.wantRefresh {
				t.Errorf("issued %q, %q, refresh token %t", response.IssuedTokenType, response.TokenType, response.RefreshToken != "")
			}
			claims := w.claims(t, response.AccessToken)
			if claims.Subject != w.alice.UUID || claims.Claims["email"] != alice {
				t.Errorf("the token is of %q, %v; want %v", claims.Subject, claims.Claims["email"], w.alice)
			}
			if diff := cmp.Diff(oidc.Audience{cloudsigmatest.AudienceAPI}, claims.Audience); diff != "" {
				t.Errorf("audience (-want +got):\n%s", diff)
			}
		})
	}
	if got := w.Count(cloudsigmatest.TokenExchange, alice, w.alice.UUID); got != 3 {
		t.Errorf("Count() = %d, want 3", got)
	}
	w.wantNoViolations(t)
}

// Without a requested subject, it is a token exchange of RFC 8693: the token is that of the service account.
func TestTokenExchangeForItself(t *testing.T) {
	w := newWorld(t)
	exchanger, err := tokenexchange.NewTokenExchangerClientCredentials(t.Context(), w.Issuer(), w.partner.ID, w.partner.Secret,
		tokenexchange.WithHTTPClient(w.HTTPClient()))
	if err != nil {
		t.Fatal(err)
	}
	response, err := tokenexchange.ExchangeToken(t.Context(), exchanger, w.mustAccountToken(t), oidc.AccessTokenType,
		"", "", nil, []string{cloudsigmatest.AudienceAPI}, nil, oidc.AccessTokenType)
	if err != nil {
		t.Fatalf("token exchange: %v", err)
	}
	profile, _, err := w.sdkOf(response.AccessToken).Profile.Get(t.Context())
	if err != nil || profile.Email != "service-account-partner" {
		t.Errorf("profile = %v, error = %v; want the service account's", profile, err)
	}
	if got := w.do(t, http.MethodGet, w.Issuer()+"/.well-known/openid-configuration", nil, ""); got.status != http.StatusOK {
		t.Errorf("discovery = %d %s", got.status, got.body)
	}
	w.wantNoViolations(t)
}

// Providers send the client's secret in different places.
func TestTokenExchangeByForm(t *testing.T) {
	w := newWorld(t)
	form := url.Values{
		"grant_type": {string(oidc.GrantTypeTokenExchange)}, "client_id": {w.partner.ID}, "client_secret": {w.partner.Secret},
		"subject_token": {w.mustAccountToken(t)}, "subject_token_type": {string(oidc.AccessTokenType)},
		"requested_subject": {alice}, "audience": {cloudsigmatest.AudienceAPI},
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if got := w.do(t, http.MethodPost, w.TokenURL(), header, form.Encode()); got.status != http.StatusOK {
		t.Errorf("token exchange = %d %s, want 200", got.status, got.body)
	}
	form.Set("client_secret", "guess")
	if got := w.do(t, http.MethodPost, w.TokenURL(), header, form.Encode()); got.status != http.StatusUnauthorized {
		t.Errorf("token exchange with a wrong secret = %d %s, want 401", got.status, got.body)
	}
	w.wantNoViolations(t)
}

func TestTokenExchangeRejected(t *testing.T) {
	w := newWorld(t)
	stranger := *w
	stranger.partner = w.AddClient("stranger")
	strangersToken := stranger.mustAccountToken(t)
	if err := w.AllowImpersonation(w.partner.ID, "carol@example.com"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change    func(*exchangeRequest)
		wantError string
	}{
		"a user that the client may not impersonate": {func(r *exchangeRequest) { r.RequestedSubject = bob }, "access_denied"},
		"a user that does not exist":                 {func(r *exchangeRequest) { r.RequestedSubject = "carol@example.com" }, "access_denied"},
		"a subject token of another client":          {func(r *exchangeRequest) { r.SubjectToken = strangersToken }, "access_denied"},
		"a forged subject token":                     {func(r *exchangeRequest) { r.SubjectToken = forge(r.SubjectToken) }, "invalid_request"},
		"no subject token type":                      {func(r *exchangeRequest) { r.SubjectTokenType = "" }, "invalid_request"},
		"an ID token as the requested type":          {func(r *exchangeRequest) { r.RequestedTokenType = oidc.IDTokenType }, "invalid_request"},
		"a refresh token":                            {func(r *exchangeRequest) { r.SubjectTokenType = oidc.RefreshTokenType }, "invalid_request"},
		"an unknown audience":                        {func(r *exchangeRequest) { r.Audience = "elsewhere" }, "invalid_target"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.exchange(t.Context(), tc.change)
			rejected := (*oidc.Error)(nil)
			if !errors.As(err, &rejected) || string(rejected.ErrorType) != tc.wantError {
				t.Errorf("token exchange: error = %v, want %s", err, tc.wantError)
			}
		})
	}
	w.wantNoViolations(t)

	w.RevokeTokens("service-account-stranger")
	if _, err := stranger.exchange(t.Context(), func(r *exchangeRequest) { r.SubjectToken = strangersToken }); err == nil {
		t.Error("a revoked subject token is exchanged")
	}
	if err := w.DenyImpersonation(w.partner.ID, alice); err != nil {
		t.Fatal(err)
	}
	if _, err := w.exchange(t.Context(), nil); err == nil {
		t.Error("alice is impersonated after DenyImpersonation()")
	}
}

func TestTicket(t *testing.T) {
	w := newWorld(t)
	account := w.mustAccountToken(t)
	status, body := w.ticket(t, account)
	if status != http.StatusOK || body["expires_in"] != 299.0 && body["expires_in"] != 300.0 || body["upgraded"] != false {
		t.Fatalf("ticket = %d %v", status, body)
	}
	rpt, _ := body["access_token"].(string)
	if diff := cmp.Diff(oidc.Audience{cloudsigmatest.AudienceServiceProvider}, w.claims(t, rpt).Audience); diff != "" {
		t.Errorf("audience (-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		bearer, audience string
		wantStatus       int
		wantError        string
	}{
		"no token":            {"", cloudsigmatest.AudienceServiceProvider, http.StatusUnauthorized, "invalid_grant"},
		"a forged token":      {forge(account), cloudsigmatest.AudienceServiceProvider, http.StatusUnauthorized, "invalid_grant"},
		"not a token":         {"guess", cloudsigmatest.AudienceServiceProvider, http.StatusUnauthorized, "invalid_grant"},
		"no JWT":              {"a.b.c", cloudsigmatest.AudienceServiceProvider, http.StatusUnauthorized, "invalid_grant"},
		"a user's token":      {w.aliceToken(t), cloudsigmatest.AudienceServiceProvider, http.StatusForbidden, "access_denied"},
		"an unknown audience": {account, "elsewhere", http.StatusBadRequest, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:uma-ticket"}, "audience": {tc.audience}}
			status, body := w.post(t, w.TokenURL(), tc.bearer, "application/x-www-form-urlencoded", form.Encode())
			if status != tc.wantStatus || body["error"] != tc.wantError {
				t.Errorf("ticket = %d %v, want %d %s", status, body, tc.wantStatus, tc.wantError)
			}
		})
	}
	if got := w.Count(cloudsigmatest.UMATicket, "service-account-partner"); got != 3 {
		t.Errorf("Count() = %d, want 3: the good one, the forged one and the one for an unknown audience", got)
	}
	w.wantNoViolations(t)
}

func TestTokenLife(t *testing.T) {
	w := newWorld(t)
	w.SetTokenLife(time.Hour)
	w.SetTokenLife(time.Minute, cloudsigmatest.TokenExchange)
	account, err := w.accountToken(t.Context(), oauth2.AuthStyleInParams)
	if err != nil || time.Until(account.Expiry) < 59*time.Minute {
		t.Errorf("token = %v, error = %v; want one for an hour", account, err)
	}
	response, err := w.exchange(t.Context(), nil)
	if err != nil || response.ExpiresIn < 58 || response.ExpiresIn > 60 {
		t.Errorf("token exchange: expires in %d, error = %v; want 60", response.ExpiresIn, err)
	}
	w.SetTokenLife(time.Nanosecond)
	if status, _ := w.ticket(t, w.mustAccountToken(t)); status != http.StatusUnauthorized {
		t.Errorf("a request with an expired token got %d, want 401", status)
	}
}

func TestClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.mustAccountToken(t)
			w.SetClock(ahead)
			account := w.mustAccountToken(t)
			claims := &oidc.AccessTokenClaims{}
			if _, err := oidc.ParseToken(account, claims); err != nil {
				t.Fatal(err)
			}
			for what, instant := range map[string]time.Time{
				"iat": claims.IssuedAt.AsTime(), "nbf": claims.NotBefore.AsTime(), "exp": claims.Expiration.AsTime().Add(-5 * time.Minute),
			} {
				if off := time.Until(instant) - ahead; off < -time.Minute || off > time.Minute {
					t.Errorf("%s is %s off the cloud's clock", what, off)
				}
			}
			status, body := w.ticket(t, account)
			if status != http.StatusOK {
				t.Errorf("a request with a new token got %d, want 200", status)
			}
			if seconds, ok := body["expires_in"].(float64); !ok || seconds < 240 || seconds > 300 {
				t.Errorf("expires_in = %v, want about 300", body["expires_in"])
			}
			want := http.StatusOK
			if ahead > 0 { // the token expired long ago by that clock
				want = http.StatusUnauthorized
			}
			if status, _ := w.ticket(t, before); status != want {
				t.Errorf("a request with an earlier token got %d, want %d", status, want)
			}
			w.wantNoViolations(t)
		})
	}
}

// forge changes the signature of a token.
func forge(token string) string {
	head, signature, _ := strings.Cut(token[2:], ".")
	payload, signature, _ := strings.Cut(signature, ".")
	return token[:2] + head + "." + payload + "." + strings.Repeat("A", len(signature))
}
