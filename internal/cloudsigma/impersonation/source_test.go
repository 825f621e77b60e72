package impersonation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// serve starts a cloud with TLS and the given settings, if any, and returns the options for it.
func serve(t *testing.T, handler http.Handler, settings *tls.Config, flow v1beta1.ImpersonationFlow) Options {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = settings
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients close connections on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	opts := options(flow)
	opts.RootCAs = x509.NewCertPool()
	opts.RootCAs.AddCert(server.Certificate())
	opts.ServiceProviderAPI = server.URL + "/service_provider/{region}/api/v1/"
	opts.Credentials = Fixed(Credentials{OAuthURL: server.URL, ClientID: "kube-dc-partner", ClientSecret: secret})
	return opts
}

func TestTokenOverTLS(t *testing.T) {
	cases := map[string]struct {
		flow         v1beta1.ImpersonationFlow
		wantToken    string
		wantRequests []string
	}{
		"the service provider's flow takes three steps, and one for a further user": {
			flow:      v1beta1.ServiceProvider,
			wantToken: "canary-impersonate-1",
			wantRequests: []string{
				"POST " + tokenPath + " client_id=kube-dc-partner&client_secret=canary-secret-1&grant_type=client_credentials",
				"POST " + tokenPath + " audience=service_provider_api&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Auma-ticket",
				`POST /service_provider/zrh/api/v1/user/impersonate {"subject_token":"canary-account-1","user_email":"alice@example.com"}`,
				`POST /service_provider/zrh/api/v1/user/impersonate {"subject_token":"canary-account-1","user_email":"bob@example.com"}`,
			},
		},
		"the exchange of RFC 8693 takes two steps, and one for a further user": {
			flow:      v1beta1.TokenExchange,
			wantToken: "canary-exchange-1",
			wantRequests: []string{
				"POST " + tokenPath + " client_id=kube-dc-partner&client_secret=canary-secret-1&grant_type=client_credentials",
				"POST " + tokenPath + " " + exchangeForm(alice),
				"POST " + tokenPath + " " + exchangeForm(bob),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			opts := serve(t, cloud, nil, tc.flow)
			s := New(opts)
			for range 3 {
				if got := mustToken(t, s, alice); got != tc.wantToken {
					t.Errorf("Token() = %q, want %q", got, tc.wantToken)
				}
			}
			mustToken(t, s, bob)
			if diff := cmp.Diff(tc.wantRequests, cloud.seen); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func exchangeForm(user string) string {
	return url.Values{
		"audience": {"cloudsigma-api"}, "client_id": {"kube-dc-partner"}, "client_secret": {secret},
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"requested_subject":    {user},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"subject_token":        {"canary-account-1"},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:access_token"},
	}.Encode()
}

func TestTokenTransport(t *testing.T) {
	var elsewhere sync.Map
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		elsewhere.Store(r.URL.Path, r.Header.Clone())
	}))
	defer other.Close()

	cases := map[string]struct {
		answer    http.HandlerFunc
		tls       *tls.Config
		distrust  bool
		wantCause ownership.Cause
		wantText  string
	}{
		"a redirect is not followed": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+"/stolen", http.StatusTemporaryRedirect)
			},
			wantCause: ownership.CauseIdentityProvider,
			wantText:  "the answer was 307",
		},
		"a response of more than 1 MiB is not read to its end": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"access_token":"canary","expires_in":300,"padding":%q}`, strings.Repeat("x", 1<<20))
			},
			wantCause: ownership.CauseIdentityProvider,
			wantText:  "larger than 1048576 bytes",
		},
		"TLS 1.1 is rejected": {
			tls:       &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
			wantCause: ownership.CauseIdentityProvider,
		},
		"an unknown CA is rejected": {
			distrust:  true,
			wantCause: ownership.CauseIdentityProvider,
			wantText:  "unknown authority",
		},
	}
	for name, tc := range cases {
		for _, flow := range []v1beta1.ImpersonationFlow{v1beta1.ServiceProvider, v1beta1.TokenExchange} {
			t.Run(fmt.Sprintf("%s, %s", name, flow), func(t *testing.T) {
				cloud := newCloud(t)
				opts := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					last := strings.HasPrefix(r.URL.Path, "/service_provider/") || flow == v1beta1.TokenExchange
					if last && tc.answer != nil {
						tc.answer(w, r)
						return
					}
					cloud.ServeHTTP(w, r)
				}), tc.tls, flow)
				if tc.distrust {
					opts.RootCAs = x509.NewCertPool()
				}
				s := New(opts)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				token, err := s.Token(ctx, alice, "zrh")
				wantCause(t, err, tc.wantCause)
				if !strings.Contains(err.Error(), tc.wantText) || strings.Contains(err.Error(), "canary") || token != "" {
					t.Errorf("Token() = %q, %v, want an error with %q", token, err, tc.wantText)
				}
			})
		}
	}
	elsewhere.Range(func(path, header any) bool {
		t.Errorf("a redirect was followed to %v with %v", path, header)
		return true
	})
}

func TestTokenRegion(t *testing.T) {
	cloud := newCloud(t)
	s := source(t, cloud, options(v1beta1.ServiceProvider))
	regions := []string{
		"", "Zrh", "zrh.evil.example", "zrh/..", "zrh#", "zrh?x=", "zrh:443", "zrh@evil", "zrh\n", "%7a", "ß", "{region}", strings.Repeat("a", 64),
	}
	for _, region := range regions {
		token, err := s.Token(t.Context(), alice, region)
		wantCause(t, err, ownership.CauseNotImpersonable)
		if token != "" {
			t.Errorf("Token(%q) = %q, want none", region, token)
		}
	}
	for _, user := range []string{"", strings.Repeat("a", 321)} {
		_, err := s.Token(t.Context(), user, "zrh")
		wantCause(t, err, ownership.CauseNotImpersonable)
	}
	wantCounts(t, cloud, map[cloudhttp.Operation]int{})

	// The user becomes part of JSON only, so that every value is safe.
	mustToken(t, s, `"},"x":"../../?`)
	wantCounts(t, cloud, map[cloudhttp.Operation]int{stepAccount: 1, stepTicket: 1, stepImpersonate: 1})
}

func TestTokenRevoked(t *testing.T) {
	cases := map[string]struct {
		flow   v1beta1.ImpersonationFlow
		revoke string
		want   map[cloudhttp.Operation]int
	}{
		"the account's token, detected with the next user": {
			flow: v1beta1.ServiceProvider, revoke: "canary-account-1",
			want: map[cloudhttp.Operation]int{stepAccount: 2, stepTicket: 2, stepImpersonate: 3},
		},
		"the ticket": {
			flow: v1beta1.ServiceProvider, revoke: "canary-ticket-1",
			want: map[cloudhttp.Operation]int{stepAccount: 2, stepTicket: 2, stepImpersonate: 3},
		},
		"the account's token, before an exchange": {
			flow: v1beta1.TokenExchange, revoke: "canary-account-1",
			want: map[cloudhttp.Operation]int{stepAccount: 2, stepExchange: 3},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.delay = time.Millisecond
				s := source(t, cloud, options(tc.flow))
				mustToken(t, s, alice)
				cloud.revoked[tc.revoke] = true
				mustToken(t, s, bob)
				wantCounts(t, cloud, tc.want)
			})
		})
	}
}

func TestTokenPermanentlyRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		cloud.delay = time.Millisecond
		s := source(t, cloud, options(v1beta1.TokenExchange))
		mustToken(t, s, alice)
		cloud.answer = func(at cloudhttp.Operation, _ url.Values, _ int) *reply {
			if at == stepExchange {
				return says(http.StatusUnauthorized, "")
			}
			return nil
		}
		for range 100 {
			_, err := s.Token(t.Context(), bob, "zrh")
			wantCause(t, err, ownership.CauseCredentials)
		}
		// All steps once more, because the account's token was cached, and then no requests for some seconds.
		wantCounts(t, cloud, map[cloudhttp.Operation]int{stepAccount: 2, stepExchange: 3})
		cloud.answer = nil
		advance(rejectionLife + time.Millisecond)
		mustToken(t, s, bob)
	})
}

func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		cloud.delay = time.Millisecond
		s := source(t, cloud, options(v1beta1.ServiceProvider))
		s.Drop(alice, "zrh", time.Now()) // the cache is empty
		early := time.Now()
		first := mustToken(t, s, alice)
		mustToken(t, s, bob)

		s.Drop(alice, "zrh", early)
		s.Drop(alice, "next", time.Now())
		if got := mustToken(t, s, alice); got != first {
			t.Errorf("Token() = %q, want %q: it is newer than the request that was rejected", got, first)
		}
		advance(time.Second)
		requested := time.Now()
		advance(time.Second)
		s.Drop(alice, "zrh", requested)
		second := mustToken(t, s, alice)
		if second == first {
			t.Errorf("Token() = %q, which was dropped", second)
		}
		s.Drop(alice, "zrh", requested) // by another caller that was rejected at the same time
		if got := mustToken(t, s, alice); got != second {
			t.Errorf("Token() = %q, want %q", got, second)
		}
		wantCounts(t, cloud, map[cloudhttp.Operation]int{stepAccount: 1, stepTicket: 1, stepImpersonate: 3})
	})
}

func TestRotation(t *testing.T) {
	type change struct {
		credentials Credentials
		err         error
		accepted    []string
	}
	old := Credentials{OAuthURL: "https://idp.example.com", ClientID: "kube-dc-partner", ClientSecret: secret}
	renewed := func(change func(*Credentials)) Credentials {
		credentials := old
		change(&credentials)
		return credentials
	}
	cases := map[string]struct {
		change     change
		wantCause  ownership.Cause
		wantCounts map[cloudhttp.Operation]int
	}{
		"a new secret is used for the next exchange": {
			change:     change{credentials: renewed(func(c *Credentials) { c.ClientSecret = "canary-2" }), accepted: []string{"canary-2"}},
			wantCounts: map[cloudhttp.Operation]int{stepAccount: 2, stepExchange: 2},
		},
		"the old secret is used until the new one is accepted": {
			change:     change{credentials: renewed(func(c *Credentials) { c.ClientSecret = "canary-2" }), accepted: []string{secret}},
			wantCounts: map[cloudhttp.Operation]int{stepAccount: 2, stepExchange: 2},
		},
		"the old client is used until the new one is accepted": {
			change: change{
				credentials: renewed(func(c *Credentials) { c.ClientID, c.ClientSecret = "other", "canary-2" }), accepted: []string{secret},
			},
			wantCounts: map[cloudhttp.Operation]int{stepAccount: 2, stepExchange: 2},
		},
		"the old credentials are used if the new ones cannot be read": {
			change:     change{err: fmt.Errorf("no such file"), accepted: []string{secret}},
			wantCounts: map[cloudhttp.Operation]int{stepAccount: 1, stepExchange: 2},
		},
		"the old credentials are used if the new ones are empty": {
			change:     change{credentials: renewed(func(c *Credentials) { c.ClientSecret = "" }), accepted: []string{secret}},
			wantCounts: map[cloudhttp.Operation]int{stepAccount: 1, stepExchange: 2},
		},
		"the old identity provider is used if the new one fails": {
			change: change{
				credentials: renewed(func(c *Credentials) { c.OAuthURL = "https://broken.example.com" }), accepted: []string{secret},
			},
			wantCounts: map[cloudhttp.Operation]int{stepAccount: 1, stepExchange: 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				opts := options(v1beta1.TokenExchange)
				now := change{credentials: old}
				opts.Credentials = func(context.Context) (Credentials, error) { return now.credentials, now.err }
				s := source(t, roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host != "idp.example.com" {
						return nil, fmt.Errorf("no such host")
					}
					return cloud.RoundTrip(r)
				}), opts)
				mustToken(t, s, alice)
				now, cloud.secrets = tc.change, tc.change.accepted
				mustToken(t, s, alice)
				mustToken(t, s, bob)
				wantCounts(t, cloud, tc.wantCounts)
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRotationIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		opts := options(v1beta1.ServiceProvider)
		credentials := Credentials{OAuthURL: "https://idp.example.com", ClientID: "kube-dc-partner", ClientSecret: secret}
		opts.Credentials = func(context.Context) (Credentials, error) { return credentials, nil }
		s := source(t, cloud, opts)
		mustToken(t, s, alice)

		credentials.ClientSecret = "canary-2"
		for number := range 100 {
			mustToken(t, s, fmt.Sprintf("user-%d@example.com", number))
		}
		if got := cloud.counts()[stepAccount]; got != 2 {
			t.Errorf("%d requests for the account's token, want 2: the rejected secret is not used for each user", got)
		}
		cloud.secrets = []string{"canary-2"}
		advance(rejectionLife + time.Millisecond)
		mustToken(t, s, bob)
		if got := cloud.counts()[stepAccount]; got != 3 {
			t.Errorf("%d requests for the account's token, want 3: the new secret is tried again", got)
		}
		if proven := s.proven.Load(); proven.ClientSecret != "canary-2" {
			t.Error("the new secret is not used")
		}
	})
}

func TestRefreshWithAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer settle()
		cloud := newCloud(t)
		opts := options(v1beta1.ServiceProvider)
		credentials := Credentials{OAuthURL: "https://idp.example.com", ClientID: "kube-dc-partner", ClientSecret: secret}
		opts.Credentials = func(context.Context) (Credentials, error) { return credentials, nil }
		s := source(t, cloud, opts)
		mustToken(t, s, alice)
		credentials.ClientID = "other"
		advance(260 * time.Second)
		mustToken(t, s, alice) // the token of the old client, which is due
		synctest.Wait()
		if got, want := mustToken(t, s, alice), "canary-impersonate-2"; got != want {
			t.Errorf("Token() = %q, want %q of the new client", got, want)
		}
	})
}

func TestNoCredentials(t *testing.T) {
	cases := map[string]Credentials{
		"no client": {OAuthURL: "https://idp.example.com", ClientSecret: secret},
		"no secret": {OAuthURL: "https://idp.example.com", ClientID: "client"},
		"no https":  {OAuthURL: "http://idp.example.com", ClientID: "client", ClientSecret: secret},
	}
	for name, credentials := range cases {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			opts := options(v1beta1.ServiceProvider)
			opts.Credentials = Fixed(credentials)
			_, err := source(t, cloud, opts).Token(t.Context(), alice, "zrh")
			wantCause(t, err, ownership.CauseCredentials)
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error has the secret: %v", err)
			}
			wantCounts(t, cloud, map[cloudhttp.Operation]int{})
		})
	}
}
