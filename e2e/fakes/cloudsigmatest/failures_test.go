package cloudsigmatest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// profileOf requests the profile of a token's user without an SDK, which would hide the response.
func (w *world) profileOf(t *testing.T, token string) answered {
	t.Helper()
	return w.do(t, http.MethodGet, w.profileURL(), http.Header{"Authorization": {"Bearer " + token}}, "")
}

func (w *world) profileURL() string {
	return strings.ReplaceAll(w.APITemplate(), "{region}", region) + "profile/"
}

func TestFailureStatus(t *testing.T) {
	w := newWorld(t)
	token := w.aliceToken(t)
	w.Fail(cloudsigmatest.TooManyRequests(3*time.Second), 2, cloudsigmatest.GetProfile)
	w.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 1, cloudsigmatest.GetProfile, cloudsigmatest.GetServer)
	for i, want := range []struct {
		status     int
		retryAfter string
	}{
		{http.StatusTooManyRequests, "3"}, {http.StatusTooManyRequests, "3"}, {http.StatusInternalServerError, ""}, {http.StatusOK, ""},
	} {
		answer := w.profileOf(t, token)
		if answer.status != want.status || answer.header.Get("Retry-After") != want.retryAfter {
			t.Errorf("response %d = %d, retry after %q; want %v", i, answer.status, answer.header.Get("Retry-After"), want)
		}
		if fails := answer.status != http.StatusOK; strings.Contains(string(answer.body), token) != fails || !json.Valid(answer.body) {
			t.Errorf("response %d = %s, want JSON that repeats the token if it fails", i, answer.body)
		}
	}
	if got := w.Count(cloudsigmatest.GetProfile, alice); got != 4 {
		t.Errorf("Count() = %d, want 4", got)
	}

	w.Fail(cloudsigmatest.TooManyRequests(0), 1)
	w.Fail(cloudsigmatest.Status(http.StatusBadGateway), 1)
	for _, want := range []int{http.StatusTooManyRequests, http.StatusBadGateway} {
		_, err := w.accountToken(t.Context(), oauth2.AuthStyleInParams)
		rejected := (*oauth2.RetrieveError)(nil)
		if !errors.As(err, &rejected) || rejected.Response.StatusCode != want || rejected.ErrorCode != "server_error" {
			t.Errorf("client credentials: error = %v, want %d", err, want)
		}
	}
	w.wantNoViolations(t)
}

func TestFailureUntilReleased(t *testing.T) {
	w := newWorld(t)
	token := w.aliceToken(t)
	failure := w.Fail(cloudsigmatest.BadJSON(), 0)
	for range 3 {
		if answer := w.profileOf(t, token); answer.status != http.StatusOK || json.Valid(answer.body) {
			t.Errorf("response = %d %s, want 200 and bad JSON", answer.status, answer.body)
		}
	}
	failure.Release()
	failure.Release()
	if answer := w.profileOf(t, token); answer.status != http.StatusOK || !json.Valid(answer.body) {
		t.Errorf("response = %d %s, want 200 and JSON", answer.status, answer.body)
	}
	if got := failure.Met(); got != 3 {
		t.Errorf("Met() = %d, want 3", got)
	}
}

func TestHang(t *testing.T) {
	w := newWorld(t)
	token := w.aliceToken(t)
	failure := w.Fail(cloudsigmatest.Hang(), 0, cloudsigmatest.GetProfile)
	ended := make(chan int, 2)
	ask := func(ctx context.Context) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.profileURL(), http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := w.HTTPClient().Do(request)
		if err != nil {
			ended <- 0
			return
		}
		_ = response.Body.Close()
		ended <- response.StatusCode
	}
	impatient, leave := context.WithCancel(t.Context())
	go ask(impatient)
	if err := failure.WaitMet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	leave()
	if status := <-ended; status != 0 {
		t.Errorf("the disconnected client got %d", status)
	}
	go ask(t.Context())
	if err := failure.WaitMet(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	requests := w.Requests()
	if last := requests[len(requests)-1]; last.Status != 0 || last.Operation != cloudsigmatest.GetProfile {
		t.Errorf("last request = %+v, want no response yet", last)
	}
	failure.Release()
	if status := <-ended; status != http.StatusOK {
		t.Errorf("the connected client got %d, want 200", status)
	}
	if err := failure.WaitMet(impatient, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitMet() error = %v, want canceled", err)
	}
}

