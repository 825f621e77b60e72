package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/internal/kcp"
)

func TestLoadKubeconfig(t *testing.T) {
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": "https://home.example.com", "other": "https://other.example.com"})
	environment := clitest.WriteKubeconfig(t, map[string]string{"home": "https://environment.example.com"})
	t.Setenv("KUBECONFIG", environment)
	for name, tc := range map[string]struct {
		path, context string
		wantHost      string
		wantErr       string
	}{
		"the current context":          {path: kubeconfig, wantHost: "https://home.example.com"},
		"another context":              {path: kubeconfig, context: "other", wantHost: "https://other.example.com"},
		"the one of the environment":   {wantHost: "https://environment.example.com"},
		"a context that is not there":  {path: kubeconfig, context: "none", wantErr: `context "none" does not exist`},
		"a file that does not exist":   {path: "/nonexistent", wantErr: `read kubeconfig "/nonexistent": `},
		"a file that is no kubeconfig": {path: clitest.WriteFile(t, "kubeconfig", "a: ["), wantErr: "read kubeconfig "},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := cli.LoadKubeconfig(tc.path, tc.context)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("LoadKubeconfig() error = %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || config.Host != tc.wantHost || config.UserAgent != "warrantgate/dev" {
				t.Errorf("LoadKubeconfig() = %+v, %v, want the host %s", config, err, tc.wantHost)
			}
		})
	}
}

func TestLoadNamespace(t *testing.T) {
	kubeconfig := clitest.WriteFile(t, "kubeconfig", `{kind: Config, apiVersion: v1, current-context: home, clusters: [{name: c, cluster: {server: "https://a"}}],
		contexts: [{name: home, context: {cluster: c}}, {name: other, context: {cluster: c, namespace: tenant}}]}`)
	for context, want := range map[string]string{"": "default", "home": "default", "other": "tenant"} {
		if got, err := cli.LoadNamespace(kubeconfig, context); err != nil || got != want {
			t.Errorf("LoadNamespace() of context %q = %q, %v, want %q", context, got, err, want)
		}
	}
	if got, err := cli.LoadNamespace("/nonexistent", ""); err == nil || !strings.Contains(err.Error(), `read kubeconfig "/nonexistent": `) {
		t.Errorf("LoadNamespace() = %q, %v", got, err)
	}
}

func TestOwnerWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		want    string
		wantErr bool
	}{
		"a kcp in which the owner can be changed": {version: `{"gitVersion":"v1.34.0+kcp-v0.30.0"}`, want: kcp.OwnerWarning},
		"a newer kcp":                   {version: `{"gitVersion":"v1.36.0+kcp-v0.32.3"}`},
		"a version that cannot be read": {version: "<html>", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tc.version)) }))
			defer server.Close()
			got, err := cli.OwnerWarning(&rest.Config{Host: server.URL})
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("OwnerWarning() = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
