package openstack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

// where is the begin of each message.
const where = `cloud "openstack" of Secret "cloud-config": `

func TestCredentialsAreSentAsByTheProvider(t *testing.T) {
	password := func(user object) object {
		return object{"methods": []any{"password"}, "password": object{"user": user}}
	}
	application := func(credential object) object {
		return object{"methods": []any{"application_credential"}, "application_credential": credential}
	}
	alice, u1 := object{"name": "alice", "password": "s3", "domain": object{"name": "Default"}}, object{"id": "u1", "password": "s3"}
	ofDomain := func(id string) object { return object{"project": object{"name": "p", "domain": object{"id": id}}} }
	for name, tc := range map[string]struct {
		auth            string
		identity, scope object // what is sent
	}{
		"a user of a domain, a project by its ID": {
			auth:     "username: alice, password: s3, user_domain_name: Default, project_id: p1",
			identity: password(alice), scope: object{"project": object{"id": "p1"}},
		},
		"a user by its ID, a project by its name": {
			auth:     "user_id: u1, password: s3, user_domain_name: Default, project_name: p, project_domain_id: d1",
			identity: password(u1), scope: ofDomain("d1"),
		},
		"one domain for both": {
			auth:     "username: alice, password: s3, domain_name: Default, project_name: p",
			identity: password(alice), scope: object{"project": object{"name": "p", "domain": object{"name": "Default"}}},
		},
		"the domain without one in the entry": {
			auth:     "username: alice, password: s3, default_domain: d1, project_name: p",
			identity: password(object{"name": "alice", "password": "s3", "domain": object{"id": "d1"}}), scope: ofDomain("d1"),
		},
		"a domain by its name, and by the ID of the default, which counts": {
			auth:     "username: alice, password: s3, user_domain_id: d0, project_name: p, project_domain_name: Tenants, domain_id: d1",
			identity: password(object{"name": "alice", "password": "s3", "domain": object{"id": "d0"}}), scope: ofDomain("d1"),
		},
		"a number for a text": {
			auth:     "user_id: 17, password: 0123, project_id: 5",
			identity: password(object{"id": "17", "password": "83"}), scope: object{"project": object{"id": "5"}},
		},
		"a domain": {
			auth:     "username: alice, password: s3, user_domain_name: Default, domain_id: d1",
			identity: password(alice), scope: object{"domain": object{"id": "d1"}},
		},
		"a domain by its name": {
			auth:     "user_id: u1, password: s3, domain_name: Tenants",
			identity: password(u1), scope: object{"domain": object{"name": "Tenants"}},
		},
		"the system": {
			auth:     "user_id: u1, password: s3, system_scope: all",
			identity: password(u1), scope: object{"system": object{"all": true}},
		},
		"a trust": {
			auth:     "user_id: u1, password: s3, trust_id: t1",
			identity: password(u1), scope: object{"OS-TRUST:trust": object{"id": "t1"}},
		},
		"nothing": {auth: "user_id: u1, password: s3", identity: password(u1)},
		"an application credential by its ID, which has its project": {
			auth:     "application_credential_id: a1, application_credential_secret: s3, project_id: p1",
			identity: application(object{"id": "a1", "secret": "s3"}),
		},
		"an application credential by its name": {
			auth:     "application_credential_name: a, application_credential_secret: s3, username: alice, user_domain_name: Default",
			identity: application(object{"name": "a", "secret": "s3", "user": object{"name": "alice", "domain": object{"name": "Default"}}}),
		},
		"an application credential of a user by the name of the domain, and by the ID of the default, which counts": {
			auth:     "application_credential_name: a, application_credential_secret: s3, username: alice, user_domain_name: Default, domain_id: d1",
			identity: application(object{"name": "a", "secret": "s3", "user": object{"name": "alice", "domain": object{"id": "d1"}}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, nil)
			// The environment and the certificate fields of the entry have no effect.
			for variable, value := range map[string]string{
				"OS_CLOUD": "other", "OS_AUTH_URL": "https://elsewhere.example", "OS_PASSWORD": "other", "OS_PROJECT_ID": "other",
				"OS_REGION_NAME": "other", "OS_CLIENT_CONFIG_FILE": "/nowhere", "OS_USERNAME": "other", "OS_TOKEN": "other",
			} {
				t.Setenv(variable, value)
			}
			yaml := "clouds:\n  openstack: {verify: false, cacert: /nowhere, auth: {auth_url: " + api.authURL() + "/, " + tc.auth + "}}\n" +
				"  other: {auth: {auth_url: x}}\n"
			secrets := &fakeSecrets{data: map[string][]byte{"clouds.yaml": []byte(yaml)}}
			mustToken(t, api.cloud(secrets))
			want := object{"identity": tc.identity}
			if tc.scope != nil {
				want["scope"] = tc.scope
			}
			var got struct{ Auth object }
			if err := json.Unmarshal([]byte(api.Requests()[0].Body), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Auth); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			api.Expect(authenticate)
		})
	}
}

