package workspaces

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/identity"
)

func TestRepairMistakes(t *testing.T) {
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": "http://127.0.0.1:1"})
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown format":                {args: []string{"-o", "yaml"}, want: `--output: "yaml" is neither table nor json`},
		"a rate of zero":                   {args: []string{"--rate=0"}, want: "--rate: 0 is less than 1"},
		"a path as an argument":            {args: []string{"root:orgs"}, want: `unknown command "root:orgs"`},
		"a configuration that is missing":  {args: []string{"--config=/nonexistent"}, want: "/nonexistent"},
		"a kubeconfig that does not exist": {args: []string{"--kubeconfig=/nonexistent"}, want: `read kubeconfig "/nonexistent"`},
		"a kubeconfig for writing that does not exist": {
			args: []string{"--kubeconfig=" + kubeconfig, "--logical-cluster-kubeconfig=/nonexistent"}, want: `read kubeconfig "/nonexistent"`,
		},
		"a path that is none": {args: []string{"--under=root/a"}, want: `--under: "root/a" is not the path of a workspace, such as root:orgs`},
		"a path in a kcp that does not run": {
			args: []string{"--kubeconfig=" + kubeconfig, "--under=root:a"}, want: "root:a could not be read: ",
		},
		"a kcp that does not run": {
			args: []string{"--kubeconfig=" + kubeconfig}, want: "find the shards (APIExportEndpointSlice tenancy.kcp.io in root)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := clitest.Run(t, []*cobra.Command{NewRepairCommand()}, append([]string{"repair"}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRepairReportsYoungWorkspaces(t *testing.T) {
	server := httptest.NewServer(nil)
	defer server.Close()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"kind": "WorkspaceList", "apiVersion": "tenancy.kcp.io/v1alpha1", "items": []}`
		switch {
		case strings.HasSuffix(r.URL.Path, "/apiexportendpointslices/tenancy.kcp.io"):
			answer = `{"kind": "APIExportEndpointSlice", "apiVersion": "apis.kcp.io/v1alpha1", "status": {"endpoints": [{"url": "` + server.URL + `/a"}]}}`
		case strings.Contains(r.URL.RawQuery, "Initializing"):
			answer = strings.Replace(answer, "[]", `[{"metadata": {"name": "child", "creationTimestamp": "`+time.Now().UTC().Format(time.RFC3339)+`"}, "spec": {"cluster": "x"}}]`, 1)
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, answer); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": server.URL})
	_, notes, err := clitest.Run(t, []*cobra.Command{NewRepairCommand()}, "repair", "--kubeconfig="+kubeconfig)
	want := "1 workspaces have been Initializing for less than 1m0s, and were not checked: run this command again in 1m0s, or with --after=0s\n"
	if err != nil || notes != want {
		t.Errorf("repair: %v, %q, want %q", err, notes, want)
	}
}

func TestUserWhoMayWriteOwners(t *testing.T) {
	const server, member = "http://127.0.0.1:1", "--logical-cluster-kubeconfig=FILE, of a member of the group system:kcp:external-logical-cluster-admin"
	ofStart := clitest.WriteKubeconfig(t, map[string]string{"home": server, "system:admin": server})
	for name, tc := range map[string]struct {
		options repairOptions
		want    string
	}{
		"in a kubeconfig of kcp start": {repairOptions{Connection: cli.NewConnection(ofStart, "")}, "--context=system:admin"},
		"in another one":               {repairOptions{Connection: cli.NewConnection(clitest.WriteKubeconfig(t, map[string]string{"home": server}), "")}, member},
		"not in that for writing": {
			repairOptions{Connection: cli.NewConnection(ofStart, ""), logicalClusterKubeconfig: ofStart}, member,
		},
	} {
		if got := tc.options.writer(); got != tc.want {
			t.Errorf("%s: writer() = %s, want %s", name, got, tc.want)
		}
	}
}

// Paths and messages contain texts of tenants.
func TestRepairOutput(t *testing.T) {
	results := []owner.Repaired{
		{Result: owner.Result{
			Cluster: "m82w61j76ws21znq", Path: "root:orgs:team-a", Phase: "Initializing", Outcome: owner.Foreign,
			Report: identity.Report{Reason: identity.ServiceAccountRewritten, Message: "the owner is \u202eforeign\x1b[2J\nnext"},
		}},
		{Result: owner.Result{Cluster: "2ckxs5l4w09g7c29", Path: "root:b", Phase: "Ready", Outcome: owner.Failed}, Err: errors.New("no quorum")},
	}
	for format, want := range map[string]string{
		"table": "WORKSPACE          PHASE          OUTCOME   MESSAGE\n" +
			`root:orgs:team-a   Initializing   foreign   the owner is \u202eforeign\x1b[2J\nnext` + "\n" +
			"root:b             Ready          failed    no quorum\n",
		"json": `{"path":"root:orgs:team-a","logicalCluster":"m82w61j76ws21znq","phase":"Initializing","outcome":"foreign",` +
			`"reason":"` + string(identity.ServiceAccountRewritten) + `","message":"the owner is \u202eforeign\u001b[2J\nnext"}` + "\n" +
			`{"path":"root:b","logicalCluster":"2ckxs5l4w09g7c29","phase":"Ready","outcome":"failed","message":"no quorum"}` + "\n",
	} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			lines, err := cli.NewLines(&out, format, "WORKSPACE", "PHASE", "OUTCOME", "MESSAGE")
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				add(lines, result)
			}
			if err := lines.Flush(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
