package openstack_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

// rejectedLogin is Keystone's response to rejected credentials.
func rejectedLogin() http.HandlerFunc { return failed(http.StatusUnauthorized, "error") }

// lookups are all methods that use cached tokens and rejections.
var lookups = map[string]func(context.Context, *openstack.Cloud) error{
	"Token": func(ctx context.Context, cloud *openstack.Cloud) error {
		_, err := cloud.Token(ctx, identity)
		return err
	},
	"Delegation": func(ctx context.Context, cloud *openstack.Cloud) error {
		_, err := cloud.Delegation(ctx, identity, policy)
		return err
	},
	"Ask": func(ctx context.Context, cloud *openstack.Cloud) error {
		_, err := cloud.Ask(ctx, claim())
		return err
	},
	"Instances": func(ctx context.Context, cloud *openstack.Cloud) error {
		_, _, err := cloud.Instances(ctx, account())
		return err
	},
}

// audits are the methods that do not use cached results.
var audits = map[string]func(context.Context, *openstack.Cloud) error{
	"TokenNow": func(ctx context.Context, cloud *openstack.Cloud) error {
		_, err := cloud.TokenNow(ctx, identity)
		return err
	},
	"DelegationNow": func(ctx context.Context, cloud *openstack.Cloud) error {
		_, err := cloud.DelegationNow(ctx, identity, policy)
		return err
	},
}

// keystoneFails is the error if Keystone responds with 502.
var keystoneFails = failure{RequestID: "req-502", Text: "IdentityProviderUnavailable: token request: the answer was 502 unspecified"}

func expectRejected(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("there is no error, want that the credentials are rejected")
		return
	}
	if got := failureOf(t, err); got.Reason != openstack.IdentityDenied {
		t.Errorf("error = %+v, want %s", got, openstack.IdentityDenied)
	}
}

func expectCount(t *testing.T, when string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d authentications, want %d", when, got, want)
	}
}

func TestRejectionTTL(t *testing.T) {
	for name, ask := range lookups {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud, count := offline(t, answers{authenticate: func(w http.ResponseWriter, r *http.Request) {
					wait(12 * time.Second) // as long as possible
					rejectedLogin()(w, r)
				}})
				defer cloud.Stop()
				expectRejected(t, ask(t.Context(), cloud))
				wait(9*time.Second - 1)
				for _, again := range lookups {
					expectRejected(t, again(t.Context(), cloud))
				}
				expectCount(t, "within 9 s", count(authenticate), 1)
				wait(1)
				expectRejected(t, ask(t.Context(), cloud))
				expectCount(t, "after 9 s", count(authenticate), 2)
			})
		})
	}
}

func TestRejectionsAreCachedByCredentials(t *testing.T) {
	api := newAPI(t, answers{authenticate: cloudhttptest.InTurn(rejectedLogin(), delegable())})
	secrets := api.secret()
	cloud := api.cloud(secrets)
	_, err := cloud.Token(t.Context(), identity)
	expectRejected(t, err)
	secrets.set(secretOf(passwordAuth(api.authURL(), func(_, auth object) { auth["password"] = canary + "-2" })))
	mustToken(t, cloud)
	api.Expect(authenticate, authenticate)

	secrets.set(api.secret())
	_, err = cloud.Token(t.Context(), identity)
	expectRejected(t, err)
	api.Expect()
}

// TestRejectionNamesTheSecretOfTheCaller tests two Secrets with the same credentials.
func TestRejectionNamesTheSecretOfTheCaller(t *testing.T) {
	api := newAPI(t, answers{authenticate: rejectedLogin()})
	data := api.secret().data
	cloud := newCloud(t, openstack.Options{
		AuthURLs: []string{api.authURL()}, RootCAs: api.Roots(),
		Secrets: func(context.Context, string, string) (map[string][]byte, error) { return data, nil },
	})
	const text = `rejects user "alice" (401, request req-401): the credentials are wrong, expired or revoked, or have no role on project "` +
		projectID + `"; renew them in the Secret`
	for _, secret := range []string{"one", "another"} {
		_, err := cloud.Token(t.Context(), ownership.Identity{Namespace: "team-b", Secret: secret, Entry: identity.Entry})
		expectFailure(t, err, failure{
			Reason: openstack.IdentityDenied,
			Text:   `cloud "openstack" of Secret "` + secret + `": Keystone at ` + api.Server.URL + "/identity " + text,
		})
	}
	api.Expect(authenticate)
}

