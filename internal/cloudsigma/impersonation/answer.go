package impersonation

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"

	"warrantgate.dev/internal/cloudhttp"
)

const (
	// maxLife is the longest that a token is used, whatever its server says.
	maxLife = time.Hour
	// userLife is the life of a user's token of the service provider API that does not tell it.
	userLife = 15 * time.Minute
	// unknownLife is the life of any other token that does not tell it (RFC 6749 section 5.1 leaves it to documentation).
	unknownLife = time.Minute
	// refreshFrom and refreshSpread say when a token is due: between 75 and 85 percent of its life, at random, so that
	// tokens which were had together are not renewed together.
	refreshFrom, refreshSpread = 0.75, 0.10
)

// answer is what a server sent as a token, not yet believed.
type answer struct {
	token           string
	tokenType       string        // "" where the server did not say
	issuedTokenType string        // "" where the server did not say
	life            time.Duration // 0 where the server did not say
}

// expectation says what a token has to be. As far as it is a JWT, this is checked; its signature is not, because the
// token came from its issuer over TLS, and who is to believe it checks it.
type expectation struct {
	step     step
	began    time.Time // when it was asked for: its life is counted from then, by our clock
	life     time.Duration
	audience string // "" for any
	user     string // "" for no user
	client   string // who asks
	account  string // the token that it was asked for with
}

// claims are those of a JWT that are looked at. Types are checked by hand: a token need not follow RFC 7519.
type claims map[string]any

func (c claims) text(name string) string {
	value, _ := c[name].(string) // a claim of another type is as good as none
	return value
}

// texts returns a claim that is a text or a list of texts.
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

// life is the time from iat to exp. The two are of one clock, which need not be ours.
func (c claims) life() (life time.Duration, known bool) {
	expires, hasExpires := c["exp"].(float64)
	began, hasBegan := c["iat"].(float64)
	return seconds(expires - began), hasExpires && hasBegan
}

// seconds is a duration within a day either way.
func seconds(value float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(max(value, -day), day) * float64(time.Second))
}

// claimsOf returns the claims of a JWT, and none of any other token.
func claimsOf(token string) claims {
	found := claims{}
	if _, err := oidc.ParseToken(token, &found); err != nil {
		return claims{}
	}
	return found
}

// accept checks a token and says until when it is used. Of the answer only the access token is kept.
func (a answer) accept(want expectation) (issued, error) {
	refuse := func(fault fault, reason string) (issued, error) {
		return issued{}, &requestError{step: want.step, fault: fault, status: http.StatusOK, reason: reason}
	}
	switch {
	case a.token == "":
		return refuse(faultBroken, "the answer has no access token")
	case !cloudhttp.Sendable(a.token):
		return refuse(faultBroken, "the access token cannot be sent in a header")
	case a.tokenType != "" && !strings.EqualFold(a.tokenType, oidc.BearerToken):
		return refuse(faultRefused, "the token is no bearer token")
	case a.issuedTokenType != "" && !slices.Contains([]oidc.TokenType{oidc.AccessTokenType, oidc.JWTTokenType}, oidc.TokenType(a.issuedTokenType)):
		return refuse(faultRefused, "the token is no access token")
	}
	found := claimsOf(a.token)
	if reason := want.mismatch(found); reason != "" {
		return refuse(faultRefused, reason)
	}
	life := a.life
	if life == 0 {
		life = want.life
	}
	if own, known := found.life(); known {
		life = min(life, own)
	}
	life = min(life, maxLife)
	now := time.Now()
	if !now.Before(want.began.Add(life)) {
		return refuse(faultBroken, "the token has expired before it came")
	}
	return issued{
		value: a.token, obtained: now, expires: want.began.Add(life),
		refresh: want.began.Add(time.Duration(float64(life) * (refreshFrom + refreshSpread*rand.Float64()))), //nolint:gosec // jitter is no secret
	}, nil
}

// mismatch says what is wrong with a token, "" if nothing is. The text does not name another user.
func (want expectation) mismatch(found claims) string {
	if audiences := found.texts("aud"); want.audience != "" && len(audiences) > 0 && !slices.Contains(audiences, want.audience) {
		return "the token is for another audience"
	}
	if want.user == "" {
		return ""
	}
	account := claimsOf(want.account).text("sub")
	subject := found.text("sub")
	if subject != "" && subject == account {
		return "the token is the service account's own, not the requested user's"
	}
	// The email decides where there is one: in some realms users choose their names, and could choose another's email.
	who := []string{found.text("email"), found.text("preferred_username")}
	if strings.Contains(subject, "@") {
		who = append(who, subject) // any other subject is an id, which says nothing
	}
	for _, name := range who {
		if name == "" {
			continue
		}
		if !strings.EqualFold(name, want.user) {
			return "the token is of another user than the requested one"
		}
		break
	}
	if actor, ok := found["act"].(map[string]any); ok && account != "" {
		if acting := claims(actor).text("sub"); acting != "" && acting != account && acting != want.client {
			return "the token is for another actor than the service account"
		}
	}
	return ""
}

// parseAnswer reads an answer of the service provider API.
func parseAnswer(body []byte) (answer, error) {
	var wire struct {
		AccessToken string      `json:"access_token"`
		TokenType   string      `json:"token_type"`
		ExpiresIn   json.Number `json:"expires_in"` // takes a text of digits as well
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return answer{}, err
	}
	// What is out of range is infinite, and what is missing is 0.
	life, _ := wire.ExpiresIn.Float64()
	return answer{token: wire.AccessToken, tokenType: wire.TokenType, life: seconds(life)}, nil
}
