package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

func TestCompletion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/clusters/root:orgs/apis/tenancy.kcp.io/v1alpha1/workspaces" {
			_, _ = w.Write([]byte(`{"kind":"WorkspaceList","apiVersion":"tenancy.kcp.io/v1alpha1","items":[{"metadata":{"name":"team-a"}},{"metadata":{"name":"other"}}]}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	kubeconfig := "--kubeconfig=" + clitest.WriteKubeconfig(t, map[string]string{"home": server.URL})
	for name, tc := range map[string]struct {
		words []string
		want  string
	}{
		"formats":                       {[]string{"explain", "workspace", "-o", ""}, "text\njson\nyaml\nobjects\n:4\n"},
		"formats that a command has":    {[]string{"repair", "--output", ""}, "table\njson\n:4\n"},
		"what rewrites owners":          {[]string{"install", "kcp", "--rewrite", ""}, "Auto\nPolicy\nWebhook\n:4\n"},
		"workspaces":                    {[]string{"explain", "workspace", kubeconfig, "root:orgs:te"}, "root:orgs:team-a\n:6\n"},
		"workspaces of a flag":          {[]string{"repair", kubeconfig, "--under", "root:orgs:"}, "root:orgs:team-a\nroot:orgs:other\n:6\n"},
		"workspaces that are forbidden": {[]string{"check", "events", kubeconfig, "ro"}, ":6\n"},
		"workspaces of no kubeconfig":   {[]string{"check", "events", "--kubeconfig=/nonexistent", ""}, ":6\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := program(t, tc.words...)
			cmd.Args[0] = "kubectl_complete-warrantgate"
			out, err := cmd.Output()
			if diff := cmp.Diff(tc.want, string(out)); err != nil || diff != "" {
				t.Errorf("error = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
