package workspaces

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/preflight"
)

// stuckReport is a report of a stuck workspace with a value in all of its parts.
var stuckReport = preflight.Report{
	Workspace: preflight.Workspace{
		Path: "root:orgs:team-a", Cluster: "m82w61j76ws21znq", Phase: "Initializing", Type: "root:universal", CreatedBy: "1dz6n4ubraua7pul:default:bot",
		RewrittenBy: "policy",
	},
	Owner: &preflight.Owner{
		Description: "service account default/bot of root:orgs", InScope: true, Recorded: identity.ServiceAccountAt("1dz6n4ubraua7pul", "default", "bot"),
		Places: []preflight.Place{
			{Cluster: "m82w61j76ws21znq", Workspace: "root:orgs:team-a", As: []identity.Owner{
				{Username: "system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot", Groups: []string{"system:authenticated"}},
				{Username: "system:anonymous", Groups: []string{"system:authenticated"}},
				{Username: "system:anonymous", Groups: []string{"system:authenticated", "system:cluster:1dz6n4ubraua7pul"}},
			}},
			{Cluster: "1dz6n4ubraua7pul", Home: true, As: []identity.Owner{
				{Username: "system:serviceaccount:default:bot", Groups: []string{"system:serviceaccounts", "system:authenticated"}}, {},
			}},
		},
	},
	Types: []preflight.Type{{Name: "root:universal", Use: preflight.No}},
	Initializers: []preflight.Initializer{
		{Name: "root:universal", Of: "the provider of the WorkspaceType root:universal"},
		{Name: "system:apibindings", Waiting: true, Of: "kcp, which creates the default API bindings as the owner"},
	},
	Bindings: []preflight.Binding{
		{Export: "root:tenancy.kcp.io", Type: "root:universal", Answer: preflight.Yes, Why: "bound"},
		{Export: "root:topology.kcp.io", Type: "root:universal", Answer: preflight.No, Why: `the owner lacks "bind"`},
	},
	Findings: []preflight.Finding{
		{Reason: preflight.UsePermissionMissing, Message: "it lacks \"use\"", Advisory: true},
		{
			Reason: preflight.BindPermissionMissing, Message: "it lacks \"bind\"", Next: "apply the objects below",
			Grant: &preflight.Grant{Workspace: "root", Objects: []client.Object{&rbacv1.ClusterRole{
				TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
				ObjectMeta: metav1.ObjectMeta{Name: "warrantgate:bind:topology.kcp.io"},
			}}},
		},
	},
}

