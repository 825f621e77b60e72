package impersonation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

func TestTokenErrors(t *testing.T) {
	limited := &reply{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": "30"}}
	cases := map[string]struct {
		flow  v1beta1.ImpersonationFlow
		at    cloudhttp.Operation
		reply *reply

		wantError      string
		wantRetryAfter time.Duration
		wantRequests   int // of the step
	}{
		"unknown client": {
			at: stepAccount, reply: says(http.StatusUnauthorized, `{"error":"invalid_client"}`), wantRequests: 1,
			wantError: `CredentialsDenied: account request: the answer was 401 invalid_client`,
		},
		"invalid grant": {
			at: stepAccount, reply: says(http.StatusBadRequest, `{"error":"invalid_grant"}`), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: account request: the answer was 400 invalid_grant`,
		},
		"an unregistered error code": {
			at: stepAccount, reply: says(http.StatusBadRequest, `{"error":"canary"}`), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: account request: the answer was 400 unspecified`,
		},
		"no permission for tickets": {
			at: stepTicket, reply: says(http.StatusForbidden, `{"error":"access_denied"}`), wantRequests: 1,
			wantError: `CredentialsDenied: ticket request: the answer was 403 access_denied`,
		},
		"a user outside of the service account's permissions": {
			at: stepImpersonate, reply: says(http.StatusForbidden, `[{"error_type":"permission","error_message":"canary"}]`), wantRequests: 1,
			wantError: `UserNotImpersonable: impersonate request: the answer was 403 unspecified`,
		},
		"an error code of the service provider": {
			at: stepImpersonate, reply: says(http.StatusBadRequest, `{"error":"access_denied"}`), wantRequests: 1,
			wantError: `UserNotImpersonable: impersonate request: the answer was 400 access_denied`,
		},
		"the exchange is denied": {
			flow: v1beta1.TokenExchange, at: stepExchange, reply: says(http.StatusBadRequest, `{"error":"access_denied"}`), wantRequests: 1,
			wantError: `UserNotImpersonable: exchange request: the answer was 400 access_denied`,
		},
		"the exchange rejects the client": {
			flow: v1beta1.TokenExchange, at: stepExchange, reply: says(http.StatusBadRequest, `{"error":"unauthorized_client"}`), wantRequests: 1,
			wantError: `CredentialsDenied: exchange request: the answer was 400 unauthorized_client`,
		},
		"need_info of UMA": {
			flow: v1beta1.TokenExchange, at: stepExchange, reply: says(http.StatusBadRequest, `{"error":"invalid_target"}`), wantRequests: 1,
			wantError: `IdentityProviderUnavailable: exchange request: the answer was 400 invalid_target`,
		},
		"the server fails": {
			at: stepTicket, reply: says(http.StatusBadGateway, "canary"), wantRequests: retries.Steps,
			wantError: `IdentityProviderUnavailable: ticket request: the answer was 502 unspecified`,
		},
		"the connection breaks": {
			at: stepImpersonate, reply: noAnswer(), wantRequests: retries.Steps,
			wantError: `IdentityProviderUnavailable: impersonate request: the connection broke before the end of the answer`,
		},
		"too many requests, with Retry-After": {
			at: stepAccount, reply: limited, wantRequests: 1, wantRetryAfter: 30 * time.Second,
			wantError: `RateLimited: account request: the answer was 429 unspecified`,
		},
		"too many requests": {
			at: stepAccount, reply: says(http.StatusTooManyRequests, ""), wantRequests: retries.Steps,
			wantError: `RateLimited: account request: the answer was 429 unspecified`,
		},
		"a response that is not JSON": {
			at: stepAccount, reply: says(http.StatusOK, "<html>canary"), wantRequests: retries.Steps,
			wantError: `IdentityProviderUnavailable: account request: the response cannot be parsed`,
		},
		"no token": {
			at: stepImpersonate, reply: says(http.StatusOK, `{"expires_in":300}`), wantRequests: retries.Steps,
			wantError: `IdentityProviderUnavailable: impersonate request: the response has no access token`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer settle()
				cloud := newCloud(t)
				cloud.answer = func(at cloudhttp.Operation, _ url.Values, _ int) *reply {
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
	for at, flow := range map[cloudhttp.Operation]v1beta1.ImpersonationFlow{
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
					cloud.answer = func(requested cloudhttp.Operation, _ url.Values, _ int) *reply {
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
		for _, at := range []cloudhttp.Operation{stepAccount, stepTicket, stepImpersonate, stepExchange} {
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
						cloud.answer = func(requested cloudhttp.Operation, _ url.Values, _ int) *reply {
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
