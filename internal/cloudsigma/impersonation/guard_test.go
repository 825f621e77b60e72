package impersonation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

func TestRetries(t *testing.T) {
	cases := map[string]struct {
		first    *reply
		patience time.Duration

		wantCause ownership.Cause // "" if the second request succeeds
		wantLeast time.Duration
		wantMost  time.Duration
	}{
		"a failing server":                  {first: says(http.StatusServiceUnavailable, ""), patience: 2 * time.Second, wantMost: 200 * time.Millisecond},
		"a broken connection":               {first: noAnswer(), patience: 2 * time.Second, wantMost: 200 * time.Millisecond},
		"too many requests":                 {first: says(http.StatusTooManyRequests, ""), patience: 2 * time.Second, wantMost: 200 * time.Millisecond},
		"no deadline":                       {first: says(http.StatusServiceUnavailable, ""), wantMost: 200 * time.Millisecond},
		"a Retry-After before the deadline": {first: retryIn("1"), patience: 2 * time.Second, wantLeast: time.Second, wantMost: time.Second},
		"a Retry-After beyond the deadline": {first: retryIn("3"), patience: 2 * time.Second, wantCause: ownership.CauseRateLimited},
		"a Retry-After beyond the timeout":  {first: retryIn("60"), wantCause: ownership.CauseRateLimited},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(_ step, _ url.Values, number int) *reply {
					if number == 1 {
						return tc.first
					}
					return nil
				}
				s := source(t, cloud, options(v1beta1.TokenExchange))
				ctx := t.Context()
				if tc.patience > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.patience)
					defer cancel()
				}
				began := time.Now()
				_, _, err := s.account(ctx)
				if tc.wantCause != "" {
					wantCause(t, asUnknown(err), tc.wantCause)
				} else if err != nil {
					t.Fatalf("account() error = %v", err)
				}
				if took := time.Since(began); took < tc.wantLeast || took > tc.wantMost {
					t.Errorf("it took %v, want %v to %v", took, tc.wantLeast, tc.wantMost)
				}
			})
		})
	}
}

func retryIn(seconds string) *reply {
	return &reply{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": seconds}}
}

func TestPatienceOfAllSteps(t *testing.T) {
	for _, at := range []step{stepAccount, stepTicket, stepImpersonate} {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(requested step, _ url.Values, _ int) *reply {
					if requested == at {
						return retryIn("3")
					}
					return nil
				}
				s := source(t, cloud, options(v1beta1.ServiceProvider))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				_, err := s.Token(ctx, alice, "zrh")
				wantCause(t, err, ownership.CauseRateLimited)
				if waited := time.Since(began); waited != 0 {
					t.Errorf("the caller waited for %v, want an error at once", waited)
				}
			})
		})
	}
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		cloud.answer = func(at step, _ url.Values, _ int) *reply {
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
		wantCounts(t, cloud, map[step]int{stepAccount: 1, stepTicket: 1, stepImpersonate: 1})
		cloud.answer = nil
		mustToken(t, s, alice)
	})
}

func TestBreaker(t *testing.T) {
	cases := map[string]struct {
		failing   step
		reply     *reply
		wantCause ownership.Cause
	}{
		"the identity provider fails":          {failing: stepAccount, reply: says(http.StatusInternalServerError, ""), wantCause: ownership.CauseIdentityProvider},
		"it is not reachable":                  {failing: stepAccount, reply: noAnswer(), wantCause: ownership.CauseIdentityProvider},
		"its response cannot be parsed":        {failing: stepAccount, reply: says(http.StatusOK, "<html>"), wantCause: ownership.CauseIdentityProvider},
		"its tokens have expired":              {failing: stepAccount, reply: says(http.StatusOK, `{"access_token":"t","expires_in":-5}`), wantCause: ownership.CauseIdentityProvider},
		"it limits requests":                   {failing: stepAccount, reply: says(http.StatusTooManyRequests, ""), wantCause: ownership.CauseRateLimited},
		"the service provider fails":           {failing: stepImpersonate, reply: says(http.StatusInternalServerError, ""), wantCause: ownership.CauseIdentityProvider},
		"the service provider limits requests": {failing: stepImpersonate, reply: says(http.StatusTooManyRequests, ""), wantCause: ownership.CauseRateLimited},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(at step, _ url.Values, _ int) *reply {
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
				if got := cloud.counts()[tc.failing]; got > failuresToOpen+lasts || got < lasts/2 {
					t.Errorf("%d requests in %d s of failure, want about 1 per second", got, lasts)
				}
				cloud.answer = nil
				advance(openFor + time.Millisecond)
				mustToken(t, s, alice)
				mustToken(t, s, bob)
			})
		})
	}
}

// TestUnknownUsersDoNotOpenTheBreaker requests tokens of unknown users, in sequence and concurrently.
func TestUnknownUsersDoNotOpenTheBreaker(t *testing.T) {
	for name, tc := range map[string]struct {
		flow  v1beta1.ImpersonationFlow
		at    step
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
				cloud.answer = func(at step, form url.Values, _ int) *reply {
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
							if held, ok := errors.AsType[*requestError](err); !ok || held.held {
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

func TestBreakerPerServer(t *testing.T) {
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
		wantCounts(t, cloud, map[step]int{stepAccount: 1, stepTicket: 1, stepImpersonate: 1})
	})
}

func TestOneAtATimeWhileHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		guard := newGuard()
		fail := func() (issued, error) { return issued{}, &requestError{step: stepAccount, fault: faultUnavailable} }
		for range failuresToOpen {
			if _, err := guard.do(fail); err == nil {
				t.Fatal("do() error = nil, want that of the request")
			}
		}
		advance(openFor + time.Millisecond)
		goOn := make(chan struct{})
		go func() {
			_, _ = guard.do(func() (issued, error) { <-goOn; return issued{value: "opaque"}, nil })
		}()
		synctest.Wait()
		_, err := guard.do(fail)
		wantCause(t, asUnknown(err), ownership.CauseIdentityProvider)
		if failed, ok := err.(*requestError); !ok || !failed.held { //nolint:errorlint // the type itself is what send compares
			t.Errorf("do() error = %v, want a rejection without a request", err)
		}
		close(goOn)
		synctest.Wait()
		if _, err := guard.do(func() (issued, error) { return issued{value: "opaque"}, nil }); err != nil {
			t.Errorf("do() error = %v after the server works again", err)
		}
	})
}
