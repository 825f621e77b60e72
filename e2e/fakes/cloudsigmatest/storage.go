package cloudsigmatest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// requestedSubjectKey is the context key of the parameter requested_subject, which the library does not support.
type requestedSubjectKey struct{}

// storage implements the library's storage. The embedded interface is nil: its other methods belong to endpoints that are not
// served.
type storage struct {
	op.Storage
	directory *directory
	tokens    *tokens
	key       signingKey
}

var (
	_ op.ClientCredentialsStorage       = (*storage)(nil)
	_ op.TokenExchangeStorage           = (*storage)(nil)
	_ op.CanGetPrivateClaimsFromRequest = (*storage)(nil)
)

func newStorage(directory *directory, tokens *tokens) (*storage, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return &storage{directory: directory, tokens: tokens, key: signingKey{key: key}}, nil
}

// ClientCredentials implements op.ClientCredentialsStorage.
func (s *storage) ClientCredentials(_ context.Context, clientID, secret string) (op.Client, error) {
	return oauthClient{id: clientID}, s.directory.authenticate(clientID, secret)
}

// ClientCredentialsTokenRequest implements op.ClientCredentialsStorage.
func (s *storage) ClientCredentialsTokenRequest(ctx context.Context, clientID string, scopes []string) (op.TokenRequest, error) {
	return &grant{
		operation: ClientCredentials, client: clientID,
		user:     s.directory.orSpoiled(ctx, s.directory.serviceAccount(clientID)),
		audience: []string{audienceAccount}, scopes: scopes,
	}, nil
}

// ValidateTokenExchangeRequest implements op.TokenExchangeStorage. The library has verified the signature, issuer and expiry of the
// subject token. The errors are Keycloak's, except that of an unknown audience, which is that of RFC 8693, section 2.2.2.
func (s *storage) ValidateTokenExchangeRequest(ctx context.Context, request op.TokenExchangeRequest) error {
	subject, err := s.tokens.valid(request.GetExchangeSubjectTokenIDOrToken())
	if err != nil {
		return oidc.ErrInvalidRequest().WithDescription("Invalid token").WithParent(err)
	}
	denied := op.NewStatusError(oidc.ErrAccessDenied().WithDescription("Client not allowed to exchange"), http.StatusForbidden)
	if subject.client != request.GetClientID() {
		return denied
	}
	if slices.ContainsFunc(request.GetAudience(), func(audience string) bool { return audience != AudienceAPI }) {
		return oidc.ErrInvalidTarget().WithDescription("Audience not found")
	}
	switch request.GetRequestedTokenType() {
	case oidc.AccessTokenType, oidc.RefreshTokenType:
	case "":
		request.SetRequestedTokenType(oidc.RefreshTokenType)
	default:
		return oidc.ErrInvalidRequest().WithDescription("requested_token_type unsupported")
	}
	if requested, _ := ctx.Value(requestedSubjectKey{}).(string); requested != "" {
		user, ok := s.directory.impersonated(request.GetClientID(), requested)
		if !ok {
			return denied
		}
		request.SetSubject(s.directory.orSpoiled(ctx, user).UUID)
	}
	return nil
}

// CreateTokenExchangeRequest implements op.TokenExchangeStorage.
func (s *storage) CreateTokenExchangeRequest(context.Context, op.TokenExchangeRequest) error {
	return nil
}

// CreateAccessToken implements op.AuthStorage.
func (s *storage) CreateAccessToken(_ context.Context, request op.TokenRequest) (id string, expires time.Time, err error) {
	g, err := s.grantOf(request)
	if err != nil {
		return "", time.Time{}, err
	}
	id, expires = s.tokens.issue(g)
	return id, expires, nil
}

// CreateAccessAndRefreshTokens implements op.AuthStorage. No endpoint accepts the refresh token: clients should not store one.
func (s *storage) CreateAccessAndRefreshTokens(
	ctx context.Context, request op.TokenRequest, _ string,
) (id, refreshToken string, expires time.Time, err error) {
	id, expires, err = s.CreateAccessToken(ctx, request)
	return id, rand.Text(), expires, err
}

// TokenRequestByRefreshToken implements op.AuthStorage.
func (s *storage) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, op.ErrInvalidRefreshToken
}

// GetPrivateClaimsFromRequest implements op.CanGetPrivateClaimsFromRequest.
func (s *storage) GetPrivateClaimsFromRequest(_ context.Context, request op.TokenRequest, _ []string) (map[string]any, error) {
	g, err := s.grantOf(request)
	if err != nil {
		return nil, err
	}
	claims := map[string]any{"typ": "Bearer", "azp": g.client, "preferred_username": g.user.Email}
	if g.operation == TokenExchange || g.operation == Impersonate {
		claims["email"] = g.user.Email
	}
	return claims, nil
}

// GetPrivateClaimsFromTokenExchangeRequest implements op.TokenExchangeStorage.
func (s *storage) GetPrivateClaimsFromTokenExchangeRequest(
	ctx context.Context, request op.TokenExchangeRequest,
) (map[string]any, error) {
	return s.GetPrivateClaimsFromRequest(ctx, request, nil)
}

// SetUserinfoFromTokenExchangeRequest implements op.TokenExchangeStorage. It is for ID tokens, which are not issued here.
func (s *storage) SetUserinfoFromTokenExchangeRequest(context.Context, *oidc.UserInfo, op.TokenExchangeRequest) error {
	return nil
}

// grantOf returns the grant of a token that is about to be issued.
func (s *storage) grantOf(request op.TokenRequest) (grant, error) {
	var g grant
	switch request := request.(type) {
	case *grant:
		g = *request
	case op.TokenExchangeRequest:
		user, ok := s.directory.user(request.GetSubject())
		if !ok {
			return grant{}, oidc.ErrInvalidRequest().WithDescription("Invalid token")
		}
		g = grant{
			operation: TokenExchange, client: request.GetClientID(), user: user,
			audience: request.GetAudience(), scopes: request.GetScopes(),
		}
	default:
		return grant{}, errors.New("this provider has no such grant")
	}
	return g, nil
}

// SigningKey implements op.AuthStorage.
func (s *storage) SigningKey(context.Context) (op.SigningKey, error) { return s.key, nil }

// KeySet implements op.AuthStorage.
func (s *storage) KeySet(context.Context) ([]op.Key, error) { return []op.Key{publicKey{s.key}}, nil }

// SignatureAlgorithms implements op.AuthStorage.
func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

// signingKey signs tokens, with Keycloak's default algorithm.
type signingKey struct {
	key *rsa.PrivateKey
}

func (k signingKey) ID() string                                  { return "cloudsigmatest" }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k signingKey) Key() any                                    { return k.key }

type publicKey struct {
	signingKey
}

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return k.key.Public() }
