package policies

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

// aKeystone issues a token for the ID of each user, with the roles after the dash: "tenant-member,load-balancer_member". The user
// "unrestricted-…" has an unrestricted application credential, authentication of "nobody" is denied, and requests for "down" fail.
func aKeystone(t *testing.T) (authURL string) {
	t.Helper()
	type object = map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var request struct {
			Auth struct {
				Identity struct {
					Password struct{ User struct{ ID string } }
				}
			}
		}
		if err := json.Unmarshal(body, &request); err != nil || r.URL.Path != "/v3/auth/tokens" {
			t.Errorf("Keystone got a request for %s: %v", r.URL.Path, err)
		}
		id, list, _ := strings.Cut(request.Auth.Identity.Password.User.ID, "-")
		switch id {
		case "nobody":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`))
			return
		case "down":
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		var roles []object
		for role := range strings.SplitSeq(list, ",") {
			roles = append(roles, object{"name": role})
		}
		domain, issued := object{"id": "d1", "name": "Tenants"}, time.Now().UTC()
		token := object{
			"issued_at": issued, "expires_at": issued.Add(time.Hour), "roles": roles,
			"user": object{"id": "u1", "name": id, "domain": domain}, "project": object{"id": "p1", "name": "web", "domain": domain},
		}
		if id == "unrestricted" {
			token["application_credential"] = object{"id": "a1", "name": "ci", "restricted": false}
		}
		w.Header().Set("X-Subject-Token", "secret")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(object{"token": token}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v3"
}

// cloudsFor returns a clouds.yaml with a cloud for each user. The name of the cloud is that of the user without its roles.
func cloudsFor(authURL string, users ...string) string {
	text := "clouds:\n"
	for _, user := range users {
		name, _, _ := strings.Cut(user, "-")
		text += fmt.Sprintf("  %s: {auth: {auth_url: %q, user_id: %q, password: canary, project_id: p1}}\n", name, authURL, user)
	}
	return text
}

func TestCheckDelegation(t *testing.T) {
	const (
		good         = "-load-balancer_member,member"
		carries      = `user "tenant" in project "web" has the roles load-balancer_member, member`
		ok           = "cloud \"tenant\" of clouds.yaml: ok\n  " + carries + "\n"
		header       = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"
		unrestricted = `application credential "ci" of user "unrestricted" in project "web"`
		children     = unrestricted + " is unrestricted: it can create further application credentials of this user, which stay valid after it is deleted; " +
			"use one that was created without --unrestricted\n"
	)
	authURL := aKeystone(t)
	host := strings.TrimSuffix(authURL, "/v3")
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("user%d%s", i, good))
	}
	for name, tc := range map[string]struct {
		clouds string
		// config is the rest of the configuration. It is given with --config.
		config      string
		args        []string
		wantOut     string
		wantCode    int
		wantMessage string
	}{
		"a tenant's":           {clouds: cloudsFor(authURL, "tenant"+good), args: []string{"--clouds-yaml=clouds.yaml"}, wantOut: ok},
		"one cloud of several": {clouds: cloudsFor(authURL, "tenant"+good, "nobody"), args: []string{"--clouds-yaml=clouds.yaml", "--os-cloud=tenant"}, wantOut: ok},
		"a cloud of the usual": {clouds: cloudsFor(authURL, "tenant"+good, "nobody"), args: []string{"--os-cloud=tenant"}, wantOut: ok},
		"a listed Keystone":    {clouds: cloudsFor(authURL, "tenant"+good), config: "openStack: {authURLs: [" + authURL + "]}\n", args: []string{"--os-cloud=tenant"}, wantOut: ok},
		"a warning is not a denial": {
			clouds: cloudsFor(authURL, "unrestricted"+good), args: []string{"--os-cloud=unrestricted"},
			wantOut: "cloud \"unrestricted\" of clouds.yaml: ok, with a warning\n  " + unrestricted + " has the roles load-balancer_member, member\n" +
				"  ApplicationCredentialUnrestricted: cloud \"unrestricted\" of clouds.yaml: " + children,
		},
		"an unrestricted one, while these are denied": {
			clouds: cloudsFor(authURL, "unrestricted"+good), args: []string{"--os-cloud=unrestricted"},
			config:  "openStack: {authURLs: [" + authURL + "]}\ncluster: {delegation: {unrestrictedApplicationCredentials: Deny}}\n",
			wantOut: "cloud \"unrestricted\" of clouds.yaml: DENIED\n  ApplicationCredentialUnrestricted: cloud \"unrestricted\" of clouds.yaml: " + children, wantCode: cli.ExitWrong,
		},
		"all clouds of a file": {
			clouds: cloudsFor(authURL, "admin-admin", "down", "tenant"+good), args: []string{"--clouds-yaml=clouds.yaml"},
			wantOut: "cloud \"admin\" of clouds.yaml: DENIED\n  RolePrivileged: cloud \"admin\" of clouds.yaml: user \"admin\" in project \"web\" has the roles admin; " +
				"too many: admin, with an administrator's permissions, which no cluster may have; use an identity of the tenant that has only " +
				"load-balancer_member, member, reader, or an application credential that is made with these roles only; missing: load-balancer_member; " +
				"an administrator grants it: openstack role add --user u1 --project p1 load-balancer_member\n" +
				"cloud \"down\" of clouds.yaml: UNKNOWN\n  DelegationUnknown: the roles of cloud \"down\" of clouds.yaml could not be determined: " +
				"the identity provider is unavailable or its response is invalid; try again\n" +
				"  Keystone at " + host + ": token request: the answer was 502 unspecified\n" + ok,
			wantCode: cli.ExitWrong,
		},
		"a Keystone that fails": {
			clouds: cloudsFor(authURL, "down", "tenant"+good), args: []string{"--clouds-yaml=clouds.yaml"},
			wantOut: "cloud \"down\" of clouds.yaml: UNKNOWN\n  DelegationUnknown: the roles of cloud \"down\" of clouds.yaml could not be determined: " +
				"the identity provider is unavailable or its response is invalid; try again\n" +
				"  Keystone at " + host + ": token request: the answer was 502 unspecified\n" + ok,
			wantCode: cli.ExitUnknown,
		},
		"wrong credentials": {
			clouds: cloudsFor(authURL, "nobody"), args: []string{"--os-cloud=nobody"},
			wantOut: "cloud \"nobody\" of clouds.yaml: DENIED\n  IdentityDenied: cloud \"nobody\" of clouds.yaml: Keystone at " + host + " rejects user \"nobody\" (401): " +
				"the credentials are wrong, expired or revoked, or have no role on project \"p1\"; renew them in the Secret\n",
			wantCode: cli.ExitWrong,
		},
		"an operator's": {
			clouds: cloudsFor(authURL, "tenant"+good), args: []string{"--os-cloud=tenant"},
			config: "openStack: {authURLs: [" + authURL + "]}\ncluster: {delegation: {operators: {users: [{name: TEN*}]}}}\n",
			wantOut: "cloud \"tenant\" of clouds.yaml: DENIED\n  IdentityOfOperator: cloud \"tenant\" of clouds.yaml: user \"tenant\" of domain \"Tenants\" " +
				"belongs to the operators of this OpenStack, and no cluster may act as them; use an identity of the tenant in the tenant's own project\n",
			wantCode: cli.ExitWrong,
		},
		"a Keystone that is not listed": {
			clouds: cloudsFor(authURL, "tenant"+good), args: []string{"--os-cloud=tenant"}, config: "openStack: {authURLs: [\"https://keystone.example.com/v3\"]}\n",
			wantOut: "cloud \"tenant\" of clouds.yaml: DENIED\n  IdentityEndpointNotAllowed: cloud \"tenant\" of clouds.yaml: its auth_url is at host \"" +
				strings.TrimPrefix(host, "http://") + "\" and is none of those configured (https://keystone.example.com:443)\n",
			wantCode: cli.ExitWrong,
		},
		"a Keystone that cannot be reached": {
			clouds: cloudsFor("http://127.0.0.1:1/v3", "tenant"+good), args: []string{"--os-cloud=tenant"},
			wantOut: "cloud \"tenant\" of clouds.yaml: UNKNOWN\n  DelegationUnknown: the roles of cloud \"tenant\" of clouds.yaml could not be determined: " +
				"the identity provider is unavailable or its response is invalid; try again\n" +
				"  Keystone at http://127.0.0.1:1: token request: dial tcp 127.0.0.1:1: connect: connection refused\n",
			wantCode: cli.ExitUnknown,
		},
		"a cloud that does not exist": {
			clouds: cloudsFor(authURL, "tenant"+good, "nobody"), args: []string{"--os-cloud=tennant"}, wantCode: cli.ExitUnknown,
			wantMessage: `clouds.yaml has no cloud "tennant"; its clouds are ["nobody" "tenant"]`,
		},
		"a file without clouds": {
			clouds: "clouds: {}\n", args: []string{"--clouds-yaml=clouds.yaml"},
			wantOut:  "cloud \"\" of clouds.yaml: DENIED\n  IdentityMalformed: cloud \"\" of clouds.yaml: clouds.yaml has no clouds\n",
			wantCode: cli.ExitWrong,
		},
		"a cloud without a Keystone": {
			clouds: "clouds: {tenant: {auth: {password: canary}}}\n", args: []string{"--clouds-yaml=clouds.yaml"},
			wantOut:  "cloud \"tenant\" of clouds.yaml: DENIED\n  IdentityMalformed: cloud \"tenant\" of clouds.yaml: it has no auth.auth_url\n",
			wantCode: cli.ExitWrong,
		},
		"a token": {
			clouds: "clouds: {tenant: {auth: {auth_url: \"" + authURL + "\", token: canary}}}\n", args: []string{"--clouds-yaml=clouds.yaml"},
			wantOut: "cloud \"tenant\" of clouds.yaml: DENIED\n  IdentityMalformed: cloud \"tenant\" of clouds.yaml: it has a token, which ends before the cluster does; " +
				"use an application credential\n",
			wantCode: cli.ExitWrong,
		},
		"more clouds than the gate checks in one Secret": {
			clouds: cloudsFor(authURL, many...), args: []string{"--clouds-yaml=clouds.yaml"},
			wantOut:  "clouds.yaml: DENIED\n  TooManyClouds: it changes 9 clouds, and at most 8 are checked at a time; change fewer, or use more Secrets\n",
			wantCode: cli.ExitWrong,
		},
		"one of more clouds than the gate checks in one Secret": {
			clouds: cloudsFor(authURL, append(many, "tenant"+good)...), args: []string{"--clouds-yaml=clouds.yaml", "--os-cloud=tenant"}, wantOut: ok,
		},
		"an unknown way of delegation": {
			clouds: "clouds: {}\n", args: []string{"--clouds-yaml=clouds.yaml", "--through=Telepathy"}, wantCode: cli.ExitUnknown,
			wantMessage: `--through: "Telepathy" must be ApplicationCredential or Trust`,
		},
		"a configuration without a Keystone": {
			clouds: "clouds: {}\n", args: []string{"--clouds-yaml=clouds.yaml"}, config: "audit: {mode: Off}\n", wantCode: cli.ExitUnknown,
			wantMessage: "config.yaml has no openStack.authURLs, so that no credentials are checked",
		},
		"no file": {
			args: []string{"--clouds-yaml=missing.yaml"}, wantCode: cli.ExitUnknown, wantMessage: "open missing.yaml: no such file or directory",
		},
		"nothing to check": {wantCode: cli.ExitUnknown, wantMessage: "give --os-cloud, --clouds-yaml or both, such as --os-cloud acme-prod"},
		"an argument":      {args: []string{"tenant"}, wantCode: cli.ExitUnknown, wantMessage: `unknown command "tenant" for "check delegation"`},
		"invalid certificates": {
			clouds: cloudsFor(authURL, "tenant"+good), args: []string{"--os-cloud=tenant", "--cacert=clouds.yaml"},
			wantOut:  "cloud \"tenant\" of clouds.yaml: DENIED\n  IdentityMalformed: cloud \"tenant\" of clouds.yaml: cacert has no certificate in PEM\n",
			wantCode: cli.ExitWrong,
		},
		"through a trust": {
			clouds: cloudsFor(authURL, "unrestricted"+good), args: []string{"--os-cloud=unrestricted", "--through=Trust"},
			wantOut: "cloud \"unrestricted\" of clouds.yaml: ok, with a warning\n  " + unrestricted + " has the roles load-balancer_member, member\n" +
				"  ApplicationCredentialWithoutTrust: the credentials are an application credential, with which Keystone creates no trust; use the password of a user of " +
				"the tenant. The operator of Keystone can allow it with [security_compliance] allow_insecure_application_credential_trust_escalation, but should not: " +
				"the credential could then delegate roles that it does not have; cloud \"unrestricted\" of clouds.yaml: " + children,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, variable := range []string{"OS_CLOUD", "OS_CLIENT_CONFIG_FILE"} {
				t.Setenv(variable, "")
			}
			if tc.clouds != "" {
				inFile(t, "clouds.yaml", tc.clouds)
			}
			args := append([]string{"delegation"}, tc.args...)
			if tc.config != "" {
				inFile(t, "config.yaml", header+tc.config)
				args = append(args, "--config=config.yaml")
			}
			out, code, message := runCommand(t, NewCheckCommand(), args...)
			if diff := cmp.Diff(tc.wantOut, out); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if code != tc.wantCode || message != tc.wantMessage {
				t.Errorf("ends with %d %q, want %d %q", code, message, tc.wantCode, tc.wantMessage)
			}
			if strings.Contains(out+message, "canary") {
				t.Errorf("a secret is printed: %s %s", out, message)
			}
		})
	}
}

func TestWhichCloudsYAMLIsChecked(t *testing.T) {
	authURL := aKeystone(t)
	content := cloudsFor(authURL, "tenant-load-balancer_member")
	for name, tc := range map[string]struct {
		// at is the path of the file below the home directory.
		at string
		// env is an environment variable. HOME/ in its value means the home directory.
		env, value string
		want       string // the file that is checked, "" for none
	}{
		"that of the user":                 {at: ".config/openstack/clouds.yaml", want: "HOME/.config/openstack/clouds.yaml"},
		"that of another configuration":    {at: "etc/openstack/clouds.yaml", env: "XDG_CONFIG_HOME", value: "HOME/etc", want: "HOME/etc/openstack/clouds.yaml"},
		"that of OS_CLIENT_CONFIG_FILE":    {at: "my.yaml", env: "OS_CLIENT_CONFIG_FILE", value: "HOME/my.yaml", want: "HOME/my.yaml"},
		"that of the working directory":    {at: "work/clouds.yaml", want: "clouds.yaml"},
		"none, where there is none at all": {at: "work/cloud.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, tc.at)
			for _, dir := range []string{filepath.Join(home, "work"), filepath.Dir(path)} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(filepath.Join(home, "work"))
			t.Setenv("HOME", home)
			for _, variable := range []string{"OS_CLIENT_CONFIG_FILE", "XDG_CONFIG_HOME"} {
				t.Setenv(variable, "")
			}
			t.Setenv("OS_CLOUD", "tenant")
			if tc.env != "" {
				t.Setenv(tc.env, strings.Replace(tc.value, "HOME", home, 1))
			}
			inFile(t, path, content)
			out, code, message := runCommand(t, NewCheckCommand(), "delegation")
			if tc.want == "" {
				if code != cli.ExitUnknown || !strings.HasPrefix(message, "there is no clouds.yaml, "+home) {
					t.Errorf("ends with %d %q", code, message)
				}
				return
			}
			want := "cloud \"tenant\" of " + strings.Replace(tc.want, "HOME", home, 1) + ": ok\n  user \"tenant\" in project \"web\" has the roles load-balancer_member\n"
			if diff := cmp.Diff(want, out); diff != "" || code != 0 {
				t.Errorf("ends with %d %q, output (-want +got):\n%s", code, message, diff)
			}
		})
	}
}
