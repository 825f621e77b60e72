package impersonation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

func TestTokenErrors(t *testing.T) {
	limited := &reply{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": "30"}}
	cases := map[string]struct {
		flow  v1beta1.ImpersonationFlow
		at    step
		reply *reply

		wantError      string
		wantRetryAfter time.Duration
		wantRequests   int // of the step
	}{
		"unknown client": {
			at: stepAccount, reply: says(http.StatusUnauthorized, `{"error":"invalid_client"}`), wantRequests: 1,
			wantError: `CredentialsDenied: token step "account": rejected, status 401, error code "invalid_client"`,
		},
		"client without permission": {
			at: stepAccount, reply: says(http.StatusBadRequest, `{"error":"unauthorized_client"}`), wantRequests: 1,
			wantError: `CredentialsDenied: token step "account": rejected, status 400, error code "unauthorized_client"`,
		},
		"invalid grant": {
			at: stepAccount, reply: says(http.StatusBadRequest, `{"error":"invalid_grant"}`), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: token step "account": rejected, status 400, error code "invalid_grant"`,
		},
		"an error with status 200": {
			at: stepAccount, reply: says(http.StatusOK, `{"error":"invalid_client"}`), wantRequests: 1,
			wantError: `CredentialsDenied: token step "account": rejected, status 200, error code "invalid_client"`,
		},
		"an unregistered error code": {
			at: stepAccount, reply: says(http.StatusBadRequest, `{"error":"canary"}`), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: token step "account": rejected, status 400`,
		},
		"no permission for tickets": {
			at: stepTicket, reply: says(http.StatusForbidden, `{"error":"access_denied"}`), wantRequests: 1,
			wantError: `CredentialsDenied: token step "ticket": rejected, status 403, error code "access_denied"`,
		},
		"a user outside of the service account's permissions": {
			at: stepImpersonate, reply: says(http.StatusForbidden, `[{"error_type":"permission","error_message":"canary"}]`), wantRequests: 1,
			wantError: `UserNotImpersonable: token step "impersonate": rejected, status 403`,
		},
		"the user does not exist": {
			at: stepImpersonate, reply: says(http.StatusNotFound, ""), wantRequests: 1,
			wantError: `UserNotImpersonable: token step "impersonate": rejected, status 404`,
		},
		"an error code of the service provider": {
			at: stepImpersonate, reply: says(http.StatusBadRequest, `{"error":"access_denied"}`), wantRequests: 1,
			wantError: `UserNotImpersonable: token step "impersonate": rejected, status 400, error code "access_denied"`,
		},
		"the exchange is denied": {
			flow: v1beta1.TokenExchange, at: stepExchange, reply: says(http.StatusBadRequest, `{"error":"access_denied"}`), wantRequests: 1,
			wantError: `UserNotImpersonable: token step "exchange": rejected, status 400, error code "access_denied"`,
		},
		"the exchange rejects the client": {
			flow: v1beta1.TokenExchange, at: stepExchange, reply: says(http.StatusBadRequest, `{"error":"unauthorized_client"}`), wantRequests: 1,
			wantError: `CredentialsDenied: token step "exchange": rejected, status 400, error code "unauthorized_client"`,
		},
		"need_info of UMA": {
			flow: v1beta1.TokenExchange, at: stepExchange, reply: says(http.StatusBadRequest, `{"error":"invalid_target"}`), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: token step "exchange": rejected, status 400, error code "invalid_target"`,
		},
		"the server fails": {
			at: stepTicket, reply: says(http.StatusBadGateway, "canary"), wantRequests: failuresToOpen,
			wantError: `IdentityProviderUnavailable: token step "ticket": not sent, because a recent request failed: unavailable, status 502`,
		},
		"server_error": {
			at: stepAccount, reply: says(http.StatusBadRequest, `{"error":"temporarily_unavailable"}`), wantRequests: failuresToOpen,
			wantError: `IdentityProviderUnavailable: token step "account": not sent, because a recent request failed: unavailable, status 400, error code "temporarily_unavailable"`,
		},
		"the connection breaks": {
			at: stepImpersonate, reply: noAnswer(), wantRequests: failuresToOpen,
			wantError: `IdentityProviderUnavailable: token step "impersonate": not sent, because a recent request failed: unavailable: the connection failed`,
		},
		"too many requests, with Retry-After": {
			at: stepAccount, reply: limited, wantRequests: 1, wantRetryAfter: 30 * time.Second,
			wantError: `RateLimited: token step "account": limited, status 429`,
		},
		"too many requests at the service provider": {
			at: stepImpersonate, reply: limited, wantRequests: 1, wantRetryAfter: 30 * time.Second,
			wantError: `RateLimited: token step "impersonate": limited, status 429`,
		},
		"too many requests": {
			at: stepAccount, reply: says(http.StatusTooManyRequests, ""), wantRequests: failuresToOpen,
			wantError: `RateLimited: token step "account": not sent, because a recent request failed: limited, status 429`,
		},
		"a response that is not JSON": {
			at: stepAccount, reply: says(http.StatusOK, "<html>canary"), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: token step "account": broken: the response cannot be parsed`,
		},
		"a response of the service provider that is not JSON": {
			at: stepImpersonate, reply: says(http.StatusOK, "<html>canary"), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: token step "impersonate": broken: the response cannot be parsed`,
		},
		"no token": {
			at: stepImpersonate, reply: says(http.StatusOK, `{"expires_in":300}`), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: token step "impersonate": broken, status 200: the response has no access token`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(at step, _ url.Values, _ int) *reply {
					if at == tc.at {
						return tc.reply
					}
					return nil
				}
				if tc.flow == "" {
					tc.flow = v1beta1.ServiceProvider
				}
				s := source(t, cloud, options(tc.flow))
				ctx, cancel := context.WithTimeout(t.Context(), 2400*time.Millisecond)
				defer cancel()
				token, err := s.Token(ctx, alice, "zrh")
				found := unknown(t, err)
				if diff := cmp.Diff(tc.wantError, found.Error()); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				if found.RetryAfter != tc.wantRetryAfter {
					t.Errorf("RetryAfter = %v, want %v", found.RetryAfter, tc.wantRetryAfter)
				}
				if got := cloud.counts()[tc.at]; got != tc.wantRequests {
					t.Errorf("%d requests, want %d", got, tc.wantRequests)
				}
				if token != "" {
					t.Errorf("Token() = %q with an error", token)
				}
			})
		})
	}
}

