package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/internal/kcp"
)

func TestConnection(t *testing.T) {
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": "https://home.example.com", "other": "https://other.example.com"})
	environment := clitest.WriteKubeconfig(t, map[string]string{"home": "https://environment.example.com"})
	t.Setenv("KUBECONFIG", environment)
	for name, tc := range map[string]struct {
		args     []string
		wantHost string
		wantUser string
		wantErr  string
	}{
		"the current context":          {args: []string{"--kubeconfig=" + kubeconfig}, wantHost: "https://home.example.com"},
		"another context":              {args: []string{"--kubeconfig=" + kubeconfig, "--context=other"}, wantHost: "https://other.example.com"},
		"the one of the environment":   {wantHost: "https://environment.example.com"},
		"another server":               {args: []string{"--server=https://third.example.com"}, wantHost: "https://third.example.com"},
		"another user":                 {args: []string{"--as=alice", "--as-group=a"}, wantHost: "https://environment.example.com", wantUser: "alice"},
		"a context that is not there":  {args: []string{"--context=none"}, wantErr: `context "none" does not exist`},
		"a file that does not exist":   {args: []string{"--kubeconfig=/nonexistent"}, wantErr: `read kubeconfig "/nonexistent": `},
		"a file that is no kubeconfig": {args: []string{"--kubeconfig=" + clitest.WriteFile(t, "kubeconfig", "a: [")}, wantErr: "read kubeconfig "},
	} {
		t.Run(name, func(t *testing.T) {
			var connection cli.Connection
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			connection.AddFlags(flags, "kubeconfig")
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			config, err := connection.Config()
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("Config() error = %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || config.Host != tc.wantHost || config.Impersonate.UserName != tc.wantUser || config.UserAgent != "warrantgate/dev" {
				t.Errorf("Config() = %+v, %v, want the host %s", config, err, tc.wantHost)
			}
		})
	}
}

func TestNoKubeconfig(t *testing.T) {
	t.Chdir(t.TempDir())
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "a")
	want := `there is no kubeconfig, or an empty one, in the file "a" (variable KUBECONFIG, in the directory "` + directory + `"): correct it, or set --kubeconfig`
	_, err = cli.Connection{}.Config()
	_, namespaceErr := cli.Connection{}.Namespace()
	if got := []string{fmt.Sprint(err), fmt.Sprint(namespaceErr)}; !slices.Equal(got, []string{want, want}) {
		t.Errorf("errors = %q, want %s", got, want)
	}
}

func TestNamespace(t *testing.T) {
	kubeconfig := clitest.WriteFile(t, "kubeconfig", `{kind: Config, apiVersion: v1, current-context: home, clusters: [{name: c, cluster: {server: "https://a"}}],
		contexts: [{name: home, context: {cluster: c}}, {name: other, context: {cluster: c, namespace: tenant}}]}`)
	for context, want := range map[string]string{"": "default", "home": "default", "other": "tenant"} {
		if got, err := cli.NewConnection(kubeconfig, context).Namespace(); err != nil || got != want {
			t.Errorf("Namespace() of context %q = %q, %v, want %q", context, got, err, want)
		}
	}
	if got, err := cli.NewConnection("/nonexistent", "").Namespace(); err == nil || !strings.Contains(err.Error(), `read kubeconfig "/nonexistent": `) {
		t.Errorf("Namespace() = %q, %v", got, err)
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
