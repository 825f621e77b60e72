package charts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/charts/charttest"
)

// The notes say which gates are not active although they or their cloud are configured, and which providers the audit does not check.
func TestTheNotesNameInactiveGates(t *testing.T) {
	const (
		cloud = certificate + "cloudSigma: {enabled: true, secret: {name: cloudsigma-impersonation}}\n"
		onKCP = "kubernetes: {enabled: false}\nconfig: {cloudSigma: {regions: [zrh]}}\nkcp: {enabled: true, kubeconfigSecret: a, "

		policies = "The gate on Keystone policies is NOT ACTIVE, although config.keystonePolicy is set: "
		about    = "The gate on cloud controller managers is NOT ACTIVE, although cloudSigma.enabled is set: "
	)
	for name, tc := range map[string]struct{ values, want string }{
		"no selector": {
			values: cloud + "config: {cloudSigma: {regions: [zrh]}}\n",
			want: about + "config.controllerManager has neither a selector nor objects.\nSelect the Deployments, for example:\n\n" +
				"  --set=config.controllerManager.selector.matchLabels.app=cloudsigma-ccm\n",
		},
		"a selector, and the mode Off": {
			values: cloud + "config: {cloudSigma: {regions: [zrh]}, controllerManager: {mode: \"Off\", selector: {matchLabels: {app: ccm}}}}\n",
			want:   about + "config.controllerManager.mode is Off.\n",
		},
		"a selector": {values: cloud + "config: {cloudSigma: {regions: [zrh]}, controllerManager: {selector: {matchLabels: {app: ccm}}}}\n"},
		"names":      {values: cloud + "config: {cloudSigma: {regions: [zrh]}, controllerManager: {objects: [{namespace: tenant, name: ccm}]}}\n"},
		"a base of Keystone's policies, without the policies": {
			values: certificate + "config: {machine: {mode: Off}, audit: {mode: Off}, keystonePolicy: {base: [{namespace: keystone, name: live}]}}\n",
			want: policies + "it has neither a selector nor objects.\nSelect the ConfigMaps and Secrets that hold policies, for example:\n\n" +
				"  --set=config.keystonePolicy.selector.matchLabels.holds=keystone-policy\n",
		},
		"policies of Keystone, and the mode Off": {
			values: certificate + "config: {machine: {mode: Off}, audit: {mode: Off}, keystonePolicy: {mode: \"Off\", selector: {matchLabels: {a: b}}}}\n",
			want:   policies + "its mode is Off.\n",
		},
		"policies of Keystone":    {values: certificate + "config: {machine: {mode: Off}, audit: {mode: Off}, keystonePolicy: {selector: {matchLabels: {a: b}}}}\n"},
		"no policies of Keystone": {values: certificate + "config: {machine: {mode: Off}, audit: {mode: Off}, keystonePolicy: {mode: \"Off\"}}\n"},
		"a provider on kcp without a path": {
			values: cloud + onKCP + "install: {enabled: true, kubeconfigSecret: b, providers: [{kubeconfigSecret: capcs, context: a}]}}\n",
			want: "The audit does NOT CHECK the machines of the provider with the Secret capcs and the context a: set workspace and apiExport " +
				"of its entry in kcp.install.providers.\n",
		},
		"a provider on kcp": {
			values: cloud + onKCP + "install: {enabled: true, kubeconfigSecret: b, providers: [{kubeconfigSecret: capcs, workspace: \"root:a\", apiExport: b}]}}\n",
		},
		"no CloudSigma": {
			values: certificate + "config: {openStack: {authURLs: [\"https://keystone.example.com/v3\"]}}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			notes := notesOf(t, tc.values)
			if tc.want != "" && !strings.Contains(notes, "\n\n"+tc.want) {
				t.Errorf("notes:\n%s\nwant in them:\n%s", notes, tc.want)
			}
			if tc.want == "" && (strings.Contains(notes, "NOT ACTIVE") || strings.Contains(notes, "NOT CHECK")) {
				t.Errorf("notes:\n%s", notes)
			}
		})
	}
}

