package cloudsigmatest

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Audiences of tokens.
const (
	// AudienceAPI is the audience of tokens for the API of a region.
	AudienceAPI = "cloudsigma-api"
	// AudienceServiceProvider is the audience of tokens for the service provider API.
	AudienceServiceProvider = "service_provider_api"
	// audienceAccount is the audience of Keycloak's tokens without a requested audience.
	audienceAccount = "account"
)

// grant is the user, client and audience of a token. It implements op.TokenRequest.
type grant struct {
	operation Operation
	client    string
	user      User
	audience  []string
	scopes    []string
}

func (g *grant) GetSubject() string    { return g.user.UUID }
func (g *grant) GetAudience() []string { return g.audience }
func (g *grant) GetScopes() []string   { return g.scopes }

// token is an issued token.
type token struct {
	grant
	expires time.Time
	revoked bool
}

// tokens are all issued tokens, by their IDs (jti).
type tokens struct {
	mu     sync.Mutex
	issued map[string]*token
	life   time.Duration
	offset time.Duration
}

func newTokens() *tokens { return &tokens{issued: map[string]*token{}, life: 5 * time.Minute} }

// SetTokenLife sets the lifetime of new tokens. It is 5 minutes at first, as in Keycloak. Tokens contain whole seconds.
func (t *tokens) SetTokenLife(life time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.life = life
}

// SetClock sets how far the clock of the cloud and its identity provider is ahead of that of this machine, or behind it if offset is
// negative. Tokens are issued and verified by that clock, certificates are not.
func (t *tokens) SetClock(offset time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.offset = offset
}

// ahead is how far the clock is ahead of that of this machine.
func (t *tokens) ahead() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offset
}

// RevokeTokens invalidates all existing tokens of a user. A service account is the user "service-account-<client ID>".
func (t *tokens) RevokeTokens(email string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, issued := range t.issued {
		if issued.user.Email == email {
			issued.revoked = true
		}
	}
}

// issue records a token, and returns its ID and when it expires.
func (t *tokens) issue(g grant) (id string, expires time.Time) {
	id = uuid.NewString()
	t.mu.Lock()
	defer t.mu.Unlock()
	expires = time.Now().Add(t.offset).Add(t.life)
	t.issued[id] = &token{grant: g, expires: expires}
	return id, expires
}

// grantOf returns the grant of a token, even if the token is no longer valid. It is empty if the token was not issued here.
func (t *tokens) grantOf(id string) grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if issued, ok := t.issued[id]; ok {
		return issued.grant
	}
	return grant{}
}

// valid returns the grant of a token, if the token is valid now.
func (t *tokens) valid(id string) (grant, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	issued, ok := t.issued[id]
	switch {
	case !ok:
		return grant{}, errors.New("the token was not issued here")
	case issued.revoked:
		return grant{}, errors.New("the token has been revoked")
	case !time.Now().Add(t.offset).Before(issued.expires):
		return grant{}, errors.New("the token has expired")
	}
	return issued.grant, nil
}
