package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/preflight"
)

// hanging is a report with something in all of its parts.
var hanging = preflight.Report{
	Workspace: preflight.Workspace{
		Path: "root:orgs:team-a", Cluster: "m82w61j76ws21znq", Phase: "Initializing", Type: "root:universal", CreatedBy: "1dz6n4ubraua7pul:default:bot",
		RewrittenBy: "policy",
	},
	Owner: &preflight.Owner{
		Description: "service account default/bot of root:orgs", InScope: true,
		Places: []preflight.Place{
			{Cluster: "m82w61j76ws21znq", Workspace: "root:orgs:team-a", As: []identity.Owner{
				{Username: "system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot", Groups: []string{"system:authenticated"}},
			}},
			{Cluster: "1dz6n4ubraua7pul", Home: true, As: []identity.Owner{
				{Username: "system:serviceaccount:default:bot", Groups: []string{"system:serviceaccounts", "system:authenticated"}}, {},
			}},
		},
	},
	Types: []preflight.Type{{Name: "root:universal", Use: preflight.No}},
	Initializers: []preflight.Initializer{
		{Name: "root:universal", Of: "whoever provides the WorkspaceType root:universal"},
		{Name: "system:apibindings", Waiting: true, Of: "kcp, which makes the default API bindings as the owner"},
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

func TestExplanationForPeople(t *testing.T) {
	const want = `Workspace:        root:orgs:team-a
Phase:            Initializing
Logical cluster:  m82w61j76ws21znq
Type:             root:universal
Created by:       1dz6n4ubraua7pul:default:bot
Rewritten by:     the admission policy warrantgate-owner-rewrite

Owner: service account default/bot of root:orgs, in scope in the workspace
  in the workspace kcp counts it as
    system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot, in system:authenticated
  at home in 1dz6n4ubraua7pul kcp counts it as
    system:serviceaccount:default:bot, in system:serviceaccounts, system:authenticated
    nobody, in no group

Initializers:
  root:universal      done     by whoever provides the WorkspaceType root:universal
  system:apibindings  waiting  by kcp, which makes the default API bindings as the owner

Default API bindings:
  root:tenancy.kcp.io   yes  bound
  root:topology.kcp.io  no   the owner lacks "bind"

Something is wrong with it:

  BindPermissionMissing
    it lacks "bind"
    What to do: apply the objects below

---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: warrantgate:bind:topology.kcp.io
rules: null

  UsePermissionMissing (only to know)
    it lacks "use"
`
	var out bytes.Buffer
	if err := printExplanation(&out, hanging); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLastWordOfAnExplanation(t *testing.T) {
	for name, tc := range map[string]struct {
		findings []preflight.Finding
		want     string
	}{
		"nothing found":     {want: "Nothing is wrong with it.\n"},
		"only advice found": {findings: hanging.Findings[:1], want: "Nothing is wrong with it.\n\n  UsePermissionMissing (only to know)\n    it lacks \"use\"\n"},
		"nothing told": {
			findings: []preflight.Finding{{Reason: preflight.CouldNotTell, Message: "you lack \"get\""}},
			want:     "Whether something is wrong with it could not be told:\n\n  CouldNotTell\n    you lack \"get\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printExplanation(&out, preflight.Report{Findings: tc.findings}); err != nil {
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(out.String(), "unknown\n\n") // after the head of a workspace of which nothing is known
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	plain := errors.New("no such file")
	for name, tc := range map[string]struct {
		err         error
		want        int
		wantMessage error
	}{
		"any error of any command":   {err: plain, want: 1, wantMessage: plain},
		"a verdict":                  {err: exitError{code: exitWrong}, want: 1},
		"an error without a verdict": {err: unknownIfError(plain), want: 2, wantMessage: plain},
		"a wrapped one":              {err: fmt.Errorf("explain: %w", exitError{code: exitUnknown}), want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			code, message := exitCode(tc.err)
			if code != tc.want || !errors.Is(message, tc.wantMessage) {
				t.Errorf("exitCode() = %d, %v, want %d, %v", code, message, tc.want, tc.wantMessage)
			}
		})
	}
	if err := unknownIfError(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestExplainEndsWith2WhereNothingIsKnown(t *testing.T) {
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
		"no path":             {want: "warrantgate: accepts 1 arg(s), received 0\n"},
		"a flag that is none": {args: []string{"root:a", "--foo"}, want: "warrantgate: unknown flag: --foo\n"},
		"a form that is none": {args: []string{"root:a", "-o", "xml"}, want: "warrantgate: --output: \"xml\" must be text, json or yaml\n"},
		"a path that is none": {args: []string{"root/a"}, want: "warrantgate: \"root/a\" is not the path of a workspace, such as root:orgs:team-a\n"},
		"a kcp that is not up": {
			args: []string{"root:a", "--kubeconfig=" + kubeconfig},
			want: "warrantgate: root:a could not be read: the server is currently unable to handle the request (get workspaces.tenancy.kcp.io a); " +
				"the server is currently unable to handle the request (get logicalclusters.core.kcp.io cluster)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := program(t, append([]string{"explain", "workspace"}, tc.args...)...)
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != exitUnknown {
				t.Errorf("exit code = %d (%v), want %d", code, err, exitUnknown)
			}
			if diff := cmp.Diff(tc.want, errOut.String()); diff != "" || out.Len() > 0 {
				t.Errorf("standard output = %q, standard error (-want +got):\n%s", out.String(), diff)
			}
		})
	}
}

func TestHelpNamesTheProgramAsItWasCalled(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/local/bin/warrantgate":         "warrantgate explain workspace",
		"/usr/local/bin/kubectl-warrantgate": "kubectl warrantgate explain workspace",
		"kubectl-warrantgate":                "kubectl warrantgate explain workspace",
		"my-gate":                            "warrantgate explain workspace",
	} {
		t.Run(program, func(t *testing.T) {
			var out bytes.Buffer
			root := newCommand(&out, &out)
			asKubectlPlugin(root, program)
			root.SetArgs([]string{"explain", "workspace", "--help"})
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{"\n  " + want + " PATH [flags]\n", "\n  " + want + " root:orgs:team-a -o json\n"} {
				if !strings.Contains(out.String(), line) {
					t.Errorf("help does not have %q:\n%s", line, out.String())
				}
			}
		})
	}
}