func TestASecretThatCannotBeUsed(t *testing.T) {
	const (
		allowed = "https://keystone.example:5000"
		notText = "clouds.yaml is not accepted: one of its keys is not a text, but a number, a Boolean value or null; put it in quotes"
	)
	yaml := func(text string) map[string][]byte { return map[string][]byte{"clouds.yaml": []byte(text)} }
	entry := func(modify ...func(entry, auth object)) map[string][]byte {
		return secretOf(passwordAuth(allowed+"/v3", modify...)).data
	}
	with := func(field string, value any) map[string][]byte {
		return entry(func(_, auth object) { auth[field] = value })
	}
	without := func(field string) map[string][]byte { return entry(func(_, auth object) { delete(auth, field) }) }
	bomb := "a0: &a0 [canary]\n"
	for i := range 60 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 40), ","))
	}
	for name, tc := range map[string]struct {
		data   map[string][]byte
		reason string // IdentityMalformed if empty
		want   string
	}{
		"no clouds.yaml":                  {data: map[string][]byte{"cloud.yaml": []byte(canary)}, want: `the Secret has no key "clouds.yaml"`},
		"several MiB":                     {data: yaml(strings.Repeat("canary: x\n", 400_000)), want: "clouds.yaml has 4000000 bytes, more than the 65536 that are read"},
		"an alias bomb":                   {data: yaml(bomb), want: "clouds.yaml is not accepted: its aliases expand to more than 262144 bytes"},
		"no YAML":                         {data: yaml("clouds:\n  a: [canary\n"), want: "clouds.yaml is not valid YAML: line 2"},
		"a key twice":                     {data: yaml("clouds:\n  openstack: {region_name: canary, region_name: b}"), want: "clouds.yaml is not valid YAML"},
		"a cloud twice, once as a number": {data: yaml("clouds: {openstack: {}, '1': {region_name: canary}, 1: {}}"), want: notText},
		"a field twice, once as a Boolean value": {
			data: yaml("clouds: {openstack: {auth: {'true': canary, yes: b}}}"), want: notText,
		},
		"a key in a list":   {data: yaml("clouds: {openstack: {regions: [{0x10: canary, '16': b}]}}"), want: notText},
		"a text":            {data: yaml(canary), want: "clouds.yaml has a value of the wrong type"},
		"nothing":           {data: yaml(""), want: "clouds.yaml has no clouds"},
		"no clouds":         {data: yaml("cloud: {openstack: {}}"), want: "clouds.yaml has no clouds"},
		"another cloud":     {data: yaml("clouds: {canary: {}}"), want: "clouds.yaml has no cloud of this name"},
		"clouds as a list":  {data: yaml("clouds: [canary]"), want: "clouds.yaml has a value of the wrong type: clouds has to be a mapping"},
		"a cloud as a text": {data: yaml("clouds: {openstack: canary}"), want: "clouds.yaml has a value of the wrong type: clouds has to be a mapping"},
		"a list for a text": {
			data: with("password", []string{canary}),
			want: "clouds.yaml has a value of the wrong type: clouds.auth.password has to be a text",
		},
		"no auth":     {data: yaml("clouds: {openstack: {region_name: a}}"), want: "it has no auth.auth_url"},
		"no auth_url": {data: without("auth_url"), want: "it has no auth.auth_url"},
		"another kind": {
			data: entry(func(entry, _ object) { entry["auth_type"] = "v3oidcpassword" }),
			want: "its auth_type is none of password, v3password, v3applicationcredential",
		},
		"a token": {
			data: with("token", canary),
			want: "it has a token, which ends before the cluster does; use an application credential",
		},
		"a password and an application credential": {
			data: with("application_credential_secret", canary),
			want: "it has both a password and an application credential; remove one of them",
		},
		"a trust and a project": {
			data: with("trust_id", canary),
			want: "it has a trust_id in addition to a project or an application credential; remove one of them",
		},
		"a part of the system": {data: with("system_scope", canary), want: "its system_scope is not all"},
		"no password":          {data: without("password"), want: "You must provide a password to authenticate"},
		"a project's name without its domain": {
			data: entry(func(_, auth object) { delete(auth, "project_id"); auth["project_name"] = canary }),
			want: "You must provide exactly one of DomainID or DomainName in a Scope with ProjectName",
		},
		"a URL with a password": {
			data: with("auth_url", "https://u:canary@keystone.example:5000/v3"),
			want: `its auth_url has to be http:// or https://, a host and a path, such as "https://keystone.example.com:5000/v3"`,
		},
		"another Keystone": {
			data: with("auth_url", "https://keystone.example:5001/canary"), reason: openstack.IdentityEndpointNotAllowed,
			want: `its auth_url is at host "keystone.example:5001" and is none of those configured (https://keystone.example:5000)`,
		},
		"another Keystone, with another kind": {
			data: entry(func(entry, auth object) {
				entry["auth_type"], auth["auth_url"] = "v3oidcpassword", "https://keystone.example:5001/canary"
			}),
			reason: openstack.IdentityEndpointNotAllowed,
			want:   `its auth_url is at host "keystone.example:5001" and is none of those configured (https://keystone.example:5000)`,
		},
		"invalid CA certificates": {
			data: func() map[string][]byte { d := entry(); d["cacert"] = []byte(canary); return d }(), want: "cacert has no certificate in PEM",
		},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := &fakeSecrets{data: tc.data}
			cloud := newCloud(t, openstack.Options{AuthURLs: []string{allowed}, Secrets: secrets.get})
			_, err := cloud.Token(t.Context(), identity)
			want := failure{Reason: tc.reason, Text: where + tc.want}
			if tc.reason == "" {
				want.Reason = openstack.IdentityMalformed
			}
			expectFailure(t, err, want)
			_, err = cloud.Ask(t.Context(), claim())
			expectFailure(t, err, want)
		})
	}
}

