package cloudsigmatest_test

import (
	"net/http"
	"testing"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

func TestImpersonate(t *testing.T) {
	w := newWorld(t)
	account := w.mustAccountToken(t)
	_, answer := w.ticket(t, account)
	rpt, _ := answer["access_token"].(string)

	status, body := w.impersonate(t, rpt, account, alice)
	token, _ := body["access_token"].(string)
	if status != http.StatusOK || len(body) != 2 || body["expires_in"] == nil {
		t.Fatalf("impersonate = %d %v, want 200 with access_token and expires_in", status, body)
	}
	claims := w.claims(t, token)
	if claims.Subject != w.alice.UUID || claims.Claims["email"] != alice || claims.Audience[0] != cloudsigmatest.AudienceAPI {
		t.Errorf("the token is of %q, %v for %v; want %v", claims.Subject, claims.Claims["email"], claims.Audience, w.alice)
	}

	w.SetOpaque(true)
	_, body = w.impersonate(t, rpt, account, alice)
	opaque, _ := body["access_token"].(string)
	for what, token := range map[string]string{"a JWT": token, "an opaque token": opaque} {
		profile, _, err := w.sdkOf(token).Profile.Get(t.Context())
		if err != nil || profile.UUID != w.alice.UUID || profile.Email != alice {
			t.Errorf("with %s: profile = %v, error = %v", what, profile, err)
		}
	}
	if got := w.Count(cloudsigmatest.Impersonate, alice); got != 2 {
		t.Errorf("Count() = %d, want 2", got)
	}
	w.wantNoViolations(t)
}

func TestImpersonateRejected(t *testing.T) {
	w := newWorld(t)
	account, exchanged := w.mustAccountToken(t), w.aliceToken(t)
	_, answer := w.ticket(t, account)
	rpt, _ := answer["access_token"].(string)
	stranger := *w
	stranger.partner = w.AddClient("stranger")

	for name, tc := range map[string]struct {
		ticket, subject, email string
		wantStatus             int
	}{
		"the account's token instead of the ticket":  {account, account, alice, http.StatusUnauthorized},
		"a user's token instead of the ticket":       {exchanged, account, alice, http.StatusUnauthorized},
		"a forged ticket":                            {forge(rpt), account, alice, http.StatusUnauthorized},
		"a forged subject token":                     {rpt, forge(account), alice, http.StatusUnauthorized},
		"a user's token as the subject token":        {rpt, exchanged, alice, http.StatusUnauthorized},
		"another client's subject token":             {rpt, stranger.mustAccountToken(t), alice, http.StatusUnauthorized},
		"a user that the client may not impersonate": {rpt, account, bob, http.StatusForbidden},
		"a user that does not exist":                 {rpt, account, "carol@example.com", http.StatusForbidden},
		"a UUID where an e-mail is expected":         {rpt, account, w.alice.UUID, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			if status, body := w.impersonate(t, tc.ticket, tc.subject, tc.email); status != tc.wantStatus || body["access_token"] != nil {
				t.Errorf("impersonate = %d %v, want %d", status, body, tc.wantStatus)
			}
		})
	}
	w.wantNoViolations(t)
}