func TestExplanationAsText(t *testing.T) {
	const want = `Workspace:        root:orgs:team-a
Phase:            Initializing
Logical cluster:  m82w61j76ws21znq
Type:             root:universal
Created by:       service account default/bot of root:orgs
Rewritten by:     the admission policy warrantgate-owner-rewrite

Owner: service account default/bot of root:orgs, in scope in the workspace
  in the workspace kcp treats it as
    system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot
    anonymous: no extra permissions
    system:anonymous, in system:cluster:1dz6n4ubraua7pul
  in its home workspace 1dz6n4ubraua7pul kcp treats it as
    system:serviceaccount:default:bot, in system:serviceaccounts
    nobody

Initializers:
  root:universal      done     by the provider of the WorkspaceType root:universal
  system:apibindings  waiting  by kcp, which creates the default API bindings as the owner

Default API bindings:
  root:tenancy.kcp.io   yes  bound
  root:topology.kcp.io  no   the owner lacks "bind"

Something is wrong with it:

  BindPermissionMissing
    it lacks "bind"
    What to do: apply the objects below
    For kubectl apply: -o objects prints only the objects.

---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: warrantgate:bind:topology.kcp.io
rules: null

  UsePermissionMissing (for information)
    it lacks "use"
`
	var out bytes.Buffer
	if err := printExplanation(&out, stuckReport); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The output is for "kubectl apply -f -".
func TestObjectsOfAnExplanation(t *testing.T) {
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": "https://kcp.example.com/clusters/root:org"})
	for name, tc := range map[string]struct {
		findings           []preflight.Finding
		wantOut, wantNotes string
	}{
		"something is missing": {
			findings: stuckReport.Findings,
			wantOut: "---\n# in workspace root\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n" +
				"  name: warrantgate:bind:topology.kcp.io\nrules: null\n",
			wantNotes: "Apply the objects of workspace root with: kubectl --kubeconfig=" + kubeconfig +
				" --server=https://kcp.example.com/clusters/root apply --filename=-\n",
		},
		"nothing is missing": {findings: stuckReport.Findings[:1], wantNotes: "No objects to apply: nothing is wrong\n"},
		"something else is wrong": {
			findings: []preflight.Finding{
				{Reason: preflight.OwnerForeign, Message: "it is foreign", Next: "run `warrantgate repair`"}, {Reason: preflight.NotReady, Message: "it is not\n"},
			},
			wantNotes: "No objects to apply: OwnerForeign: run `warrantgate repair`\nNo objects to apply: NotReady: it is not\\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, notes bytes.Buffer
			if err := cli.PrintObjects(&out, &notes, tc.findings, explainOptions{Connection: cli.NewConnection(kubeconfig, "")}.apply); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.wantOut, tc.wantNotes}, []string{out.String(), notes.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant writes conditions and annotations of a LogicalCluster, and an identity provider of its own names its users.
func TestExplanationEscapesTextsOfTenants(t *testing.T) {
	const hostile = "x\x1b[2J\r\n---\napiVersion: v1\ty\u202ez\u009b2J\u200b"
	owner := []identity.Owner{{Username: hostile, Groups: []string{hostile}}}
	report := preflight.Report{
		Workspace: preflight.Workspace{Path: hostile, Cluster: hostile, Phase: hostile, Type: hostile, CreatedBy: hostile, Mount: hostile},
		Owner: &preflight.Owner{
			Description: hostile, Places: []preflight.Place{{Workspace: hostile, Home: true, As: owner}, {Cluster: hostile, Home: true, As: owner}},
		},
		Initializers: []preflight.Initializer{{Name: hostile, Of: hostile}},
		Bindings:     []preflight.Binding{{Export: hostile, Why: hostile}},
		Findings: []preflight.Finding{{Message: hostile, Next: hostile, Grant: &preflight.Grant{Objects: []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: hostile}},
		}}}},
	}
	for format, separators := range map[string]int{"text": 1, "json": 0, "yaml": 0} {
		var out bytes.Buffer
		if err := cli.PrintReport(&out, format, report, func(out io.Writer) error { return printExplanation(out, report) }); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if text := out.String(); strings.ContainsAny(text, "\x1b\r\t\u202e\u009b\u200b") || strings.Count(text, "\n---\n") != separators ||
			strings.Contains(text, "\napiVersion") {
			t.Errorf("%s output = %q, want all texts escaped", format, text)
		}
	}
}

func TestConclusionOfAnExplanation(t *testing.T) {
	for name, tc := range map[string]struct {
		findings []preflight.Finding
		want     string
	}{
		"nothing found":     {want: "Nothing is wrong with it.\n"},
		"only advice found": {findings: stuckReport.Findings[:1], want: "Nothing is wrong with it.\n\n  UsePermissionMissing (for information)\n    it lacks \"use\"\n"},
		"nothing known": {
			findings: []preflight.Finding{{Reason: preflight.Undetermined, Message: "you lack \"get\""}},
			want:     "Whether something is wrong with it could not be determined:\n\n  Undetermined\n    you lack \"get\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printExplanation(&out, preflight.Report{Findings: tc.findings}); err != nil {
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(out.String(), "unknown\n\n") // after the head of a workspace about which nothing is known
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplanationOfACreation(t *testing.T) {
	const head = "Workspace:        root:orgs:team-a\nPhase:            none, as this is about its creation\nLogical cluster:  none yet\n" +
		"Type:             root:org\nCreated by:       alice\n\n"
	workspace := preflight.Workspace{Path: "root:orgs:team-a", Type: "root:org", CreatedBy: "alice", NotCreated: true}
	for name, tc := range map[string]struct {
		findings []preflight.Finding
		want     string
	}{
		"nothing is missing": {want: "The creator lacks no permission for it.\n"},
		"something is missing": {
			findings: []preflight.Finding{{Reason: preflight.UsePermissionMissing, Message: "it lacks \"use\"", Next: "grant it"}},
			want:     "Something is missing to create it:\n\n  UsePermissionMissing\n    it lacks \"use\"\n    What to do: grant it\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printExplanation(&out, preflight.Report{Workspace: workspace, Findings: tc.findings}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(head+tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForeignCreator(t *testing.T) {
	for name, tc := range map[string]struct {
		registered  bool
		err         error
		wantReasons []preflight.Reason
		want        preflight.Answer
	}{
		"warrantgate is registered":     {registered: true, want: preflight.Yes},
		"warrantgate is not registered": {wantReasons: []preflight.Reason{preflight.OwnerForeign}, want: preflight.No},
		"that may not be read":          {err: errors.New("you may not"), wantReasons: []preflight.Reason{preflight.Undetermined}, want: preflight.Unknown},
	} {
		got := foreignCreator("service account default/bot of root:orgs", tc.registered, tc.err)
		var reasons []preflight.Reason
		for _, finding := range got {
			reasons = append(reasons, finding.Reason)
		}
		if diff := cmp.Diff(tc.wantReasons, reasons); diff != "" || preflight.Verdict(got) != tc.want {
			t.Errorf("%s: verdict %s, want %s; reasons (-want +got):\n%s", name, preflight.Verdict(got), tc.want, diff)
		}
	}
}

func TestExplainExitsWith2IfNothingIsKnown(t *testing.T) {
	kcp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer kcp.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: " + kcp.URL + "}}]\n" +
		"contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no path":           {want: "accepts 1 arg(s), received 0"},
		"an unknown flag":   {args: []string{"root:a", "--foo"}, want: "unknown flag: --foo"},
		"an unknown format": {args: []string{"root:a", "-o", "xml"}, want: "--output: \"xml\" must be one of text, json, yaml, or objects"},
		"an invalid path":   {args: []string{"root/a"}, want: "\"root/a\" is not the path of a workspace, such as root:orgs:team-a"},
		"a creation to watch": {
			args: []string{"root:a", "--creator=alice", "--watch"},
			want: "--watch is about a workspace that exists, and --creator about one that does not",
		},
		"a relative path": {
			args: []string{"team-a", "--kubeconfig=" + kubeconfig},
			want: "team-a could not be read: the server is currently unable to handle the request (get logicalclusters.core.kcp.io cluster); " +
				`if "team-a" is relative to a workspace, give the full path, such as root:orgs:team-a`,
		},
		"a type without a creator": {
			args: []string{"root:a", "--type=root:org"}, want: "--type and --creator-group are about a creation: name its creator with --creator",
		},
		"a kcp that does not run": {
			args: []string{"root:a", "--kubeconfig=" + kubeconfig},
			want: "root:a could not be read: the server is currently unable to handle the request (get workspaces.tenancy.kcp.io a); " +
				"the server is currently unable to handle the request (get logicalclusters.core.kcp.io cluster)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := clitest.Run(t, []*cobra.Command{NewExplainCommand()}, append([]string{"explain", "workspace"}, tc.args...)...)
			code, message := cli.ExitCode(err)
			if code != cli.ExitUnknown {
				t.Errorf("exit code = %d (%v), want %d", code, err, cli.ExitUnknown)
			}
			if diff := cmp.Diff(tc.want, fmt.Sprint(message)); diff != "" || out != "" || errOut != "" {
				t.Errorf("output = %q, %q, message (-want +got):\n%s", out, errOut, diff)
			}
		})
	}
}
