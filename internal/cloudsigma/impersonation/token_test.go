package impersonation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
)

func TestExpiry(t *testing.T) {
	cases := map[string]struct {
		expiresIn string // "" for no field

		// The lifetime of the token; 0 if it is rejected.
		wantServiceProvider, wantExchange time.Duration
	}{
		"none":                {wantServiceProvider: userLife, wantExchange: unknownLife},
		"null":                {expiresIn: "null", wantServiceProvider: userLife, wantExchange: unknownLife},
		"zero":                {expiresIn: "0", wantServiceProvider: userLife, wantExchange: unknownLife},
		"a minute":            {expiresIn: "60", wantServiceProvider: time.Minute, wantExchange: time.Minute},
		"a text":              {expiresIn: `"300"`, wantServiceProvider: 5 * time.Minute, wantExchange: 5 * time.Minute},
		"a day":               {expiresIn: "86400", wantServiceProvider: maxLife, wantExchange: maxLife},
		"more than 31 bits":   {expiresIn: "4294967296000", wantServiceProvider: maxLife, wantExchange: maxLife},
		"negative":            {expiresIn: "-1"},
		"very negative":       {expiresIn: "-86400000"},
		"words":               {expiresIn: `"soon"`},
		"a list":              {expiresIn: `[300]`},
		"more than a float64": {expiresIn: "1e999", wantServiceProvider: maxLife},
		"less than a float64": {expiresIn: "-1e999"},
		"parts of a second":   {expiresIn: "90.5", wantServiceProvider: 90500 * time.Millisecond},
		"more than 63 bits":   {expiresIn: "99999999999999999999", wantServiceProvider: maxLife},
		"a negative text":     {expiresIn: `"-300"`},
		"an empty text":       {expiresIn: `""`},
	}
	for name, tc := range cases {
		for flow, want := range map[v1beta1.ImpersonationFlow]time.Duration{
			v1beta1.ServiceProvider: tc.wantServiceProvider, v1beta1.TokenExchange: tc.wantExchange,
		} {
			t.Run(fmt.Sprintf("%s, %s", flow, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					defer settle()
					cloud := newCloud(t)
					cloud.life = 3600
					cloud.answer = func(at cloudhttp.Operation, _ url.Values, number int) *reply {
						if at != stepImpersonate && at != stepExchange {
							return nil
						}
						member := ""
						if tc.expiresIn != "" {
							member = `,"expires_in":` + tc.expiresIn
						}
						return says(http.StatusOK, fmt.Sprintf(`{"access_token":"opaque-%d"%s}`, number, member))
					}
					s := source(t, cloud, options(flow))
					token, err := s.Token(t.Context(), alice, "zrh")
					if want == 0 {
						if err == nil {
							t.Errorf("Token() = %q, want an error", token)
						}
						return
					}
					if err != nil {
						t.Fatalf("Token() error = %v", err)
					}
					cloud.delay = time.Hour // no refresh succeeds
					advance(want - time.Millisecond)
					if got := mustToken(t, s, alice); got != token {
						t.Errorf("Token() = %q before %v, want %q", got, want, token)
					}
					advance(time.Millisecond)
					if _, found := s.tokens.GetIfPresent(key{Credentials: *s.proven.Load(), user: alice, region: "zrh"}); found {
						t.Errorf("the token is still there after %v", want)
					}
				})
			})
		}
	}
}

func TestLifeIsCountedFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		cloud.life = 10
		cloud.delay = 4 * time.Second
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		mustToken(t, s, alice)
		token, found := s.tokens.GetIfPresent(key{Credentials: *s.proven.Load(), user: alice, region: "zrh"})
		if !found || time.Until(token.expires) != 6*time.Second {
			t.Errorf("the lifetime of the token is %v, want 6 s: 10 s from the request", time.Until(token.expires))
		}
	})
}