// TestFailuresOfEachStep: each step has the cause of its failure, within the time of the caller, and a token as soon as the step succeeds.
func TestFailuresOfEachStep(t *testing.T) {
	const patience = 2 * time.Second
	failures := map[string]struct {
		reply *reply // nil if there is no response
		want  ownership.Cause
	}{
		"too many requests":       {retryIn("3"), ownership.CauseRateLimited},
		"it fails":                {says(http.StatusInternalServerError, ""), ownership.CauseIdentityProvider},
		"it does not respond":     {nil, ownership.CauseTimeout},
		"the connection breaks":   {noAnswer(), ownership.CauseIdentityProvider},
		"it is not JSON":          {says(http.StatusOK, "<html>"), ownership.CauseIdentityProvider},
		"the token has expired":   {says(http.StatusOK, `{"access_token":"t","expires_in":-5}`), ownership.CauseIdentityProvider},
		"it rejects the client":   {says(http.StatusUnauthorized, `{"error":"unauthorized_client"}`), ownership.CauseCredentials},
		"a token of another type": {says(http.StatusOK, `{"access_token":"t","token_type":"mac","expires_in":300}`), ownership.CauseIdentityProvider},
	}
	for at, flow := range map[step]v1beta1.ImpersonationFlow{
		stepAccount: v1beta1.ServiceProvider, stepTicket: v1beta1.ServiceProvider, stepImpersonate: v1beta1.ServiceProvider, stepExchange: v1beta1.TokenExchange,
	} {
		for name, tc := range failures {
			t.Run(fmt.Sprintf("%s, %s", at, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					defer settle()
					cloud := newCloud(t)
					failing := true
					s := source(t, roundTripper(func(r *http.Request) (*http.Response, error) {
						body, err := io.ReadAll(r.Body)
						if err != nil {
							return nil, err
						}
						r.Body = io.NopCloser(bytes.NewReader(body))
						requested, _ := cloud.read(r, string(body))
						if failing && requested == at && tc.reply == nil {
							<-r.Context().Done()
							return nil, r.Context().Err()
						}
						return cloud.RoundTrip(r)
					}), options(flow))
					cloud.answer = func(requested step, _ url.Values, _ int) *reply {
						if failing && requested == at {
							return tc.reply
						}
						return nil
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					began := time.Now()
					_, err := s.Token(ctx, alice, "zrh")
					wantCause(t, err, tc.want)
					if took := time.Since(began); took > patience {
						t.Errorf("Token() took %v, and the caller waits for %v", took, patience)
					}
					settle()
					failing = false
					advance(time.Minute)
					mustToken(t, s, alice)
				})
			})
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Now()
	cases := map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"none":                                {header: http.Header{}},
		"seconds":                             {header: http.Header{"Retry-After": {"7"}}, want: 7 * time.Second},
		"negative":                            {header: http.Header{"Retry-After": {"-7"}}},
		"words":                               {header: http.Header{"Retry-After": {"later"}}},
		"a year":                              {header: http.Header{"Retry-After": {"31536000"}}, want: maxRetryAfter},
		"more than 64 bits":                   {header: http.Header{"Retry-After": {"99999999999999999999"}}},
		"a date in the past":                  {header: http.Header{"Retry-After": {"Thu, 01 Jan 1970 00:00:00 GMT"}}},
		"a date far away, by the local clock": {header: http.Header{"Retry-After": {now.Add(time.Hour).UTC().Format(http.TimeFormat)}}, want: maxRetryAfter},
		"a date, by the server's clock": {
			header: http.Header{
				"Date":        {now.Add(5 * time.Hour).UTC().Format(http.TimeFormat)},
				"Retry-After": {now.Add(5*time.Hour + time.Minute).UTC().Format(http.TimeFormat)},
			},
			want: time.Minute,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := retryAfter(tc.header); got != tc.want {
				t.Errorf("retryAfter() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestErrorOfTransport(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Post", URL: "https://canary", Err: err} }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cases := map[string]struct {
		ctx  context.Context //nolint:containedctx // the case itself
		err  error
		want string
	}{
		"no such host": {
			err:  wrap(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "idp.example.com", IsNotFound: true}}),
			want: `token step "account": unavailable: lookup idp.example.com: no such host`,
		},
		"no listener": {
			err:  wrap(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}),
			want: `token step "account": unavailable: dial tcp: connection refused`,
		},
		"a DNS timeout":                         {err: wrap(&net.DNSError{IsTimeout: true}), want: `token step "account": timeout`},
		"the context ended":                     {ctx: ended, err: errors.New("canary"), want: `token step "account": timeout`},
		"an error of net/http about a response": {err: wrap(errors.New("malformed: canary")), want: `token step "account": unavailable: the connection failed`},
		"an error of oauth2 about a response":   {err: errors.New("canary"), want: `token step "account": broken: the response cannot be parsed`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.ctx == nil {
				tc.ctx = t.Context()
			}
			if got := errorOfTransport(tc.ctx, stepAccount, tc.err).Error(); got != tc.want {
				t.Errorf("errorOfTransport() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAsUnknown(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"the end of a context": {err: fmt.Errorf("wait: %w", context.Canceled), want: "Timeout: no token in time"},
		"an UnknownError": {
			err:  fmt.Errorf("wrapped: %w", &ownership.UnknownError{Cause: ownership.CauseBusy, Err: errors.New("busy")}),
			want: "QueueFull: busy",
		},
		"any other error": {
			err:  errors.New("canary"),
			want: "IdentityProviderUnavailable: an internal error prevented the token request",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := unknown(t, asUnknown(tc.err)).Error(); got != tc.want {
				t.Errorf("asUnknown() = %q, want %q", got, tc.want)
			}
		})
	}
}

// Texts of servers and secrets must never be in an error, a log line or a metric, for any failure.
func TestCanaries(t *testing.T) {
	canary := `"access_token":"canary-token","refresh_token":"canary-refresh","error_description":"canary-description"`
	replies := map[string]*reply{
		"rejected":           says(http.StatusBadRequest, `{"error":"invalid_grant",`+canary+`}`),
		"unregistered":       says(http.StatusBadRequest, `{"error":"canary-code",`+canary+`}`),
		"unauthorized":       says(http.StatusUnauthorized, `{"error":"invalid_client",`+canary+`}`),
		"forbidden":          says(http.StatusForbidden, `{`+canary+`}`),
		"failing":            says(http.StatusInternalServerError, `{`+canary+`}`),
		"no JSON":            says(http.StatusOK, `canary {`+canary),
		"invalid expires_in": says(http.StatusOK, `{"expires_in":"canary-life",`+canary+`}`),
		"invalid token_type": says(http.StatusOK, `{"token_type":"canary-type",`+canary+`}`),
		"two lines":          says(http.StatusOK, `{"access_token":"canary\ntoken"}`),
		"another user":       says(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"expires_in":300}`, jwt(`{"email":"canary@example.com"}`))),
		"a form":             {status: http.StatusOK, header: map[string]string{"Content-Type": "text/plain"}, body: "%zz=canary"},
		"a redirection":      {status: http.StatusFound, header: map[string]string{"Location": "https://canary.example.com/"}},
		"no answer":          noAnswer(),
		"success":            nil,
	}
	for _, flow := range []v1beta1.ImpersonationFlow{v1beta1.ServiceProvider, v1beta1.TokenExchange} {
		for _, at := range []step{stepAccount, stepTicket, stepImpersonate, stepExchange} {
			for name, answer := range replies {
				t.Run(fmt.Sprintf("%s, %s, %s", flow, at, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						defer settle()
						var seen strings.Builder
						var writing sync.Mutex
						log := funcr.New(func(prefix, args string) {
							writing.Lock()
							defer writing.Unlock()
							seen.WriteString(prefix + args)
						}, funcr.Options{Verbosity: 10})
						ctx := logf.IntoContext(t.Context(), log)
						cloud := newCloud(t)
						opts := options(flow)
						credentials := Credentials{OAuthURL: "https://idp.example.com", ClientID: "client", ClientSecret: secret}
						opts.Credentials = func(context.Context) (Credentials, error) { return credentials, nil }
						s := source(t, cloud, opts)
						see := func(err error) {
							writing.Lock()
							defer writing.Unlock()
							fmt.Fprintf(&seen, "%v %+v %#v", err, err, err)
							for ; err != nil; err = errors.Unwrap(err) {
								fmt.Fprintf(&seen, "%v %+v %#v", err, err, err)
							}
						}
						_, err := s.Token(ctx, alice, "zrh")
						see(err)
						credentials.ClientSecret = "canary-secret-2"
						cloud.answer = func(requested step, _ url.Values, _ int) *reply {
							if requested == at {
								return answer
							}
							return nil
						}
						advance(260 * time.Second)
						for _, user := range []string{alice, bob} {
							_, err = s.Token(ctx, user, "zrh")
							see(err)
							synctest.Wait()
						}
						log.Info("what it uses", "credentials", credentials, "pointer", &credentials)
						settle()
						if strings.Contains(seen.String(), "canary") {
							t.Errorf("a canary was printed: %s", seen.String())
						}
					})
				})
			}
		}
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	for _, family := range families {
		if text := family.String(); strings.Contains(text, "canary") || strings.Contains(text, alice) {
			t.Errorf("a metric has a canary or a user: %s", text)
		}
	}
}
