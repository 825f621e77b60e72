package cloudsigmatest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zitadel/oidc/v3/pkg/client/rp"
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

// forge changes the signature of a token.
func forge(token string) string {
	head, signature, _ := strings.Cut(token[2:], ".")
	payload, signature, _ := strings.Cut(signature, ".")
	return token[:2] + head + "." + payload + "." + strings.Repeat("A", len(signature))
}
