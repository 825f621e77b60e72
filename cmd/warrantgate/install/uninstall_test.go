package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

// shardPath is the path of the virtual workspace of the initializer on one of two shards.
func shardPath(shard string) string {
	return "/services/initializingworkspaces/root:warranted/" + shard
}

// waitingAt returns the LogicalClusters that wait on a shard, given as "name=path" with the path that they claim.
func waitingAt(clusters ...string) corev1alpha1.LogicalClusterList {
	list := corev1alpha1.LogicalClusterList{
		TypeMeta: metav1.TypeMeta{Kind: "LogicalClusterList", APIVersion: corev1alpha1.SchemeGroupVersion.String()},
	}
	for _, cluster := range clusters {
		name, path, _ := strings.Cut(cluster, "=")
		list.Items = append(list.Items, corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{
			Name: corev1alpha1.LogicalClusterName,
			Annotations: map[string]string{
				logicalcluster.AnnotationKey: name, core.LogicalClusterPathAnnotationKey: path,
			},
		}})
	}
	return list
}

// holdWarranted makes kcp hold the WorkspaceType warranted, for whose initializer LogicalClusters on two shards wait. A shard without an entry
// denies access.
func (f *fakeKCP) holdWarranted(server string, labels map[string]any, waiting map[string]corev1alpha1.LogicalClusterList) {
	var endpoints []any
	f.waiting = map[string]corev1alpha1.LogicalClusterList{}
	for _, shard := range []string{"a", "b"} {
		endpoints = append(endpoints, map[string]any{"url": server + shardPath(shard)})
		if list, served := waiting[shard]; served {
			f.waiting[shardPath(shard)+"/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"] = list
		}
	}
	f.held[warrantedType] = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType",
		"metadata": map[string]any{"name": "warranted", "labels": labels},
		"status":   map[string]any{"virtualWorkspaces": endpoints},
	}}
}

// Without the WorkspaceType warranted, workspaces that wait for its initializer would never become Ready.
func TestUninstallWhileWorkspacesWait(t *testing.T) {
	const (
		keep = "nothing was changed, because workspaces wait for the initializer of the WorkspaceType warranted, %d in all, and would stay in " +
			"Initializing without it:\n%s\nKeep `warrantgate serve` running, with the repair on, until they are Ready (`warrantgate explain " +
			"workspace PATH` says what one lacks), or delete them. Then run this command again. With --ignore-waiting it does not wait for " +
			"them; to finish these workspaces later, run `warrantgate install kcp` and `warrantgate serve` again, with the repair on"
	)
	none := waitingAt()
	many := waitingAt("a=root:a", "b=root:b", "c=root:c", "d=root:d", "e=root:e", "f=root:f", "g=root:g")
	for name, tc := range map[string]struct {
		// waiting are the LogicalClusters on each shard. A shard without an entry denies access.
		waiting map[string]corev1alpha1.LogicalClusterList
		foreign bool
		args    []string
		want    string
		// wantOut is in the output of a dry run.
		wantOut string
	}{
		"none waits": {waiting: map[string]corev1alpha1.LogicalClusterList{"a": none, "b": none}},
		"one on each shard": {
			waiting: map[string]corev1alpha1.LogicalClusterList{"a": waitingAt("c1=root:orgs:one"), "b": waitingAt("c2=root:orgs:two")},
			want:    fmt.Sprintf(keep, 2, "  root:orgs:one (logical cluster c1)\n  root:orgs:two (logical cluster c2)"),
		},
		"one whose path is not one": {
			waiting: map[string]corev1alpha1.LogicalClusterList{"a": none, "b": waitingAt("c1=root; rm -rf .")},
			want:    fmt.Sprintf(keep, 1, "  logical cluster c1"),
		},
		"more than are listed": {
			waiting: map[string]corev1alpha1.LogicalClusterList{"a": many, "b": none},
			want: fmt.Sprintf(keep, 7, "  root:a (logical cluster a)\n  root:b (logical cluster b)\n  root:c (logical cluster c)\n"+
				"  root:d (logical cluster d)\n  root:e (logical cluster e)\n  and 2 more"),
		},
		"a shard does not answer": {
			waiting: map[string]corev1alpha1.LogicalClusterList{"a": none},
			want: "nothing was changed, because it could not be determined which workspaces wait for the initializer of the WorkspaceType " +
				"warranted: read the LogicalClusters at SERVER" + shardPath("b") + " (this needs the permission initialize on the WorkspaceType " +
				"warranted in root): access denied; run this command again, or with --ignore-waiting",
		},
		"none waits, on dry run": {
			waiting: map[string]corev1alpha1.LogicalClusterList{"a": none, "b": none}, args: []string{"--dry-run"},
			wantOut: `root: WorkspaceType "warranted" deleted (dry run)`,
		},
		"they are ignored": {
			waiting: map[string]corev1alpha1.LogicalClusterList{"a": many, "b": none}, args: []string{"--ignore-waiting"},
		},
		"the type is not warrantgate's, and is not removed": {foreign: true},
		"the kubeconfig of a shard does not exist": {
			waiting: map[string]corev1alpha1.LogicalClusterList{"a": none, "b": none}, args: []string{"--shard-kubeconfig=missing"},
			want: `read kubeconfig "missing": stat missing: no such file or directory`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, kubeconfig := startFakeKCP(t)
			config, err := cli.LoadKubeconfig(kubeconfig, "")
			if err != nil {
				t.Fatal(err)
			}
			server := strings.TrimSuffix(config.Host, "/clusters/root:home")
			labels := map[string]any{"app.kubernetes.io/managed-by": "warrantgate"}
			if tc.foreign {
				labels = map[string]any{}
			}
			api.holdWarranted(server, labels, tc.waiting)
			out, _, err := run(t, append([]string{"uninstall", "kcp", "--kubeconfig", kubeconfig}, tc.args...)...)
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), server, "SERVER")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if (out == "") != (tc.want != "") {
				t.Errorf("output: %s", out)
			}
			if !strings.Contains(out, tc.wantOut) {
				t.Errorf("output: %s, want %q", out, tc.wantOut)
			}
			if tc.want != "" || tc.foreign || tc.wantOut != "" {
				api.holds(t, warrantedType)
			} else {
				api.holds(t)
			}
		})
	}
}

