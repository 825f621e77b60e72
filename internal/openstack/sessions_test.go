package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

func mustToken(t *testing.T, cloud *openstack.Cloud) openstack.Token {
	t.Helper()
	token, err := cloud.Token(t.Context(), identity)
	if err != nil {
		t.Fatalf("Token() error = %v", err)
	}
	return token
}

// heldToken returns a handler that closes held and responds with a token when release is closed.
func heldToken() (held, release chan struct{}, answer http.HandlerFunc) {
	held, release = make(chan struct{}), make(chan struct{})
	return held, release, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-release
		aToken()(w, r)
	}
}

func TestConcurrentCallersCauseOneAuthentication(t *testing.T) {
	const callers = 100
	held, release, answer := heldToken()
	api := newAPI(t, answers{authenticate: answer})
	cloud := api.cloud(api.secret())
	var all sync.WaitGroup
	ask := func() {
		all.Go(func() {
			if _, err := cloud.Token(t.Context(), identity); err != nil {
				t.Errorf("Token() error = %v", err)
			}
		})
	}
	ask()
	<-held
	for range callers - 1 {
		ask()
	}
	close(release)
	all.Wait()
	mustToken(t, cloud) // fills the cache
	api.Expect(authenticate)
}

func TestCanceledCallerDoesNotCancelOthers(t *testing.T) {
	held, release, answer := heldToken()
	api := newAPI(t, answers{authenticate: answer})
	cloud := api.cloud(api.secret())
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := cloud.Token(ctx, identity)
		first <- err
	}()
	<-held
	cancel()
	expectFailure(t, <-first, failure{Text: "Timeout: no answer in time"})
	close(release)
	mustToken(t, cloud)
	api.Expect(authenticate)
}

func TestChangedSecretHasAnImmediateEffect(t *testing.T) {
	api := newAPI(t, nil)
	secrets := api.secret()
	cloud := api.cloud(secrets)
	mustToken(t, cloud)
	for _, change := range []func(entry, auth object){
		func(_, auth object) { auth["password"] = canary + "-2" },
		func(_, auth object) { auth["project_id"] = strangerID },
		func(_, auth object) { auth["username"] = "bob" },
	} {
		secrets.set(secretOf(passwordAuth(api.authURL(), change)))
		mustToken(t, cloud)
		mustToken(t, cloud)
	}
	withCA := api.secret()
	withCA.data["cacert"] = api.caPEM()
	secrets.set(withCA)
	mustToken(t, cloud)
	api.Expect(authenticate, authenticate, authenticate, authenticate, authenticate)

	secrets.set(api.secret()) // the first credentials are still cached
	mustToken(t, cloud)
	api.Expect()
}

func TestTokenNow(t *testing.T) {
	api := newAPI(t, nil)
	cloud := api.cloud(api.secret())
	mustToken(t, cloud)
	api.Set(authenticate, aToken(with("roles", []object{{"name": "admin"}})))
	if got := mustToken(t, cloud).Roles[0]; got != "member" {
		t.Errorf("the role is %q, want that of the cached token", got)
	}
	now, err := cloud.TokenNow(t.Context(), identity)
	if err != nil || now.Roles[0] != "admin" {
		t.Errorf("TokenNow() = %+v, %v, want the role admin", now, err)
	}
	if got := mustToken(t, cloud).Roles[0]; got != "admin" {
		t.Errorf("the role is %q, want that of the new token", got)
	}
	api.Expect(authenticate, authenticate)

	// A failure does not change the cache. A rejection replaces the cached token.
	api.Set(authenticate, reply(http.StatusBadGateway, canary))
	_, err = cloud.TokenNow(t.Context(), identity)
	expectFailure(t, err, keystoneFails)
	mustToken(t, cloud)
	api.Expect(authenticate)
	api.Set(authenticate, failed(http.StatusUnauthorized, "error"))
	for _, ask := range []func(context.Context, ownership.Identity) (openstack.Token, error){cloud.TokenNow, cloud.Token} {
		if _, err := ask(t.Context(), identity); failureOf(t, err).Reason != openstack.IdentityDenied {
			t.Errorf("error = %v, want that it is rejected", err)
		}
	}
	api.Expect(authenticate) // the rejection is cached
}

func TestTokenNowIgnoresEarlierAuthentications(t *testing.T) {
	held, release, answer := heldToken()
	api := newAPI(t, answers{authenticate: cloudhttptest.InTurn(answer, aToken(with("roles", []object{{"name": "admin"}})))})
	cloud := api.cloud(api.secret())
	var all sync.WaitGroup
	all.Go(func() { mustToken(t, cloud) })
	<-held
	now := make(chan openstack.Token, 1)
	all.Go(func() {
		token, err := cloud.TokenNow(t.Context(), identity)
		if err != nil {
			t.Errorf("TokenNow() error = %v", err)
		}
		now <- token
	})
	close(release)
	if got := <-now; len(got.Roles) != 1 || got.Roles[0] != "admin" {
		t.Errorf("TokenNow() roles = %q, want those of the authentication that began after the call", got.Roles)
	}
	all.Wait()
	api.Expect(authenticate, authenticate)
}

