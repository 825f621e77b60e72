package cloudsigmatest

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Audiences of tokens.
const (
	// AudienceAPI is whom tokens for a region's API are for.
	AudienceAPI = "cloudsigma-api"
	// AudienceServiceProvider is whom tokens for the service provider API are for.
	AudienceServiceProvider = "service_provider_api"
	// audienceAccount is whom Keycloak issues a token for that nobody said an audience for.
	audienceAccount = "account"
)

// grant is what a token was issued for. It implements op.TokenRequest.
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

// token is a token that was issued.
type token struct {
	grant
	expires time.Time
	revoked bool
}

// tokens are all tokens that were issued, by their IDs (jti).
type tokens struct {
	mu          sync.Mutex
	issued      map[string]*token
	defaultLife time.Duration
	lives       map[Operation]time.Duration
	opaque      bool
	offset      time.Duration
}

func newTokens(life time.Duration) *tokens {
	return &tokens{issued: map[string]*token{}, defaultLife: life, lives: map[Operation]time.Duration{}}
}

// SetTokenLife says how long the tokens live that operations issue from now on, all of them if none is named. Tokens carry
// whole seconds.
func (t *tokens) SetTokenLife(life time.Duration, operations ...Operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(operations) == 0 {
		t.defaultLife = life
		clear(t.lives)
	}
	for _, operation := range operations {
		t.lives[operation] = life
	}
}

// SetOpaque says whether the service provider API issues tokens that only CloudSigma can read, instead of JWTs.
func (t *tokens) SetOpaque(opaque bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opaque = opaque
}

// SetClock says how far the clock of the cloud and its identity provider is ahead of this machine's, or behind it if offset is
// negative. Tokens are issued and checked by that clock; certificates are not.
func (t *tokens) SetClock(offset time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.offset = offset
}

// ahead is how far the clock is ahead of this machine's.
func (t *tokens) ahead() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offset
}

// RevokeTokens makes all tokens of a user invalid that were issued until now. A service account is the user
// "service-account-<client ID>".
func (t *tokens) RevokeTokens(email string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, issued := range t.issued {
		if issued.user.Email == email {
			issued.revoked = true
		}
	}
}

// life is how long a token lives that an operation issues now.
func (t *tokens) life(operation Operation) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if life, ok := t.lives[operation]; ok {
		return life
	}
	return t.defaultLife
}

func (t *tokens) isOpaque() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opaque
}

// issue registers a token and returns its ID.
func (t *tokens) issue(g grant, expires time.Time) string {
	id := uuid.NewString()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued[id] = &token{grant: g, expires: expires}
	return id
}

// grantOf returns what a token was issued for, also if it is not valid any more.
func (t *tokens) grantOf(id string) (grant, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	issued, ok := t.issued[id]
	if !ok {
		return grant{}, false
	}
	return issued.grant, true
}

// valid returns what a token was issued for, if it holds now.
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
