package impersonation

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

const (
	// maxLife limits the lifetime of every token, whatever the server sends.
	maxLife = time.Hour
	// userLife is the lifetime of a user token of the service provider API without expires_in.
	userLife = 15 * time.Minute
	// unknownLife is the lifetime of any other token without expires_in (RFC 6749 section 5.1 leaves it to documentation).
	unknownLife = time.Minute
	// refreshFrom and refreshSpread define when a token is refreshed: at random between 75 and 85 percent of its lifetime, so that
	// tokens with the same start are not refreshed at the same time.
	refreshFrom, refreshSpread = 0.75, 0.10
)

// issued is a token, or a cached rejection.
type issued struct {
	value string
	// ticket is the service account's ticket for the service provider API, if the flow needs one.
	ticket string
	// obtained is the time of the response, by the local clock.
	obtained time.Time
	// refresh is the time to request a new token. expires is the time after which the token must not be used.
	refresh, expires time.Time
	// rejection is the reason of a rejection. stale is true if the service account's token may be the reason.
	rejection *ownership.UnknownError
	stale     bool
}

// due reports whether it is time to request a new token.
func (i issued) due() bool { return !time.Now().Before(i.refresh) }

// outcome returns the token, or the rejection as an error.
func (i issued) outcome() (issued, error) {
	if i.rejection != nil {
		return issued{}, i.rejection
	}
	return i, nil
}

// answer is a token response before validation.
type answer struct {
	token           string
	tokenType       string        // "" if the response has none
	issuedTokenType string        // "" if the response has none
	life            time.Duration // 0 if the response has none
}

// expectation describes a valid token. It applies to the claims of a token that is a JWT. The signature is not verified: the token
// came from its issuer over TLS, and the API that receives the token verifies it.
type expectation struct {
	step     cloudhttp.Operation
	began    time.Time // time of the request: the lifetime starts then, by the local clock
	life     time.Duration
	audience string // "" for any audience
	user     string // "" for no user
	client   string // the client ID of the request
	account  string // the token that authenticated the request
}

// claims are the claims of a JWT. Their types are checked, because a token need not comply with RFC 7519.
type claims map[string]any

func (c claims) text(name string) string {
	value, _ := c[name].(string) // a claim of another type counts as missing
	return value
}

// texts returns a claim that is a string or a list of strings.
func (c claims) texts(name string) []string {
	switch value := c[name].(type) {
	case string:
		return []string{value}
	case []any:
		var all []string
		for _, one := range value {
			if text, ok := one.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}

// life is the time from iat to exp. Both come from the server's clock, which may differ from the local one.
func (c claims) life() (life time.Duration, known bool) {
	expires, hasExpires := c["exp"].(float64)
	began, hasBegan := c["iat"].(float64)
	return seconds(expires - began), hasExpires && hasBegan
}

// seconds returns a duration, limited to one day in both directions.
func seconds(value float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(max(value, -day), day) * float64(time.Second))
}

// claimsOf returns the claims of a JWT, or none for any other token.
func claimsOf(token string) claims {
	found := claims{}
	if _, err := oidc.ParseToken(token, &found); err != nil {
		return claims{}
	}
	return found
}

// accept validates a response and computes the expiry of the token. It keeps only the access token. It returns a rejection if the token is not
// the requested one, and an error if the response is invalid.
func (a answer) accept(want expectation) (issued, *ownership.UnknownError) {
	invalid := func(reason string) *ownership.UnknownError {
		return cloudhttp.Unknown(ownership.CauseIdentityProvider, "", "%s request: %s", want.step, reason)
	}
	switch {
	case a.token == "":
		return issued{}, invalid("the response has no access token")
	case !cloudhttp.Sendable(a.token):
		return issued{}, invalid("the access token cannot be sent in a header")
	}
	found := claimsOf(a.token)
	if reason := a.mismatch(want, found); reason != "" {
		return rejected(invalid(reason), false), nil
	}
	life := cmp.Or(a.life, want.life)
	if own, known := found.life(); known {
		life = min(life, own)
	}
	life = min(life, maxLife)
	now := time.Now()
	if !now.Before(want.began.Add(life)) {
		return issued{}, invalid("the token expired before it arrived")
	}
	return issued{
		value: a.token, obtained: now, expires: want.began.Add(life),
		refresh: want.began.Add(time.Duration(float64(life) * (refreshFrom + refreshSpread*rand.Float64()))), //nolint:gosec // jitter need not be secret
	}, nil
}

// mismatch returns in which way the token is not the requested one, or "". The text does not name another user.
func (a answer) mismatch(want expectation, found claims) string {
	audiences := found.texts("aud")
	switch {
	case a.tokenType != "" && !strings.EqualFold(a.tokenType, oidc.BearerToken):
		return "the token is not a bearer token"
	case a.issuedTokenType != "" && !slices.Contains([]oidc.TokenType{oidc.AccessTokenType, oidc.JWTTokenType}, oidc.TokenType(a.issuedTokenType)):
		return "the token is not an access token"
	case want.audience != "" && len(audiences) > 0 && !slices.Contains(audiences, want.audience):
		return "the token is for another audience"
	case want.user == "":
		return ""
	}
	account := claimsOf(want.account).text("sub")
	subject := found.text("sub")
	if subject != "" && subject == account {
		return "the token is the service account's own, not the requested user's"
	}
	// If there is an email claim, it decides. In some realms users choose their names, and could choose the email of another user.
	who := []string{found.text("email"), found.text("preferred_username")}
	if strings.Contains(subject, "@") {
		who = append(who, subject) // any other subject is an ID without a user name
	}
	for _, name := range who {
		if name == "" {
			continue
		}
		if !strings.EqualFold(name, want.user) {
			return "the token belongs to another user than the requested one"
		}
		break
	}
	if actor, ok := found["act"].(map[string]any); ok && account != "" {
		if acting := claims(actor).text("sub"); acting != "" && acting != account && acting != want.client {
			return "the token has another actor than the service account"
		}
	}
	return ""
}

// parseAnswer parses a response of the service provider API.
func parseAnswer(body []byte) (answer, error) {
	var wire struct {
		AccessToken string      `json:"access_token"`
		TokenType   string      `json:"token_type"`
		ExpiresIn   json.Number `json:"expires_in"` // also accepts a string of digits
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return answer{}, err
	}
	// A value out of range becomes infinite, and a missing value 0.
	life, _ := wire.ExpiresIn.Float64()
	return answer{token: wire.AccessToken, tokenType: wire.TokenType, life: seconds(life)}, nil
}
