package impersonation

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

func TestRetries(t *testing.T) {
	cases := map[string]struct {
		first     *reply
		wantCause ownership.Cause // "" if the second request succeeds
		wantMost  time.Duration
	}{
		"a failing server":    {first: says(http.StatusServiceUnavailable, ""), wantMost: 200 * time.Millisecond},
		"a broken connection": {first: noAnswer(), wantMost: 200 * time.Millisecond},
		"too many requests":   {first: says(http.StatusTooManyRequests, ""), wantMost: 200 * time.Millisecond},
		"a Retry-After":       {first: retryIn("1"), wantCause: ownership.CauseRateLimited},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(_ cloudhttp.Operation, _ url.Values, number int) *reply {
					if number == 1 {
						return tc.first
					}
					return nil
				}
				s := source(t, cloud, options(v1beta1.TokenExchange))
				began := time.Now()
				_, err := s.credentials(t.Context())
				if tc.wantCause != "" {
					wantCause(t, err, tc.wantCause)
				} else if err != nil {
					t.Fatalf("credentials() error = %v", err)
				}
				if took := time.Since(began); took > tc.wantMost {
					t.Errorf("it took %v, want %v at most", took, tc.wantMost)
				}
			})
		})
	}
}

func retryIn(seconds string) *reply {
	return &reply{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": seconds}}
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		cloud.answer = func(at cloudhttp.Operation, _ url.Values, _ int) *reply {
			if at == stepImpersonate {
				return retryIn("20")
			}
			return nil
		}
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		for second := range 20 {
			for _, user := range []string{alice, bob} {
				_, err := s.Token(t.Context(), user, "zrh")
				wantCause(t, err, ownership.CauseRateLimited)
				if got, want := unknown(t, err).RetryAfter, time.Duration(20-second)*time.Second; got != want {
					t.Errorf("RetryAfter = %v after %d s, want %v", got, second, want)
				}
			}
			advance(time.Second)
		}
		wantCounts(t, cloud, map[cloudhttp.Operation]int{stepAccount: 1, stepTicket: 1, stepImpersonate: 1})
		cloud.answer = nil
		mustToken(t, s, alice)
	})
}

func TestOutage(t *testing.T) {
	cases := map[string]struct {
		failing   cloudhttp.Operation
		reply     *reply
		wantCause ownership.Cause
	}{
		"the identity provider fails":          {failing: stepAccount, reply: says(http.StatusInternalServerError, ""), wantCause: ownership.CauseIdentityProvider},
		"it limits requests":                   {failing: stepAccount, reply: says(http.StatusTooManyRequests, ""), wantCause: ownership.CauseRateLimited},
		"the service provider fails":           {failing: stepImpersonate, reply: says(http.StatusInternalServerError, ""), wantCause: ownership.CauseIdentityProvider},
		"the service provider limits requests": {failing: stepImpersonate, reply: says(http.StatusTooManyRequests, ""), wantCause: ownership.CauseRateLimited},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(at cloudhttp.Operation, _ url.Values, _ int) *reply {
					if at == tc.failing {
						return tc.reply
					}
					return nil
				}
				s := source(t, cloud, options(v1beta1.ServiceProvider))
				const lasts = 60
				for began := time.Now(); time.Since(began) < lasts*time.Second; {
					_, err := s.Token(t.Context(), fmt.Sprintf("user-%d@example.com", time.Since(began)), "zrh")
					wantCause(t, err, tc.wantCause)
					advance(50 * time.Millisecond)
				}
				if got := cloud.counts()[tc.failing]; got > 20 || got < lasts/5 {
					t.Errorf("%d requests in %d s of failure, want about one in 5 s", got, lasts)
				}
				cloud.answer = nil
				advance(pauses.Cap)
				mustToken(t, s, alice)
				mustToken(t, s, bob)
			})
		})
	}
}