func TestASecretThatCannotBeRead(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		identity ownership.Identity
		err      error
		want     failure
	}{
		"none named": {want: failure{
			Reason: openstack.IdentitySecretMissing, Text: "no Secret with credentials is referred to; name it in spec.identityRef",
		}},
		"none there": {identity: identity, err: apierrors.NewNotFound(secrets, identity.Secret), want: failure{
			Reason: openstack.IdentitySecretMissing,
			Text:   where + `there is no such Secret in namespace "team-a"; create it, or correct the reference to it`,
		}},
		"a closed connection": {identity: identity, err: errors.New("connection refused"), want: failure{
			Text: `IdentityProviderUnavailable: read Secret "cloud-config" in namespace "team-a": connection refused`,
		}},
		"no response in time": {identity: identity, err: context.DeadlineExceeded, want: failure{
			Text: `Timeout: read Secret "cloud-config" in namespace "team-a": context deadline exceeded`,
		}},
		"too many requests": {identity: identity, err: apierrors.NewTooManyRequests("later", 1), want: failure{
			Text: `RateLimited: read Secret "cloud-config" in namespace "team-a": later`,
		}},
		"not allowed": {identity: identity, err: apierrors.NewForbidden(secrets, identity.Secret, errors.New("no")), want: failure{
			Text: `CredentialsDenied: read Secret "cloud-config" in namespace "team-a": secrets "cloud-config" is forbidden: no`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeSecrets{err: tc.err}
			cloud := newCloud(t, openstack.Options{AuthURLs: []string{"https://keystone.example"}, Secrets: f.get})
			_, err := cloud.TokenNow(t.Context(), tc.identity)
			expectFailure(t, err, tc.want)
			_, requests, err := cloud.Instances(t.Context(), ownership.Account{Identity: tc.identity})
			expectFailure(t, err, tc.want)
			if requests != 0 {
				t.Errorf("Instances() requests = %d, want none", requests)
			}
			api, err := cloud.API(t.Context(), ownership.Account{Identity: tc.identity})
			expectFailure(t, err, tc.want)
			if api != "" {
				t.Errorf("API() = %q, want none beside the error", api)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for wrong, before := range map[string][]string{"https://canary:canary@b": {"https://a"}, "/v3": nil, "%": nil} {
		want := fmt.Sprintf(`auth URL %d: it has to be http:// or https://, a host and a path, such as "https://keystone.example.com:5000/v3"`, len(before)+1)
		_, err := openstack.New(openstack.Options{Secrets: (&fakeSecrets{}).get, AuthURLs: append(before, wrong)})
		if err == nil || err.Error() != want {
			t.Errorf("New() with %q error = %v, want %q", wrong, err, want)
		}
	}
}

func TestURLsOfTheSameKeystone(t *testing.T) {
	for raw, want := range map[string]string{
		"https://k.example":                "https://k.example:443",
		"https://K.Example:443/":           "https://k.example:443",
		"https://k.example/v3":             "https://k.example:443",
		"https://k.example/v3//":           "https://k.example:443",
		"http://k.example/identity/v3/":    "http://k.example:80/identity",
		"https://k.example/identity":       "https://k.example:443/identity",
		"https://k.example/Identity":       "https://k.example:443/Identity",
		"https://[::1]:5000/v3":            "https://[::1]:5000",
		"HTTPS://k.example:5000/v3":        "https://k.example:5000",
		"https://k.example/v2.0":           "https://k.example:443/v2.0",
		"https://k.example/a/../v3":        "https://k.example:443/a/..",
		"https://k.example/%61/v3":         "https://k.example:443/%61",
		"https://k.example?x":              "",
		"https://k.example?":               "",
		"https://k.example#x":              "",
		"https://u@k.example":              "",
		"ftp://k.example":                  "",
		"k.example:5000/v3":                "",
		"https:///v3":                      "",
		"https://k.example:port/v3":        "",
		"https://k.exa mple":               "",
		"https://k.example\n.evil.example": "",
	} {
		got, ok := openstack.CanonicalAuthURL(raw)
		if got != want || ok != (want != "") {
			t.Errorf("CanonicalAuthURL(%q) = %q, %v, want %q", raw, got, ok, want)
		}
	}
}

// FuzzCloudsYAML checks that each Secret results in an error without a word of the Secret, or in a request to the configured Keystone only.
func FuzzCloudsYAML(f *testing.F) {
	for _, seed := range []string{
		"clouds:\n  openstack:\n    auth:\n      auth_url: https://keystone.example:5000/v3\n      username: alice\n      password: canary\n" +
			"      user_domain_name: Default\n      project_name: p\n      project_domain_name: Default\n    region_name: RegionOne\n    verify: false\n",
		`{"clouds":{"openstack":{"auth":{"auth_url":"https://keystone.example:5000","application_credential_id":"a","application_credential_secret":"canary"},"auth_type":"v3applicationcredential","interface":"internal"}}}`,
		"clouds: &a\n  openstack: *a\n", "a: &a [b]\nclouds: {openstack: {auth: *a}}", "clouds:\n  openstack:\n    auth: canary\n", "", "\x00", "- a", "clouds: [", "!!binary x",
		"clouds: {openstack: {<<: {auth: {auth_url: 'https://keystone.example:5000', user_id: 1, password: 2}}}}", "? {a: b}\n: c", "{1: 2}", "%YAML 9",
	} {
		f.Add([]byte(seed), []byte(nil))
	}
	f.Add([]byte("clouds: {openstack: {auth: {auth_url: 'https://keystone.example:5000', user_id: u, password: p}}}"), []byte("-----BEGIN CERTIFICATE-----"))
	f.Fuzz(func(t *testing.T, clouds, ca []byte) {
		secrets := &fakeSecrets{data: map[string][]byte{"clouds.yaml": clouds, "cacert": ca}}
		cloud, err := openstack.NewWith(openstack.Options{AuthURLs: []string{"https://keystone.example:5000"}, Secrets: secrets.get},
			cloudhttptest.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method+" "+r.URL.String() != "POST https://keystone.example:5000/v3/auth/tokens" {
					t.Errorf("%s %s was requested", r.Method, r.URL)
				}
				return nil, http.ErrServerClosed
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer cloud.Stop()
		_, err = cloud.Token(t.Context(), identity)
		failureOf(t, err)
		if len(err.Error()) > 1000 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	})
}