func TestAccept(t *testing.T) {
	now := time.Date(2026, 2, 4, 12, 0, 0, 0, time.UTC)
	stamps := func(clock time.Time, life time.Duration) string {
		return fmt.Sprintf(`"iat":%d,"exp":%d`, clock.Unix(), clock.Add(life).Unix())
	}
	account := jwt(`{"sub":"11111111","preferred_username":"service-account-kube-dc-partner"}`)
	cases := map[string]struct {
		claims string // "" for an opaque token
		change func(*answer)

		wantLife time.Duration
		wantErr  string
	}{
		"an opaque token":                 {wantLife: 5 * time.Minute},
		"dots, but not a JWT":             {change: func(a *answer) { a.token = "a.b.c" }, wantLife: 5 * time.Minute},
		"the email":                       {claims: `{"sub":"2222","email":"Alice@Example.com"}`, wantLife: 5 * time.Minute},
		"the user's name":                 {claims: `{"sub":"2222","preferred_username":"alice@example.com"}`, wantLife: 5 * time.Minute},
		"the subject":                     {claims: `{"sub":"alice@example.com"}`, wantLife: 5 * time.Minute},
		"only an ID":                      {claims: `{"sub":"2222"}`, wantLife: 5 * time.Minute},
		"claims of odd types":             {claims: `{"sub":7,"email":["x"],"aud":[1,{}],"exp":"x","iat":null,"act":3}`, wantLife: 5 * time.Minute},
		"claims that are not an object":   {claims: `[1]`, wantLife: 5 * time.Minute},
		"the audience":                    {claims: `{"aud":"cloudsigma-api"}`, wantLife: 5 * time.Minute},
		"the audience among others":       {claims: `{"aud":["account","cloudsigma-api"]}`, wantLife: 5 * time.Minute},
		"the service account acts":        {claims: `{"act":{"sub":"11111111"}}`, wantLife: 5 * time.Minute},
		"the client acts":                 {claims: `{"act":{"sub":"kube-dc-partner"}}`, wantLife: 5 * time.Minute},
		"a shorter lifetime in the token": {claims: `{` + stamps(now, time.Minute) + `}`, wantLife: time.Minute},
		"a longer lifetime in the token":  {claims: `{` + stamps(now, time.Hour) + `}`, wantLife: 5 * time.Minute},
		"a clock that is 5 minutes slow":  {claims: `{` + stamps(now.Add(-5*time.Minute), time.Minute) + `}`, wantLife: time.Minute},
		"a clock that is 5 minutes fast":  {claims: `{` + stamps(now.Add(5*time.Minute), time.Minute) + `}`, wantLife: time.Minute},
		"times out of range":              {claims: `{"iat":-1e308,"exp":1e308}`, wantLife: 5 * time.Minute},
		"a bearer token in small letters": {change: func(a *answer) { a.tokenType = "bearer" }, wantLife: 5 * time.Minute},
		"issued as a JWT":                 {change: func(a *answer) { a.issuedTokenType = "urn:ietf:params:oauth:token-type:jwt" }, wantLife: 5 * time.Minute},
		"the email of another user":       {claims: `{"email":"mallory@example.com"}`, wantErr: "to another user"},
		"the email of another user under the user's name": {
			claims: `{"email":"mallory@example.com","preferred_username":"alice@example.com"}`, wantErr: "to another user",
		},
		"the name of another user":    {claims: `{"preferred_username":"mallory"}`, wantErr: "to another user"},
		"the subject of another user": {claims: `{"sub":"mallory@example.com"}`, wantErr: "to another user"},
		"the service account's own":   {claims: `{"sub":"11111111"}`, wantErr: "the service account's own"},
		"another audience":            {claims: `{"aud":["account"]}`, wantErr: "another audience"},
		"another actor":               {claims: `{"act":{"sub":"3333"}}`, wantErr: "another actor"},
		"expired when issued":         {claims: `{` + stamps(now, -time.Minute) + `}`, wantErr: "expired before"},
		"not a bearer token":          {change: func(a *answer) { a.tokenType = "N_A" }, wantErr: "not a bearer token"},
		"issued as a refresh token":   {change: func(a *answer) { a.issuedTokenType = "urn:ietf:params:oauth:token-type:refresh_token" }, wantErr: "not an access token"},
		"a line break":                {change: func(a *answer) { a.token = "a\r\nHost: evil" }, wantErr: "cannot be sent in a header"},
		"too large":                   {change: func(a *answer) { a.token = strings.Repeat("a", 16<<10+1) }, wantErr: "cannot be sent in a header"},
		"nothing":                     {change: func(a *answer) { a.token = "" }, wantErr: "no access token"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				began := time.Now()
				got := answer{token: "opaque", tokenType: "Bearer", issuedTokenType: "urn:ietf:params:oauth:token-type:access_token", life: 5 * time.Minute}
				if tc.claims != "" {
					got.token = jwt(tc.claims)
				}
				if tc.change != nil {
					tc.change(&got)
				}
				token, err := got.accept(expectation{
					step: stepExchange, began: began, life: unknownLife, audience: "cloudsigma-api",
					user: alice, client: "kube-dc-partner", account: account,
				})
				if err == nil {
					err = token.rejection
				}
				if tc.wantErr != "" {
					if err == nil || !strings.Contains(err.Error(), tc.wantErr) || strings.Contains(err.Error(), "mallory") {
						t.Errorf("accept() error = %v, want %q", err, tc.wantErr)
					}
					return
				}
				if err != nil {
					t.Fatalf("accept() error = %v", err)
				}
				if life := token.expires.Sub(began); life != tc.wantLife || token.value != got.token {
					t.Errorf("accept() = %q for %v, want %q for %v", token.value, life, got.token, tc.wantLife)
				}
			})
		})
	}
}