// The kubeconfig of "kcp start" has a context for the shard.
func TestUninstallNamesTheCommandForTheShards(t *testing.T) {
	_, kubeconfig := startFakeKCP(t)
	config, err := cli.LoadKubeconfig(kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	server := strings.TrimSuffix(config.Host, "/clusters/root:home")
	admin := clitest.WriteKubeconfig(t, map[string]string{"home": config.Host, "system:admin": server + "/clusters/system:admin"})
	for server, roles := range map[string]string{"kcp": "warrantgate-events, warrantgate-explain", "provider": "warrantgate-machines"} {
		_, errOut, err := run(t, "uninstall", server, "--kubeconfig="+admin, "--context=home")
		if err != nil {
			t.Fatal(err)
		}
		before, command, _ := strings.Cut(errOut, "`warrantgate ")
		command, _, _ = strings.Cut(command, "`")
		want := "uninstall " + server + " --kubeconfig=" + admin + " --context=home --shard-kubeconfig=" + admin + " --shard-context=system:admin"
		if command != want || !strings.Contains(before, ": "+roles+", in") {
			t.Errorf("command %q in %q, want %q, for %s", command, errOut, want, roles)
		}
		if others := strings.Contains(before, "Other providers need them, too; "); others != (server == "provider") {
			t.Errorf("%q names other providers: %t", errOut, others)
		}
		if _, errOut, err := run(t, strings.Fields(command)...); err != nil || errOut != "" {
			t.Errorf("the printed command: %v, %q", err, errOut)
		}
	}
}

// Without their permissions on the shards, the gates cannot decide.
func TestUninstallRemovesTheGatesOfAProviderFirst(t *testing.T) {
	const role = "system:admin/apis/rbac.authorization.k8s.io/v1/clusterroles/warrantgate-machines"
	api, kubeconfig := startFakeKCP(t)
	api.hold(role, "rbac.authorization.k8s.io/v1", "ClusterRole", "warrantgate-machines")
	api.held[role].SetLabels(map[string]string{"app.kubernetes.io/managed-by": "warrantgate"})
	away := clitest.WriteKubeconfig(t, map[string]string{"home": "https://127.0.0.1:1/clusters/root:home"})
	if _, _, err := run(t, "uninstall", "provider", "--kubeconfig="+away, "--shard-kubeconfig="+kubeconfig); err == nil || !strings.HasPrefix(err.Error(), "provider: read ") {
		t.Errorf("error = %v", err)
	}
	api.holds(t, role)
	if _, _, err := run(t, "uninstall", "provider", "--kubeconfig="+kubeconfig, "--shard-kubeconfig="+kubeconfig); err != nil {
		t.Error(err)
	}
	api.holds(t)
}

// Without the repair, install removes the WorkspaceType warranted as uninstall does.
func TestInstallWithoutTheRepairWhileWorkspacesWait(t *testing.T) {
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	configFile := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(configFile, []byte(offConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		waiting corev1alpha1.LogicalClusterList
		args    []string
		// want is in the error.
		want string
		// kept is whether kcp holds only the WorkspaceType afterwards.
		kept bool
	}{
		"none waits":            {waiting: waitingAt()},
		"one waits":             {waiting: waitingAt("c1=root:orgs:one"), want: "without it:\n  root:orgs:one (logical cluster c1)\nKeep", kept: true},
		"one waits, on dry run": {waiting: waitingAt("c1=root:orgs:one"), args: []string{"--dry-run"}, kept: true},
		"it is ignored":         {waiting: waitingAt("c1=root:orgs:one"), args: []string{"--ignore-waiting"}},
	} {
		t.Run(name, func(t *testing.T) {
			api, kubeconfig := startFakeKCP(t)
			config, err := cli.LoadKubeconfig(kubeconfig, "")
			if err != nil {
				t.Fatal(err)
			}
			api.holdWarranted(strings.TrimSuffix(config.Host, "/clusters/root:home"), map[string]any{"app.kubernetes.io/managed-by": "warrantgate"},
				map[string]corev1alpha1.LogicalClusterList{"a": waitingAt(), "b": tc.waiting})
			_, _, err = run(t, append([]string{
				"install", "kcp", "--kubeconfig", kubeconfig, "--url", "https://warrantgate.example.com:9443", "--ca-file", caFile, "--config", configFile,
			}, tc.args...)...)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if tc.kept {
				api.holds(t, warrantedType)
			} else {
				api.holds(t, mutating, validating)
			}
		})
	}
}
