package openstack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/openstack"
)

func TestToken(t *testing.T) {
	drop := func(fields ...string) func(object) {
		return func(token object) {
			for _, field := range fields {
				delete(token, field)
			}
		}
	}
	alice := openstack.Token{
		UserID: userID, UserName: "alice", UserDomainID: "default", UserDomain: "Default", Scope: openstack.ProjectScope,
		ProjectID: projectID, ProjectName: "team-a", ProjectDomainID: "d1", ProjectDomain: "Tenants",
		Roles: []string{"member", "reader"}, RequestID: "req-201",
	}
	elsewhere := func(scope openstack.Scope, modify ...func(*openstack.Token)) openstack.Token {
		t := alice
		t.Scope, t.ProjectID, t.ProjectName, t.ProjectDomainID, t.ProjectDomain = scope, "", "", "", ""
		for _, m := range modify {
			m(&t)
		}
		return t
	}
	for name, tc := range map[string]struct {
		answer []func(object)
		want   openstack.Token
	}{
		"of a project": {want: alice},
		"of a domain": {
			answer: []func(object){drop("project"), with("domain", object{"id": "d1", "name": "Tenants"})},
			want:   elsewhere(openstack.DomainScope, func(t *openstack.Token) { t.DomainName = "Tenants" }),
		},
		"of the system": {answer: []func(object){drop("project"), with("system", object{"all": true})}, want: elsewhere(openstack.SystemScope)},
		"without a scope": {
			answer: []func(object){drop("project", "roles", "catalog")},
			want:   elsewhere(openstack.Unscoped, func(t *openstack.Token) { t.Roles = nil }),
		},
		"of an application credential": {
			answer: []func(object){with("methods", []string{"application_credential"}), with("application_credential", object{"id": "a1", "name": "capo", "restricted": true})},
			want: func() openstack.Token {
				t := alice
				t.ApplicationCredential = &openstack.ApplicationCredential{Name: "capo", Restricted: true}
				return t
			}(),
		},
		"of a trust": {
			answer: []func(object){with("OS-TRUST:trust", object{"id": "t1", "impersonation": true, "trustee_user": object{"id": "u2"}, "trustor_user": object{"id": userID}})},
			want: func() openstack.Token {
				t := alice
				t.TrustID = "t1"
				return t
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, answers{authenticate: aToken(tc.answer...)})
			cloud := api.cloud(api.secret())
			got, err := cloud.Token(t.Context(), identity)
			if err != nil {
				t.Fatalf("Token() error = %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Token() (-want +got):\n%s", diff)
			}
			api.Expect(authenticate)
		})
	}
}

func TestRejectedCredentials(t *testing.T) {
	const renew = "the credentials are wrong, expired or revoked, or have no role on "
	application := func(fields object) func(entry, auth object) {
		return func(_, auth object) {
			for _, field := range []string{"username", "password", "user_domain_name", "project_id"} {
				delete(auth, field)
			}
			auth["application_credential_secret"] = canary
			for field, value := range fields {
				auth[field] = value
			}
		}
	}
	for name, tc := range map[string]struct {
		auth   func(entry, auth object)
		answer http.HandlerFunc
		want   string
	}{
		"401": {
			answer: failed(http.StatusUnauthorized, "error"),
			want:   `user "alice" (401, request req-401): ` + renew + `project "` + projectID + `"; renew them in the Secret`,
		},
		"400": {
			answer: failed(http.StatusBadRequest, "error"),
			want:   `user "alice" (400, request req-400): ` + renew + `project "` + projectID + `"; renew them in the Secret`,
		},
		"403, of a domain": {
			auth:   func(_, auth object) { delete(auth, "project_id"); auth["domain_name"] = "Tenants" },
			answer: failed(http.StatusForbidden, "error"),
			want:   `user "alice" (403, request req-403): ` + renew + `domain "Tenants"; renew them in the Secret`,
		},
		"404, of an application credential": {
			auth: application(object{"application_credential_id": "a1"}), answer: failed(http.StatusNotFound, "error"),
			want: `application credential "a1" (404, request req-404): ` + renew + `what they are for; renew them in the Secret`,
		},
		"401, of an application credential by its name": {
			auth:   application(object{"application_credential_name": "capo", "user_id": userID}),
			answer: failed(http.StatusUnauthorized, "error"),
			want:   `application credential "capo" of user "` + userID + `" (401, request req-401): ` + renew + `what they are for; renew them in the Secret`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, answers{authenticate: tc.answer})
			auth := tc.auth
			if auth == nil {
				auth = func(_, _ object) {}
			}
			secrets := secretOf(passwordAuth(api.authURL(), auth))
			cloud := api.cloud(secrets)
			for range 2 {
				_, err := cloud.Token(t.Context(), identity)
				expectFailure(t, err, failure{
					Reason: openstack.IdentityDenied, Text: where + "Keystone at " + api.Server.URL + "/identity rejects " + tc.want,
				})
			}
			api.Expect(authenticate)
		})
	}
}

