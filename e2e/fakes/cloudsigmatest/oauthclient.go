package cloudsigmatest

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// oauthClient is the library's interface of a client, with a secret and without logins of users. Methods about logins return zero
// values.
type oauthClient struct {
	id string
	// skew is how far the clock of the tokens is behind that of this machine.
	skew time.Duration
}

var _ op.Client = oauthClient{}

func (c oauthClient) GetID() string                        { return c.id }
func (c oauthClient) RedirectURIs() []string               { return nil }
func (c oauthClient) PostLogoutRedirectURIs() []string     { return nil }
func (c oauthClient) ApplicationType() op.ApplicationType  { return op.ApplicationTypeWeb }
func (c oauthClient) AuthMethod() oidc.AuthMethod          { return oidc.AuthMethodBasic }
func (c oauthClient) ResponseTypes() []oidc.ResponseType   { return nil }
func (c oauthClient) LoginURL(string) string               { return "" }
func (c oauthClient) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeJWT }
func (c oauthClient) IDTokenLifetime() time.Duration       { return 0 }
func (c oauthClient) DevMode() bool                        { return false }
func (c oauthClient) IsScopeAllowed(string) bool           { return true }
func (c oauthClient) IDTokenUserinfoClaimsAssertion() bool { return false }
func (c oauthClient) ClockSkew() time.Duration             { return c.skew }

func (c oauthClient) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials, oidc.GrantTypeTokenExchange}
}

func (c oauthClient) RestrictAdditionalIdTokenScopes() func([]string) []string { //nolint:revive // the library's spelling
	return func(scopes []string) []string { return scopes }
}

func (c oauthClient) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