// The notes name a test of the access to CloudSigma, with the Secret that the chart uses.
func TestTheNotesCheckCloudSigma(t *testing.T) {
	const values = certificate + "cloudSigma: {enabled: true, secret: {namespace: capcs-system, name: impersonation}}\nconfig: {cloudSigma: {regions: [zrh]}}\n"
	const want = "  warrantgate check cloudsigma CLUSTER_NAMESPACE/CLUSTER_NAME --config=config.yaml --impersonation-enabled \\\n" +
		"    --impersonation-secret=capcs-system/impersonation\n"
	if notes := notesOf(t, values); !strings.Contains(notes, want) {
		t.Errorf("notes:\n%s\nwant in them:\n%s", notes, want)
	}
	if notes := notesOf(t, certificate+"config: {openStack: {authURLs: [\"https://keystone.example.com/v3\"]}}\n"); strings.Contains(notes, "check cloudsigma") {
		t.Errorf("notes without CloudSigma:\n%s", notes)
	}
}

// The chart may be a folder, an archive or in a registry, so the notes name no place of it.
func TestTheNotesOfIgnoreSayHowToSetFail(t *testing.T) {
	const policies = "config: {machine: {mode: Off}, audit: {mode: Off}, keystonePolicy: {selector: {matchLabels: {a: b}}}}\n"
	const want = "  helm test warrantgate --namespace=" + charttest.Namespace + "\n" +
		"  helm upgrade warrantgate CHART --namespace=" + charttest.Namespace + " --reuse-values --set=failurePolicy=Fail\n"
	if notes := notesOf(t, certificate+policies+"failurePolicy: Ignore\n"); !strings.Contains(notes, want) {
		t.Errorf("notes:\n%s\nwant in them:\n%s", notes, want)
	}
	if notes := notesOf(t, certificate+policies); strings.Contains(notes, "helm upgrade warrantgate ") {
		t.Errorf("notes with failurePolicy Fail:\n%s", notes)
	}
}

// TestTheNotesRegisterTheGatesOfKCP runs the commands that the notes print for an administrator of kcp, as a dry run.
func TestTheNotesRegisterTheGatesOfKCP(t *testing.T) {
	values := certificate + "kubernetes: {enabled: false}\nconfig: {workspace: {ownerRewrite: {mode: Warn}}}\n" +
		"kcp: {enabled: true, url: \"https://warrantgate.example.com\", user: alice, kubeconfigSecret: kcp}\n"
	_, after, found := strings.Cut(notesOf(t, values), "Register the gates of kcp as an administrator.")
	_, commands, _ := strings.Cut(after, "\n\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	if !found || !strings.Contains(commands, "--kubeconfig=admin.kubeconfig") || !strings.Contains(commands, "--shard-kubeconfig=admin.kubeconfig") {
		t.Fatalf("the notes do not name the kubeconfigs:\n%s", commands)
	}
	file, _ := find[corev1.ConfigMap](t, template(t, values).Objects, "ConfigMap")
	dir := t.TempDir()
	for name, content := range map[string]string{
		"tokens": charttest.Token, "ca": readFile(t, caFile(t)), "configuration": file.Data["config.yaml"],
		"kubectl": "#!/bin/sh\ncase \"$*\" in *tokens*) cat tokens;; *ca.crt*) cat ca;; *config.yaml*) cat configuration;; *) exit 1;; esac\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// A dry run reads no kubeconfig if it does not have to find out what rewrites the owners.
	command := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.TrimRight(commands, "\n")+" --dry-run --rewrite=Webhook")
	command.Dir = dir
	command.Env = append(os.Environ(), "PATH="+strings.Join([]string{dir, filepath.Dir(warrantgate), os.Getenv("PATH")}, string(os.PathListSeparator)))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v: %s", commands, err, out)
	}
	for _, want := range []string{
		"url: https://warrantgate.example.com/" + charttest.Token + "/workspace/owner-rewrite", "failurePolicy: Ignore", "name: alice",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands of the notes would not register %q:\n%s", want, out)
		}
	}
}

// printedNotes is a template of an object with the notes, which "helm template" does not print.
const printedNotes = `apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {notes: {{ include (print $.Template.BasePath "/NOTES.txt") . | quote }}}
`

// notesOf returns the notes that the chart prints after an installation with values.
func notesOf(t *testing.T, values string) string {
	t.Helper()
	chart, err := charttest.Chart()
	if err != nil {
		t.Fatal(err)
	}
	printing := t.TempDir()
	if err := os.CopyFS(printing, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(printing, "templates", "notes.yaml"), []byte(printedNotes), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := charttest.TemplateOf(t.Context(), printing, values, "--set=webhookPath.tokens={"+charttest.Token+"}", "--show-only=templates/notes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	notes, found := find[corev1.ConfigMap](t, rendered.Objects, "ConfigMap")
	if !found {
		t.Fatal("there are no notes")
	}
	return notes.Data["notes"]
}