func TestStop(t *testing.T) {
	w := newWorld(t)
	failure := w.Fail(cloudsigmatest.Hang(), 0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = w.accountToken(t.Context(), oauth2.AuthStyleInParams) // with or without a response
	}()
	if err := failure.WaitMet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Stop(); err != nil {
			t.Errorf("Stop() error = %v", err)
		}
	}
	<-ended
	if _, err := w.accountToken(t.Context(), oauth2.AuthStyleInParams); err == nil {
		t.Error("a stopped cloud issues tokens")
	}
}

func TestCut(t *testing.T) {
	w := newWorld(t)
	w.Fail(cloudsigmatest.Cut(), 0, cloudsigmatest.ClientCredentials)
	if _, err := w.accountToken(t.Context(), oauth2.AuthStyleInParams); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("client credentials: error = %v, want EOF", err)
	}
}

func TestLatency(t *testing.T) {
	w := newWorld(t)
	token := w.aliceToken(t)
	w.SetLatency(time.Hour)
	w.SetLatency(20*time.Millisecond, cloudsigmatest.GetProfile)
	start := time.Now()
	if answer := w.profileOf(t, token); answer.status != http.StatusOK || time.Since(start) < 20*time.Millisecond {
		t.Errorf("response = %d after %s, want 200 after 20ms", answer.status, time.Since(start))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.accountToken(ctx, oauth2.AuthStyleInParams); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("client credentials: error = %v, want the deadline", err)
	}
}

func TestChangedResponses(t *testing.T) {
	w := newWorld(t)
	account := w.mustAccountToken(t)
	for name, tc := range map[string]struct {
		value any
		want  any
	}{
		"missing": {nil, nil}, "zero": {0, 0.0}, "a string": {"300", "300"}, "negative": {-1, -1.0},
	} {
		t.Run("expires_in "+name, func(t *testing.T) {
			w.Fail(cloudsigmatest.Field("expires_in", tc.value), 1, cloudsigmatest.UMATicket)
			if status, body := w.ticket(t, account); status != http.StatusOK || body["expires_in"] != tc.want || body["access_token"] == nil {
				t.Errorf("ticket = %d %v, want expires_in %v", status, body, tc.want)
			}
		})
	}
	w.Fail(cloudsigmatest.Field("expires_in", 0), 1, cloudsigmatest.UMATicket)
	if status, body := w.ticket(t, "guess"); status != http.StatusUnauthorized || body["expires_in"] != nil {
		t.Errorf("an error response was changed: %d %v", status, body)
	}

	w.Fail(cloudsigmatest.ExpiredToken(), 1, cloudsigmatest.TokenExchange)
	expired, err := w.exchange(t.Context(), nil)
	if err != nil || expired.ExpiresIn != 300 {
		t.Fatalf("token exchange = %v, error = %v; want one with a lifetime of 5 minutes", expired, err)
	}
	if answer := w.profileOf(t, expired.AccessToken); answer.status != http.StatusUnauthorized {
		t.Errorf("with an expired token: %d, want 401", answer.status)
	}

	w.Fail(cloudsigmatest.TokenOf(bob), 0, cloudsigmatest.TokenExchange, cloudsigmatest.Impersonate, cloudsigmatest.ClientCredentials)
	response, err := w.exchange(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if claims := w.claims(t, response.AccessToken); claims.Subject != w.bob.UUID {
		t.Errorf("the exchanged token is of %q, want bob", claims.Subject)
	}
	if claims := w.claims(t, w.mustAccountToken(t)); claims.Subject != w.bob.UUID {
		t.Errorf("the account's token is of %q, want bob", claims.Subject)
	}
	_, ticket := w.ticket(t, account)
	rpt, _ := ticket["access_token"].(string)
	_, body := w.impersonate(t, rpt, account, alice)
	token, _ := body["access_token"].(string)
	if claims := w.claims(t, token); claims.Subject != w.bob.UUID {
		t.Errorf("the impersonated token is of %q, want bob", claims.Subject)
	}
}