func TestTicketOfAnotherAudience(t *testing.T) {
	cloud := newCloud(t)
	cloud.answer = func(at cloudhttp.Operation, _ url.Values, _ int) *reply {
		if at == stepTicket {
			return says(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"expires_in":300}`, jwt(`{"aud":"other"}`)))
		}
		return nil
	}
	_, err := source(t, cloud, options(v1beta1.ServiceProvider)).Token(t.Context(), alice, "zrh")
	if want := `IdentityProviderUnavailable: ticket request: the token is for another audience`; err == nil || err.Error() != want {
		t.Errorf("Token() error = %v, want %q", err, want)
	}
}

// FuzzTokenAnswer parses arbitrary responses with both flows.
func FuzzTokenAnswer(f *testing.F) {
	for _, body := range []string{
		`{"access_token":"opaque","expires_in":300,"token_type":"Bearer"}`,
		`{"access_token":"opaque","expires_in":"300"}`,
		`{"access_token":"opaque","expires_in":-1}`,
		`{"access_token":"opaque","expires_in":1e999}`,
		`{"access_token":"opaque","expires_in":99999999999999999999}`,
		`{"access_token":"opaque","expires_in":null,"issued_token_type":7,"refresh_token":"r"}`,
		`{"access_token":"a\nb"}`, `{"access_token":{}}`, `{"error":"invalid_grant"}`, `[]`, `null`, ``, `{`,
		fmt.Sprintf(`{"access_token":%q,"expires_in":60}`, jwt(`{"sub":"alice@example.com","aud":[1],"iat":1,"exp":1e308}`)),
		fmt.Sprintf(`{"access_token":%q}`, jwt(`{"email":"bob@example.com","act":{"sub":{}}}`)),
		fmt.Sprintf(`{"access_token":%q}`, jwt(`null`)),
	} {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusFound} {
			f.Add(status, "application/json", "", body)
		}
	}
	f.Add(http.StatusOK, "application/x-www-form-urlencoded", "", "access_token=opaque&expires_in=-9223372036854775808")
	f.Add(http.StatusTooManyRequests, "text/plain", "99999999999", "error=canary")

	f.Fuzz(func(t *testing.T, status int, contentType, retryAfter, body string) {
		if status < 200 || status > 599 {
			status = http.StatusOK
		}
		for _, flow := range []v1beta1.ImpersonationFlow{v1beta1.ServiceProvider, v1beta1.TokenExchange} {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(at cloudhttp.Operation, _ url.Values, _ int) *reply {
					if at == stepImpersonate || at == stepExchange {
						return &reply{status: status, body: body, header: map[string]string{"Content-Type": contentType, "Retry-After": retryAfter}}
					}
					return nil
				}
				s := source(t, cloud, options(flow))
				began := time.Now()
				token, err := s.Token(t.Context(), alice, "zrh")
				if err != nil {
					if got := unknown(t, err).RetryAfter; got > 5*time.Minute {
						t.Errorf("RetryAfter = %v, want 5 minutes at most", got)
					}
					if token != "" {
						t.Errorf("a token was returned with the error %v", err)
					}
					return
				}
				entry, found := s.tokens.GetIfPresent(key{Credentials: *s.proven.Load(), user: alice, region: "zrh"})
				if !found || !entry.expires.After(began) || entry.expires.After(began.Add(maxLife)) {
					t.Errorf("the token is used from %v until %v, want %v at most", began, entry.expires, maxLife)
				}
				if token == "" || strings.ContainsAny(token, "\r\n\x00 ") {
					t.Errorf("Token() = %q, which is not a valid header", token)
				}
				if email := claimsOf(token).text("email"); email != "" && !strings.EqualFold(email, alice) {
					t.Errorf("the token is of %q", email)
				}
			})
		}
	})
}

func FuzzClaims(f *testing.F) {
	for _, claims := range []string{`{}`, `{"aud":[1,"x"],"act":{"sub":"x"},"iat":1e308,"exp":-1e308}`, `null`, `[]`, `"x"`, ``} {
		f.Add(claims)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := answer{token: jwt(text), life: time.Minute}.accept(expectation{
			step: stepExchange, began: time.Now(), audience: "cloudsigma-api", user: alice, account: jwt(`{"sub":"service"}`),
		})
		if err != nil || token.rejection != nil {
			return
		}
		var found struct {
			Email any `json:"email"`
		}
		if json.Unmarshal([]byte(text), &found) == nil {
			if email, ok := found.Email.(string); ok && email != "" && !strings.EqualFold(email, alice) {
				t.Errorf("a token of %q was accepted until %v", email, token.expires)
			}
		}
	})
}
