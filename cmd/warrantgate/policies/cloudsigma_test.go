package policies

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

const (
	tenantEmail  = "tenant@example.com"
	tenantID     = "2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12"
	partnerEmail = "partner@example.com"
	partnerID    = "0f9d5f5e-8c0d-4b7e-9d37-5b0a3c1e2d11"
	sharedEmail  = "shared@example.com"
	sharedID     = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
)

// aCloudSigma is an identity provider, and an API with two hosts: below /direct, a token acts as its user, and below /other as the service
// account. The identity provider permits only the tenant. /other takes a password, too. "down" is a region whose API fails.
func aCloudSigma(t *testing.T) *httptest.Server {
	t.Helper()
	profile := func(w http.ResponseWriter, id, email string) {
		w.Header().Set("X-Request-Id", "req-1")
		fmt.Fprintf(w, `{"uuid": %q, "email": %q}`, id, email)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		subject := r.PostFormValue("requested_subject")
		if r.PostFormValue("grant_type") != "client_credentials" && subject != tenantEmail {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error": "access_denied"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token": "canary-of-%s", "token_type": "Bearer", "expires_in": 300,
			"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}`, subject)
	})
	mux.HandleFunc("GET /direct/{region}/profile/", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("region") == "down" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.Header.Get("Authorization") != "Bearer canary-of-"+tenantEmail {
			t.Errorf("the API got %q", r.Header.Get("Authorization"))
		}
		profile(w, tenantID, tenantEmail)
	})
	mux.HandleFunc("GET /other/{region}/profile/", func(w http.ResponseWriter, r *http.Request) {
		if user, _, ok := r.BasicAuth(); ok {
			profile(w, sharedID, user)
			return
		}
		profile(w, partnerID, partnerEmail)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	return server
}

// aManagementCluster has the CloudSigmaClusters "metal" of the tenant and "nobody" without a user, in namespace "team".
func aManagementCluster(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spec := map[string]any{"region": "next"}
		switch name := strings.TrimPrefix(r.URL.Path, "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/team/cloudsigmaclusters/"); name {
		case "metal":
			spec["userEmail"] = tenantEmail
		case "nobody":
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CloudSigmaCluster",
			"metadata": map[string]any{"name": "metal", "namespace": "team"}, "spec": spec,
		}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return clitest.WriteKubeconfig(t, map[string]string{"home": server.URL})
}

func TestCheckCloudSigma(t *testing.T) {
	cloud, kubeconfig := aCloudSigma(t), aManagementCluster(t)
	direct, other := cloud.URL+"/direct/next/", cloud.URL+"/other/next/"
	caFile := clitest.WriteFile(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cloud.Certificate().Raw})))
	secret := clitest.WriteFile(t, "secret", "canary-secret")
	configuration := func(api string) string {
		return "--config=" + clitest.WriteFile(t, "config.yaml", fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
			"cloudSigma: {api: %q, legacyAPI: %q, caFile: %q, flow: TokenExchange, tokenPath: /token, defaultRegion: next}\n",
			cloud.URL+"/"+api+"/{region}/", cloud.URL+"/other/{region}/", caFile))
	}
	atDirect, atOther := configuration("direct"), configuration("other")
	impersonating := []string{"--impersonation-enabled", "--oauth-url=" + cloud.URL, "--client-id=partner", "--client-secret-file=" + secret}
	legacy := map[string]string{
		"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS": "true", "CLOUDSIGMA_USERNAME": sharedEmail, "CLOUDSIGMA_PASSWORD": "canary-password",
	}
	as := func(api, what, email, id string) string {
		return fmt.Sprintf("%s treats the %s as user %q (%s)", api, what, email, id)
	}
	const password = "user name and password"
	for name, tc := range map[string]struct {
		args        []string
		env         map[string]string
		wantOut     string
		wantCode    int
		wantMessage string
	}{
		"an email address": {
			args:    append(impersonating, tenantEmail, atDirect, "--region=zrh"),
			wantOut: "user \"tenant@example.com\", region \"zrh\": ok\n  " + as(cloud.URL+"/direct/zrh/", "token", tenantEmail, tenantID) + ", request id req-1\n",
		},
		"a cluster": {
			args: append(impersonating, "team/metal", atDirect, "--kubeconfig="+kubeconfig),
			wantOut: "cluster \"team/metal\", user \"tenant@example.com\", region \"next\": ok\n  " + as(direct, "token", tenantEmail, tenantID) +
				", request id req-1\n",
		},
		"the wrong host": {
			args: append(impersonating, "team/metal", atOther, "--kubeconfig="+kubeconfig),
			wantOut: "cluster \"team/metal\", user \"tenant@example.com\", region \"next\": WRONG\n  WrongUser: " + as(other, "token", partnerEmail, partnerID) +
				`, and not as "tenant@example.com", request id req-1` + "\n  set cloudSigma.api, which is " + cloud.URL + "/other/{region}/, to the URL at which the token " +
				"acts as its user: https://direct.{region}.cloudsigma.com/api/2.0/ (the default), or a proxy of it\n",
			wantCode: cli.ExitWrong,
		},
		"a user that may not be impersonated": {
			args: append(impersonating, "stranger@example.com", atDirect),
			wantOut: "user \"stranger@example.com\", region \"next\": WRONG\n  UserNotImpersonable: the identity provider does not permit warrantgate to impersonate " +
				"this user; allow it there, or correct the user of the cluster (exchange request: the answer was 403 access_denied)\n",
			wantCode: cli.ExitWrong,
		},
		"an API that fails": {
			args: append(impersonating, tenantEmail, atDirect, "--region=down"),
			wantOut: "user \"tenant@example.com\", region \"down\": UNKNOWN\n  CloudUnavailable: the cloud is unavailable or its response is invalid; try again " +
				"(profile request: the answer was 502 unspecified)\n",
			wantCode: cli.ExitUnknown,
		},
		"a region that is none": {
			args:     append(impersonating, tenantEmail, atDirect, "--region=@evil"),
			wantOut:  "user \"tenant@example.com\", region \"@evil\": UNKNOWN\n  RegionNotAllowed: \"@evil\" is not a valid region: it must consist of 1 to 63 lower-case letters, digits and dashes, such as \"zrh\"\n",
			wantCode: cli.ExitUnknown,
		},
		"legacy credentials, of a cluster": {
			args: []string{"team/metal", atDirect, "--kubeconfig=" + kubeconfig}, env: legacy,
			wantOut: "cluster \"team/metal\", the shared account (legacy credentials), region \"next\": ok\n  " + as(other, password, sharedEmail, sharedID) +
				", request id req-1\n",
		},
		"legacy credentials, of a user": {
			args: []string{tenantEmail, atDirect}, env: legacy,
			wantOut: "user \"tenant@example.com\", region \"next\": WRONG\n  WrongUser: " + as(other, password, sharedEmail, sharedID) +
				", and not as \"tenant@example.com\", request id req-1\n" +
				"  legacy credentials are used for every user; to act as this one, give --impersonation-enabled and its credentials\n",
			wantCode: cli.ExitWrong,
		},
		"both, of a cluster without a user": {
			args: append(impersonating, "team/nobody", atDirect, "--kubeconfig="+kubeconfig), env: legacy,
			wantOut: "cluster \"team/nobody\", the shared account (legacy credentials), region \"next\": ok\n  " + as(other, password, sharedEmail, sharedID) +
				", request id req-1\n",
		},
		"both, of a cluster with a user": {
			args: append(impersonating, "team/metal", atDirect, "--kubeconfig="+kubeconfig), env: legacy,
			wantOut: "cluster \"team/metal\", user \"tenant@example.com\", region \"next\": ok\n  " + as(direct, "token", tenantEmail, tenantID) +
				", request id req-1\n",
		},
		"a cluster without a user": {
			args:     append(impersonating, "team/nobody", atDirect, "--kubeconfig="+kubeconfig),
			wantCode: cli.ExitUnknown, wantMessage: `CloudSigmaCluster "metal": it names no user`,
		},
		"a cluster that does not exist": {
			args:     append(impersonating, "team/gone", atDirect, "--kubeconfig="+kubeconfig),
			wantCode: cli.ExitUnknown, wantMessage: `there is no CloudSigmaCluster "gone" in namespace "team"`,
		},
		"a name without a namespace": {
			args:     append(impersonating, "metal", atDirect, "--kubeconfig="+kubeconfig),
			wantCode: cli.ExitUnknown, wantMessage: `"metal" is neither the NAMESPACE/NAME of a CloudSigmaCluster nor an email address`,
		},
		"a region for a cluster": {
			args:     append(impersonating, "team/metal", atDirect, "--region=zrh", "--kubeconfig="+kubeconfig),
			wantCode: cli.ExitUnknown, wantMessage: "--region is the region for an email address",
		},
		"no credentials": {
			args:     []string{tenantEmail, atDirect},
			wantCode: cli.ExitUnknown, wantMessage: "there is no access to CloudSigma: give --impersonation-enabled",
		},
		"a Secret without an API server": {
			args:     []string{tenantEmail, atDirect, "--impersonation-enabled", "--impersonation-secret=a/b"},
			wantCode: cli.ExitUnknown, wantMessage: "--impersonation-secret is a Secret of the API server of --kubeconfig, which was not given",
		},
		"no regions": {
			args:     append(impersonating, tenantEmail),
			wantCode: cli.ExitUnknown, wantMessage: "cloudSigma.regions: Required value",
		},
		"an unknown format": {
			args:     append(impersonating, tenantEmail, "-o", "table"),
			wantCode: cli.ExitUnknown, wantMessage: `--output: "table" must be one of text, json, yaml`,
		},
		"no target": {args: impersonating, wantCode: cli.ExitUnknown, wantMessage: "accepts 1 arg(s), received 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "/nonexistent")
			for variable, value := range tc.env {
				t.Setenv(variable, value)
			}
			out, notes, err := clitest.Run(t, []*cobra.Command{NewCheckCommand()}, append([]string{"check", "cloudsigma"}, tc.args...)...)
			code, message := cli.ExitCode(err)
			if err == nil {
				code = 0
			}
			if diff := cmp.Diff(tc.wantOut, out); diff != "" || code != tc.wantCode {
				t.Errorf("exit code %d, want %d; error %v; output (-want +got):\n%s", code, tc.wantCode, message, diff)
			}
			if text := fmt.Sprint(message); tc.wantMessage != "" && !strings.Contains(text, tc.wantMessage) || tc.wantMessage == "" && message != nil {
				t.Errorf("error = %v, want %q", message, tc.wantMessage)
			}
			if all := out + notes + fmt.Sprint(message); strings.Contains(all, "canary") {
				t.Errorf("a secret is in %q", all)
			}
		})
	}
	t.Run("formats for programs", func(t *testing.T) {
		want := map[string]any{
			"cluster": "team/metal", "user": tenantEmail, "region": "next", "credentials": "impersonation", "api": other,
			"profile": map[string]any{"uuid": partnerID, "email": partnerEmail}, "requestID": "req-1", "result": "wrong", "reason": "WrongUser",
			"message": as(other, "token", partnerEmail, partnerID) + `, and not as "tenant@example.com"`,
			"advice": "set cloudSigma.api, which is " + cloud.URL + "/other/{region}/, to the URL at which the token acts as its user: " +
				"https://direct.{region}.cloudsigma.com/api/2.0/ (the default), or a proxy of it",
		}
		for _, format := range []string{"json", "yaml"} {
			out, _, err := clitest.Run(t, []*cobra.Command{NewCheckCommand()}, append([]string{
				"check", "cloudsigma", "team/metal", atOther, "--kubeconfig=" + kubeconfig, "-o", format,
			}, impersonating...)...)
			if code, message := cli.ExitCode(err); code != cli.ExitWrong || message != nil {
				t.Errorf("exit code %d, error %v, want %d", code, message, cli.ExitWrong)
			}
			var got map[string]any
			if err := yaml.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", format, diff)
			}
		}
	})
}
