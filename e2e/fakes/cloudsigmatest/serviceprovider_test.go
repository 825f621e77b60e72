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
