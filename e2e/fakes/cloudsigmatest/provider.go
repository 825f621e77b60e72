package cloudsigmatest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	realmPath     = "/realms/cloudsigma"
	tokenPath     = "/protocol/openid-connect/token"
	keysPath      = "/protocol/openid-connect/certs"
	discoveryPath = "/.well-known/openid-configuration"

	grantTypeUMATicket = "urn:ietf:params:oauth:grant-type:uma-ticket"
)

// provider is the identity provider. The library verifies and signs tokens. The provider decides which users a client can impersonate.
type provider struct {
	*op.LegacyServer
	directory *directory
	tokens    *tokens
	secrets   *secrets
	issuer    string
	handler   http.Handler
}

func newProvider(issuer string, directory *directory, tokens *tokens, secrets *secrets) (*provider, error) {
	storage, err := newStorage(directory, tokens)
	if err != nil {
		return nil, err
	}
	config := &op.Config{AuthMethodPost: true, CryptoKeyId: "cloudsigmatest"}
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		return nil, err
	}
	library, err := op.NewProvider(config, storage, op.StaticIssuer(issuer))
	if err != nil {
		return nil, fmt.Errorf("create the identity provider: %w", err)
	}
	endpoints := op.Endpoints{Token: op.NewEndpoint(tokenPath), JwksURI: op.NewEndpoint(keysPath)}
	p := &provider{
		LegacyServer: op.NewLegacyServer(library, endpoints),
		directory:    directory, tokens: tokens, secrets: secrets, issuer: issuer,
	}
	p.handler = http.StripPrefix(realmPath, op.RegisterServer(p, endpoints,
		op.WithHTTPMiddleware(op.NewIssuerInterceptor(library.IssuerFromRequest).Handler)))
	return p, nil
}

// VerifyClient implements op.Server.
func (p *provider) VerifyClient(_ context.Context, r *op.Request[op.ClientCredentials]) (op.Client, error) {
	if err := p.directory.authenticate(r.Data.ClientID, r.Data.ClientSecret); err != nil {
		return nil, err
	}
	return p.client(r.Data.ClientID), nil
}

// ClientCredentialsExchange implements op.Server.
func (p *provider) ClientCredentialsExchange(
	ctx context.Context, r *op.ClientRequest[oidc.ClientCredentialsRequest],
) (*op.Response, error) {
	response, err := p.LegacyServer.ClientCredentialsExchange(ctx, r)
	if err != nil {
		return nil, err
	}
	if answer, ok := response.Data.(*oidc.AccessTokenResponse); ok {
		p.secrets.remember(answer.AccessToken)
	}
	return response, nil
}

// TokenExchange implements op.Server. In addition to RFC 8693, it supports Keycloak's requested_subject.
func (p *provider) TokenExchange(ctx context.Context, r *op.ClientRequest[oidc.TokenExchangeRequest]) (*op.Response, error) {
	ctx = context.WithValue(ctx, requestedSubjectKey{}, r.Form.Get("requested_subject"))
	response, err := p.LegacyServer.TokenExchange(ctx, r)
	if err != nil {
		return nil, err
	}
	if answer, ok := response.Data.(*oidc.TokenExchangeResponse); ok {
		p.secrets.remember(answer.AccessToken, answer.RefreshToken)
	}
	return response, nil
}

// mint issues a token outside of the library's grants, and returns it with its lifetime in seconds.
func (p *provider) mint(ctx context.Context, g *grant) (accessToken string, seconds int, err error) {
	ctx = op.ContextWithIssuer(ctx, p.issuer)
	accessToken, _, validity, err := op.CreateAccessToken(ctx, g, op.AccessTokenTypeJWT, p.Provider(), p.client(g.client), "")
	if err != nil {
		return "", 0, err
	}
	p.secrets.remember(accessToken)
	return accessToken, int(validity.Seconds()), nil
}

// client is a client whose tokens are issued by the clock of the cloud.
func (p *provider) client(id string) oauthClient { return oauthClient{id: id, skew: -p.tokens.ahead()} }

// verify verifies a token: its signature, that it is issued here and valid now, and its audience, unless audience is "".
func (p *provider) verify(ctx context.Context, raw, audience string) (grant, error) {
	if raw == "" {
		return grant{}, errors.New("there is no bearer token")
	}
	verifier := p.Provider().AccessTokenVerifier(op.ContextWithIssuer(ctx, p.issuer))
	verifier.Offset = p.tokens.ahead()
	claims, err := op.VerifyAccessToken[*oidc.AccessTokenClaims](ctx, raw, verifier)
	if err != nil {
		return grant{}, err
	}
	g, err := p.tokens.valid(claims.JWTID)
	if err != nil {
		return grant{}, err
	}
	if audience != "" && !slices.Contains(g.audience, audience) {
		return grant{}, fmt.Errorf("the token is for %q, not for %q", g.audience, audience)
	}
	return g, nil
}

// whose returns the grant of a token for the journal. The token can be expired or forged.
func (p *provider) whose(raw string) grant {
	claims := &oidc.AccessTokenClaims{}
	if _, err := oidc.ParseToken(raw, claims); err != nil {
		return grant{}
	}
	return p.tokens.grantOf(claims.JWTID)
}