// offline returns a cloud whose responses come from functions, without a network, for tests with a fake clock, and a counter of its requests.
func offline(t *testing.T, a answers) (cloud *openstack.Cloud, count func(string) int) {
	t.Helper()
	api := cloudhttptest.Offline(t, a)
	cloud, err := openstack.NewWith(openstack.Options{
		AuthURLs: []string{"https://cloud.example/identity/v3"}, Secrets: secretOf(passwordAuth("https://cloud.example/identity")).get,
	}, api)
	if err != nil {
		t.Fatalf("NewWith() error = %v", err)
	}
	return cloud, api.Count
}

// TestAuthenticationsOfATenantAreLimited checks that a tenant who writes many other credentials does not flood Keystone, or affect another tenant.
func TestAuthenticationsOfATenantAreLimited(t *testing.T) {
	const flood, takes = 500, time.Second
	synctest.Test(t, func(t *testing.T) {
		var running, most, busy atomic.Int32
		cloud, err := openstack.NewWith(openstack.Options{
			AuthURLs: []string{"https://cloud.example/identity"},
			Secrets: func(_ context.Context, namespace, name string) (map[string][]byte, error) {
				return secretOf(passwordAuth("https://cloud.example/identity", func(_, auth object) { auth["password"] = namespace + name })).data, nil
			},
		}, cloudhttptest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			wait(takes)
			w := httptest.NewRecorder()
			aToken()(w, r)
			return w.Result(), nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer cloud.Stop()
		ask := func(namespace, secret string) error {
			ctx := share.WithTenant(t.Context(), share.Tenant{Namespace: namespace})
			_, err := cloud.Token(ctx, ownership.Identity{Namespace: namespace, Secret: secret, Entry: identity.Entry})
			return err
		}
		var all sync.WaitGroup
		for i := range flood {
			all.Go(func() {
				var unknown *ownership.UnknownError
				if err := ask("attacker", fmt.Sprint(i)); errors.As(err, &unknown) && unknown.Cause == ownership.CauseTenantBusy {
					busy.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if err := ask("victim", "keys"); err != nil || time.Since(began) > takes {
			t.Errorf("another tenant waits for %s, %v", time.Since(began), err)
		}
		all.Wait()
		const limit = 16
		if most.Load() > limit+1 || busy.Load() != flood-limit {
			t.Errorf("%d at the same time, and %d too many", most.Load(), busy.Load())
		}
		if err := ask("attacker", "later"); err != nil {
			t.Errorf("after the flood: %v", err)
		}
	})
}

func TestTokenTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, count := offline(t, answers{
			authenticate: aToken(), getServer: oneServer(serverID, machineName, projectID),
		})
		defer cloud.Stop()
		mustToken(t, cloud)
		wait(5*time.Minute - time.Second)
		mustToken(t, cloud)
		expectCount(t, "roles are cached for 5 minutes", count(authenticate), 1)
		wait(time.Second)
		expectOwned(t, cloud)
		expectCount(t, "and the token is used for longer", count(authenticate), 1)
		mustToken(t, cloud)
		expectCount(t, "while roles are not", count(authenticate), 2)
		wait(48*time.Minute - time.Second)
		expectOwned(t, cloud)
		expectCount(t, "before 80 percent of an hour", count(authenticate), 2)
		wait(time.Second)
		expectOwned(t, cloud)
		expectCount(t, "after 80 percent of an hour", count(authenticate), 3)
	})
}

func TestTokenWithAShortLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issued := time.Now().UTC()
		cloud, count := offline(t, answers{authenticate: func(w http.ResponseWriter, r *http.Request) {
			wait(time.Second)
			aToken(with("issued_at", issued), with("expires_at", issued.Add(time.Second)))(w, r)
		}})
		defer cloud.Stop()
		mustToken(t, cloud)
		if got := count(authenticate); got != 2 {
			t.Errorf("%d authentications, want 2", got)
		}
	})
}

func TestTimeouts(t *testing.T) {
	block := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	keystone, nova := answers{authenticate: block}, answers{authenticate: aToken(), getServer: block}
	for name, tc := range map[string]struct {
		answers  answers
		patience time.Duration
		wantText string
	}{
		"of Keystone, the caller has waited": {keystone, time.Second, "Timeout: no answer in time"},
		"of Keystone, no caller waits":       {keystone, time.Hour, "Timeout: token request: no answer in time"},
		"of Nova, the caller has waited":     {nova, time.Second, "Timeout: server request: no answer in time"},
		"of Nova, no caller waits":           {nova, time.Hour, "Timeout: server request: no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud, _ := offline(t, tc.answers)
				defer cloud.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				began := time.Now()
				_, err := cloud.Ask(ctx, claim())
				expectFailure(t, err, failure{Text: tc.wantText})
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("it took %s, want at most 30s", took)
				}
				wait(time.Minute) // the shared authentication ends by itself
			})
		})
	}
}

// wait advances the clock of a bubble.
func wait(d time.Duration) { <-time.After(d) }
