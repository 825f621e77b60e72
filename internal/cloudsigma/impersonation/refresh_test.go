package impersonation

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

func TestRefresh(t *testing.T) {
	for _, life := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour} {
		t.Run(life.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.life = int(life.Seconds())
				s := source(t, cloud, options(v1beta1.TokenExchange))
				first := mustToken(t, s, alice)
				advance(life * 74 / 100)
				for range 10 {
					if got := mustToken(t, s, alice); got != first {
						t.Fatalf("Token() = %q before it is due, want %q", got, first)
					}
				}
				wantCounts(t, cloud, map[cloudhttp.Operation]int{stepAccount: 1, stepExchange: 1})

				advance(life * 12 / 100)
				cloud.delay = time.Second
				for range 10 { // the refresh blocks, and no caller waits for it
					if got := mustToken(t, s, alice); got != first {
						t.Fatalf("Token() = %q while it is refreshed, want %q", got, first)
					}
				}
				advance(3 * time.Second)
				if got, want := mustToken(t, s, alice), "canary-exchange-2"; got != want {
					t.Errorf("Token() = %q after the refresh, want %q", got, want)
				}
			})
		})
	}
}

func TestRefreshTimesDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			token, err := answer{token: "opaque", life: 100 * time.Second}.accept(expectation{began: time.Now()})
			if err != nil {
				t.Fatalf("accept() error = %v", err)
			}
			due := time.Until(token.refresh)
			least, most = min(least, due), max(most, due)
		}
		if least < 75*time.Second || most > 85*time.Second || most-least < 9*time.Second {
			t.Errorf("tokens of 100 s are due after %v to %v, want 75 s to 85 s", least, most)
		}
	})
}

func TestRefreshFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		cloud.life = 100
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		first, began := mustToken(t, s, alice), time.Now()
		cloud.answer = func(cloudhttp.Operation, url.Values, int) *reply {
			return says(http.StatusInternalServerError, "canary")
		}
		for time.Since(began) < 99*time.Second {
			advance(100 * time.Millisecond)
			if got := mustToken(t, s, alice); got != first {
				t.Fatalf("Token() = %q, want %q until it expires", got, first)
			}
		}
		synctest.Wait()
		refreshes := 0
		for _, count := range cloud.counts() {
			refreshes += count - 1
		}
		if refreshes < 5 || refreshes > 30 {
			t.Errorf("%d requests in 25 s of failing refreshes, want about one in 2 s", refreshes)
		}
		advance(time.Second)
		if _, err := s.Token(t.Context(), alice, "zrh"); err == nil {
			t.Error("a token was served after it had expired")
		}
		synctest.Wait()
		cloud.answer = nil
		advance(pauses.Cap)
		if got := mustToken(t, s, alice); got == first {
			t.Errorf("Token() = %q, which has expired", got)
		}
		synctest.Wait()
	})
}

func TestOneExchangeForAll(t *testing.T) {
	for _, flow := range []v1beta1.ImpersonationFlow{v1beta1.ServiceProvider, v1beta1.TokenExchange} {
		t.Run(string(flow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.delay = time.Second
				s := source(t, cloud, options(flow))
				ctx, cancel := context.WithCancel(t.Context())
				contexts := []context.Context{ctx, t.Context()} // the first caller is one of those that cancel
				var callers sync.WaitGroup
				began := time.Now()
				tokens, errs := make([]string, 100), make([]error, 100)
				for number := range 100 {
					callers.Go(func() {
						tokens[number], errs[number] = s.Token(contexts[number%2], alice, "zrh")
						if waited := time.Since(began); errs[number] != nil && waited != 500*time.Millisecond {
							t.Errorf("a canceled caller waited for %v", waited)
						}
					})
					if number == 0 {
						synctest.Wait()
					}
				}
				advance(500 * time.Millisecond)
				cancel()
				callers.Wait()
				for number, err := range errs {
					if number%2 == 0 {
						wantCause(t, err, ownership.CauseTimeout)
					} else if err != nil || tokens[number] != tokens[1] {
						t.Errorf("Token() = %q, %v, want %q", tokens[number], err, tokens[1])
					}
				}
				for at, count := range cloud.counts() {
					if count != 1 {
						t.Errorf("%d requests of step %q, want 1", count, at)
					}
				}
			})
		})
	}
}

func TestProviderThatDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		cloud.delay = time.Hour
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		ctx, cancel := context.WithTimeout(t.Context(), 2400*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := s.Token(ctx, alice, "zrh")
		wantCause(t, err, ownership.CauseTimeout)
		if waited := time.Since(began); waited != 2400*time.Millisecond {
			t.Errorf("the caller waited for %v, want 2.4 s", waited)
		}
		_, err = s.Token(t.Context(), alice, "zrh") // waits for the shared work, which has its own timeout
		wantCause(t, err, ownership.CauseTimeout)
		if waited := time.Since(began); waited > workTimeout+time.Second {
			t.Errorf("the work took %v", waited)
		}
		_, err = s.Token(ctx, alice, "zrh")
		wantCause(t, err, ownership.CauseTimeout)
	})
}

func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		got := map[string]string{}
		for range 2 {
			for _, account := range []struct{ user, region string }{{alice, "zrh"}, {alice, "next"}, {bob, "zrh"}, {bob + "/zrh", "zrh"}} {
				token, err := s.Token(t.Context(), account.user, account.region)
				if err != nil {
					t.Fatalf("Token() error = %v", err)
				}
				got[account.user+" in "+account.region] = token
			}
		}
		want := map[string]string{
			alice + " in zrh": "canary-impersonate-1", alice + " in next": "canary-impersonate-2",
			bob + " in zrh": "canary-impersonate-3", bob + "/zrh in zrh": "canary-impersonate-4",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		s := source(t, cloud, options(v1beta1.TokenExchange))
		got := cloudhttptest.CountedBy(t, "cloudsigma", func() {
			mustToken(t, s, alice)
			mustToken(t, s, alice)
			advance(260 * time.Second)
			mustToken(t, s, alice)
			synctest.Wait()
			cloud.answer = func(cloudhttp.Operation, url.Values, int) *reply { return says(http.StatusForbidden, "") }
			_, err := s.Token(t.Context(), bob, "zrh")
			wantCause(t, err, ownership.CauseNotImpersonable)
		})
		want := map[string]float64{
			"cloud=cloudsigma,code=2xx,operation=account": 2, "cloud=cloudsigma,operation=account": 2,
			"cloud=cloudsigma,code=2xx,operation=exchange": 2, "cloud=cloudsigma,code=4xx,operation=exchange": 1, "cloud=cloudsigma,operation=exchange": 3,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}