// TestUnknownUsersAreNoOutage requests tokens of unknown users, in sequence and concurrently.
func TestUnknownUsersAreNoOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		flow  v1beta1.ImpersonationFlow
		at    cloudhttp.Operation
		reply *reply
	}{
		"an unknown user":           {v1beta1.ServiceProvider, stepImpersonate, says(http.StatusNotFound, "")},
		"a user without permission": {v1beta1.ServiceProvider, stepImpersonate, says(http.StatusForbidden, `{"error":"access_denied"}`)},
		"a malformed user":          {v1beta1.ServiceProvider, stepImpersonate, says(http.StatusBadRequest, "<html>")},
		"a token of another user":   {v1beta1.ServiceProvider, stepImpersonate, says(http.StatusOK, `{"access_token":"`+jwt(`{"email":"eve@example.com"}`)+`"}`)},
		"an invalid exchange":       {v1beta1.TokenExchange, stepExchange, says(http.StatusBadRequest, `{"error":"invalid_request"}`)},
		"a denied exchange":         {v1beta1.TokenExchange, stepExchange, says(http.StatusForbidden, `{"error":"access_denied"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(at cloudhttp.Operation, form url.Values, _ int) *reply {
					if at == tc.at && strings.Contains(form.Encode(), "unknown-") {
						return tc.reply
					}
					return nil
				}
				s := source(t, cloud, options(tc.flow))
				for i := range 50 {
					var group sync.WaitGroup
					for n := range 10 {
						group.Go(func() {
							_, err := s.Token(t.Context(), fmt.Sprintf("unknown-%d-%d@example.com", i, n), "zrh")
							if strings.Contains(unknown(t, err).Error(), "not sent") {
								t.Errorf("Token() error = %v, want that of the server", err)
							}
						})
					}
					group.Wait()
					mustToken(t, s, fmt.Sprintf("user-%d@example.com", i))
				}
			})
		})
	}
}

func TestOutageOfOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		s := source(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "direct.next.example.com" {
				return nil, fmt.Errorf("no such host")
			}
			return cloud.RoundTrip(r)
		}), options(v1beta1.ServiceProvider))
		for range 10 {
			_, err := s.Token(t.Context(), alice, "next")
			wantCause(t, err, ownership.CauseIdentityProvider)
			mustToken(t, s, alice)
		}
		wantCounts(t, cloud, map[cloudhttp.Operation]int{stepAccount: 1, stepTicket: 1, stepImpersonate: 1})
	})
}

// TestOneRequestAtATime: after a failure, one of many users checks whether the server works again, and no other waits for it.
func TestOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		mustToken(t, s, alice)
		cloud.answer = func(cloudhttp.Operation, url.Values, int) *reply { return says(http.StatusInternalServerError, "") }
		_, err := s.Token(t.Context(), bob, "zrh")
		wantCause(t, err, ownership.CauseIdentityProvider)
		advance(pauses.Cap)
		cloud.delay, cloud.answer = time.Second, nil
		var users sync.WaitGroup
		var got atomic.Int32
		for n := range 100 {
			users.Go(func() {
				began := time.Now()
				_, err := s.Token(t.Context(), fmt.Sprintf("user-%d@example.com", n), "zrh")
				switch {
				case err == nil:
					got.Add(1)
				case time.Since(began) > 0:
					t.Errorf("Token() took %v to fail with %v", time.Since(began), err)
				}
			})
		}
		users.Wait()
		if got.Load() != 1 {
			t.Errorf("%d users got a token, want 1", got.Load())
		}
		cloud.delay = 0
		mustToken(t, s, bob)
	})
}

// TestFailuresAtOnceCountOnce: requests that were sent before a failure became known do not lengthen the pause.
func TestFailuresAtOnceCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		mustToken(t, s, alice)
		cloud.delay = time.Millisecond
		cloud.answer = func(_ cloudhttp.Operation, _ url.Values, number int) *reply {
			if number <= 101 {
				return noAnswer()
			}
			return nil
		}
		var users sync.WaitGroup
		for n := range 100 {
			users.Go(func() { _, _ = s.Token(t.Context(), fmt.Sprintf("user-%d@example.com", n), "zrh") })
		}
		users.Wait()
		advance(100 * time.Millisecond)
		mustToken(t, s, bob)
	})
}