func TestKeystoneFails(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   failure
	}{
		"429": {
			answer: failed(http.StatusTooManyRequests, "error", "Retry-After", "17"),
			want:   failure{RequestID: "req-429", RetryAfter: 17 * time.Second, Text: "RateLimited: token request: the answer was 429 error"},
		},
		"403 of a proxy": {
			answer: reply(http.StatusForbidden, "<html>"+canary),
			want:   failure{RequestID: "req-403", Text: "IdentityProviderUnavailable: token request: the answer was 403 unspecified"},
		},
		"404 of another service": {
			answer: failed(http.StatusNotFound, "itemNotFound"),
			want:   failure{RequestID: "req-404", Text: "IdentityProviderUnavailable: token request: the answer was 404 itemNotFound"},
		},
		"a redirect": {
			answer: reply(http.StatusFound, "", "Location", "/canary"),
			want:   failure{RequestID: "req-302", Text: "IdentityProviderUnavailable: token request: the answer was 302 unspecified"},
		},
		"200 instead of 201": {
			answer: reply(http.StatusOK, `{"token":{}}`),
			want:   failure{RequestID: "req-200", Text: "IdentityProviderUnavailable: token request: the response cannot be parsed"},
		},
		"no JSON": {
			answer: reply(http.StatusCreated, "<html>"+canary),
			want:   failure{RequestID: "req-201", Text: "IdentityProviderUnavailable: token request: the response cannot be parsed"},
		},
		"JSON of another shape": {
			answer: reply(http.StatusCreated, `{"token":{"user":"canary"}}`),
			want:   failure{RequestID: "req-201", Text: "IdentityProviderUnavailable: token request: the response cannot be parsed"},
		},
		"a large response": {
			answer: reply(http.StatusCreated, `{"token":"`+strings.Repeat("x", 1<<20)+`"}`),
			want:   failure{Text: "IdentityProviderUnavailable: token request: the answer is larger than 1048576 bytes"},
		},
		"no token": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				reply(http.StatusCreated, inJSON(object{"token": theToken("")}))(w, r)
			},
			want: failure{RequestID: "req-201", Text: "IdentityProviderUnavailable: token request: the answer has no token that can be sent in a header"},
		},
		"no user": {
			answer: aToken(with("user", object{})),
			want:   failure{RequestID: "req-201", Text: "IdentityProviderUnavailable: token request: the answer names no user"},
		},
		"no expiry": {
			answer: aToken(with("expires_at", time.Unix(1, 0).UTC())),
			want:   failure{RequestID: "req-201", Text: "IdentityProviderUnavailable: token request: the response does not contain the expiry of the token"},
		},
		"no issue time": {
			answer: aToken(with("issued_at", nil)),
			want:   failure{RequestID: "req-201", Text: "IdentityProviderUnavailable: token request: the response does not contain the expiry of the token"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, answers{authenticate: tc.answer})
			cloud := api.cloud(api.secret())
			_, err := cloud.Token(t.Context(), identity)
			expectFailure(t, err, tc.want)
			_, err = cloud.Ask(t.Context(), claim())
			expectFailure(t, err, tc.want)
			api.Expect(authenticate, authenticate)
		})
	}
}

func TestTrustedCAs(t *testing.T) {
	api := newAPI(t, answers{getServer: oneServer(serverID, machineName, projectID)})
	bare, withCA := api.secret(), api.secret()
	withCA.data["cacert"] = api.caPEM()
	careless := secretOf(passwordAuth(api.authURL(), func(entry, _ object) { entry["verify"] = false }))

	t.Run("the Secret", func(t *testing.T) {
		cloud := newCloud(t, openstack.Options{AuthURLs: []string{api.authURL()}, Secrets: withCA.get})
		for range 2 {
			if _, err := cloud.TokenNow(t.Context(), identity); err != nil {
				t.Errorf("Token() error = %v", err)
			}
		}
		expectOwned(t, cloud)
		api.Expect(authenticate, authenticate, getServer)
	})
	t.Run("the Secret besides the configuration", func(t *testing.T) {
		other := newAPI(t, nil)
		cloud := newCloud(t, openstack.Options{AuthURLs: []string{api.authURL()}, RootCAs: other.Roots(), Secrets: withCA.get})
		if _, err := cloud.Token(t.Context(), identity); err != nil {
			t.Errorf("Token() error = %v", err)
		}
		api.Expect(authenticate)
	})
	for name, secrets := range map[string]*fakeSecrets{"no CA": bare, "no CA, and a Secret without verification": careless} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, openstack.Options{AuthURLs: []string{api.authURL()}, Secrets: secrets.get})
			_, err := cloud.Token(t.Context(), identity)
			expectFailure(t, err, failure{
				Text: "IdentityProviderUnavailable: token request: tls: failed to verify certificate: x509: certificate signed by unknown authority",
			})
			api.Expect()
		})
	}
}
