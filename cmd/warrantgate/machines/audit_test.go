package machines

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/ownership"
)

// TestTheTableIsForATerminal: instances and messages contain texts of tenants, which must not control the terminal or add rows.
func TestTheTableIsForATerminal(t *testing.T) {
	var out bytes.Buffer
	if err := printAudited(&out, "table", []audit.Finding{{
		Reason:   "ForeignMachine",
		Object:   corev1.ObjectReference{Kind: "OpenStackMachine", Namespace: "team-a", Name: "prod-0"},
		Instance: "\x1b[2J",
		Message:  "its server is of \u009b31mbob\nteam-b  OpenStackMachine/prod-1",
	}}); err != nil {
		t.Fatal(err)
	}
	want := "NAMESPACE   OBJECT                    REASON           INSTANCE   MESSAGE\n" +
		`team-a      OpenStackMachine/prod-0   ForeignMachine   \x1b[2J    its server is of \u009b31mbob\nteam-b  OpenStackMachine/prod-1` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAuditExitsWith2IfNothingWasChecked: a script must not take a mistake in the command line for an audit without findings.
func TestAuditExitsWith2IfNothingWasChecked(t *testing.T) {
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": "http://127.0.0.1:1"})
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown format":                {args: []string{"-o", "yaml"}, want: `--output: "yaml" must be one of table, json, html, markdown`},
		"a configuration that is missing":  {args: []string{"--config=/nonexistent"}, want: "/nonexistent"},
		"a rate below zero":                {args: []string{"--rate=-1"}, want: "--rate: -1 is less than 1"},
		"a kubeconfig that does not exist": {args: []string{"--kubeconfig=/nonexistent"}, want: `read kubeconfig "/nonexistent"`},
		"no cloud":                         {args: []string{"--kubeconfig=" + kubeconfig}, want: "there is no access to a cloud: give --impersonation-enabled"},
		"no regions of a cloud": {
			args: []string{"--kubeconfig=" + kubeconfig, "--impersonation-enabled"}, want: "cloudSigma.regions: Required value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := clitest.Run(t, []*cobra.Command{NewAuditCommand()}, append([]string{"audit"}, tc.args...)...)
			code, message := cli.ExitCode(err)
			if code != cli.ExitUnknown || !strings.Contains(fmt.Sprint(message), tc.want) || out != "" {
				t.Errorf("exit code = %d, message = %v, output = %q, want %d and %q", code, message, out, cli.ExitUnknown, tc.want)
			}
		})
	}
}

func TestAuditAsJSON(t *testing.T) {
	machine := corev1.ObjectReference{Kind: "OpenStackMachine", Namespace: "team-a", Name: "prod-0"}
	for name, tc := range map[string]struct {
		findings []audit.Finding
		want     string
	}{
		"nothing found": {},
		"on CloudSigma": {
			findings: []audit.Finding{{
				Reason: "ForeignMachine", Object: machine, Instance: "b1", Account: ownership.Account{User: "bob@example.com", Region: "zrh"}, Message: "a\u202eb",
			}},
			want: `{"kind":"OpenStackMachine","namespace":"team-a","name":"prod-0","reason":"ForeignMachine","instance":"b1","user":"bob@example.com",` +
				`"region":"zrh","message":"a\u202eb"}` + "\n",
		},
		"two with credentials": {
			findings: []audit.Finding{
				{Reason: "Orphan", Object: machine, Account: ownership.Account{Identity: ownership.Identity{Namespace: "team-a", Secret: "s", Entry: "e"}}, Message: "a"},
				{Reason: "Orphan", Object: machine, Message: "b"},
			},
			want: `{"kind":"OpenStackMachine","namespace":"team-a","name":"prod-0","reason":"Orphan","identity":"team-a/s/e","message":"a"}` + "\n" +
				`{"kind":"OpenStackMachine","namespace":"team-a","name":"prod-0","reason":"Orphan","message":"b"}` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printAudited(&out, "json", tc.findings); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