func TestTokenNowAfterARejection(t *testing.T) {
	for name, audit := range audits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud, count := offline(t, answers{authenticate: cloudhttptest.InTurn([]http.HandlerFunc{
					rejectedLogin(), rejectedLogin(), reply(http.StatusBadGateway, ""), delegable(), rejectedLogin(), delegable(),
				}...)})
				defer cloud.Stop()
				_, err := cloud.Token(t.Context(), identity)
				expectRejected(t, err)
				wait(5 * time.Second)
				expectRejected(t, audit(t.Context(), cloud))
				expectCount(t, "another rejection", count(authenticate), 2)
				wait(5 * time.Second)
				_, err = cloud.Token(t.Context(), identity)
				expectRejected(t, err)
				expectCount(t, "which replaces the first", count(authenticate), 2)
				expectFailure(t, audit(t.Context(), cloud), keystoneFails)
				_, err = cloud.Token(t.Context(), identity)
				expectRejected(t, err)
				expectCount(t, "a failure changes nothing", count(authenticate), 3)
				if err := audit(t.Context(), cloud); err != nil {
					t.Errorf("error = %v, want a token", err)
				}
				mustToken(t, cloud)
				expectCount(t, "a token replaces the rejection", count(authenticate), 4)
				wait(1)
				expectRejected(t, audit(t.Context(), cloud))
				_, err = cloud.Token(t.Context(), identity)
				expectRejected(t, err)
				expectCount(t, "a rejection replaces the token", count(authenticate), 5)
			})
		})
	}
}

func TestOnlyRejectionsByKeystoneAreCached(t *testing.T) {
	for name, tc := range map[string]struct {
		answer     http.HandlerFunc
		remembered bool
	}{
		"401":                          {answer: rejectedLogin(), remembered: true},
		"400":                          {answer: failed(http.StatusBadRequest, "error"), remembered: true},
		"403":                          {answer: failed(http.StatusForbidden, "error"), remembered: true},
		"404":                          {answer: failed(http.StatusNotFound, "error"), remembered: true},
		"401 of a proxy":               {answer: reply(http.StatusUnauthorized, canary)},
		"403 of a proxy":               {answer: reply(http.StatusForbidden, canary)},
		"404 of another service":       {answer: failed(http.StatusNotFound, "itemNotFound")},
		"another code than the status": {answer: reply(http.StatusUnauthorized, `{"error":{"code":500}}`)},
		"409":                          {answer: failed(http.StatusConflict, "error")},
		"429":                          {answer: failed(http.StatusTooManyRequests, "error")},
		"500":                          {answer: failed(http.StatusInternalServerError, "error")},
		"503":                          {answer: failed(http.StatusServiceUnavailable, "error")},
		"a token without a user":       {answer: aToken(with("user", object{}))},
		"a closed connection":          {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, answers{authenticate: tc.answer})
			cloud := api.cloud(api.secret())
			if _, err := cloud.Token(t.Context(), identity); err == nil {
				t.Error("Token() returned no error")
			}
			api.Set(authenticate, delegable())
			_, err := cloud.Token(t.Context(), identity)
			if diff := cmp.Diff(tc.remembered, err != nil); diff != "" {
				t.Errorf("Token() error = %v, cached (-want +got):\n%s", err, diff)
			}
			want := []string{authenticate, authenticate}
			if tc.remembered {
				want = want[:1]
			}
			api.Expect(want...)
		})
	}
}

// TestInvalidCertificateIsNoRejection tests credentials that were not sent to Keystone.
func TestInvalidCertificateIsNoRejection(t *testing.T) {
	api := newAPI(t, nil)
	secrets := api.secret()
	secrets.data["cacert"] = []byte("no PEM")
	cloud := api.cloud(secrets)
	for range 2 {
		_, err := cloud.Token(t.Context(), identity)
		expectFailure(t, err, failure{Reason: openstack.IdentityMalformed, Text: where + "cacert has no certificate in PEM"})
	}
	api.Expect()
}
