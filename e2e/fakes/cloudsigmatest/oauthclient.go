package cloudsigmatest

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// oauthClient is a client in the terms of the library: one with a secret and no people who log in. What is about logins
// says so by its zero value.
type oauthClient struct {
	id string
	// skew is how far the clock that tokens are issued by is behind this machine's.
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
