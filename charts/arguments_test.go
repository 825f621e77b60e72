package charts_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
)

// TestEveryArgumentIsAFlagOfTheProgram checks that no pod ends because of an unknown flag, and that each file in an argument is below a mounted
// directory.
func TestEveryArgumentIsAFlagOfTheProgram(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rendered := template(t, readFile(t, file))
			for _, object := range append(rendered.Objects, rendered.Hooks...) {
				raw, found, _ := unstructured.NestedMap(object.Object, "spec", "template", "spec")
				if !found {
					continue
				}
				var pod corev1.PodSpec
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &pod); err != nil {
					t.Fatal(err)
				}
				container := pod.Containers[0]
				if out, err := exec.CommandContext(t.Context(), warrantgate, append(container.Args, "--help")...).CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", object.GetName(), err, out)
				}
				mounted(t, pod, container)
			}
		})
	}
}

func mounted(t *testing.T, pod corev1.PodSpec, container corev1.Container) {
	t.Helper()
	folders, volumes := map[string]bool{}, map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
	}
	for _, mount := range container.VolumeMounts {
		folders[mount.MountPath] = true
		if !volumes[mount.Name] || !mount.ReadOnly {
			t.Errorf("mount %s is of no volume, or may be written", mount.Name)
		}
	}
	for _, arg := range container.Args {
		if _, path, isFile := strings.Cut(arg, "=/"); isFile && !folders[filepath.Dir("/"+path)] {
			t.Errorf("%s is not below %v", arg, folders)
		}
	}
}

// TestTheJobInstallsInKCP runs the command of the Job as a dry run.
func TestTheJobInstallsInKCP(t *testing.T) {
	values := certificate + "kubernetes: {enabled: false}\nconfig: {workspace: {ownerRewrite: {mode: Warn}}}\n" +
		"kcp: {enabled: true, user: alice, install: {enabled: true, kubeconfigSecret: admin, context: root, shardKubeconfigSecrets: [a, b]}}\n"
	out := dryRunInKCP(t, values)
	for _, want := range []string{
		"url: https://" + charttest.Release + "." + charttest.Namespace + ".svc:443/" + charttest.Token + "/workspace/owner-rewrite", "failurePolicy: Ignore", "name: alice",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the Job would not register %q:\n%s", want, out)
		}
	}
}

// TestTheJobRegistersWhatRewritesOwners runs the command of the Job as a dry run, which contacts no kcp if the value is not Auto.
func TestTheJobRegistersWhatRewritesOwners(t *testing.T) {
	for rewrite, want := range map[string]bool{"Policy": true, "Webhook": false} {
		values := certificate + "kubernetes: {enabled: false}\n" +
			"kcp: {enabled: true, kubeconfigSecret: kcp, install: {enabled: true, kubeconfigSecret: admin, rewrite: " + rewrite + "}}\n"
		if out := dryRunInKCP(t, values); strings.Contains(out, "kind: MutatingAdmissionPolicy\n") != want {
			t.Errorf("rewrite %s: the Job would register the policy: %t, want %t:\n%s", rewrite, !want, want, out)
		}
	}
}

// dryRunInKCP runs the command of the Job that registers the gates in kcp as a dry run, and returns its output.
func dryRunInKCP(t *testing.T, values string) string {
	t.Helper()
	rendered := template(t, values, "--set-file=certificates.secret.caBundle="+caFile(t))
	file, _ := find[corev1.ConfigMap](t, rendered.Objects, "ConfigMap")
	dir := t.TempDir()
	file.Data["tokens"] = charttest.Token // from a Secret
	for name, key := range map[string]string{"config/config.yaml": "config.yaml", "serving/ca.crt": "ca.crt", "webhook-path/tokens": "tokens"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file.Data[key]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := jobs(t, rendered)["warrantgate-kcp-install"]
	args = append(args, "--dry-run")
	for i := range args {
		args[i] = strings.Replace(args[i], "/etc/warrantgate/", dir+"/", 1)
	}
	out, err := exec.CommandContext(t.Context(), warrantgate, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// The Jobs of a provider are those of kcp, with another command and another administrator. They cannot run without the provider's
// workspace.
func TestTheJobsInstallInProviders(t *testing.T) {
	values := certificate + "kubernetes: {enabled: false}\ncloudSigma: {enabled: true, secret: {name: cloudsigma}}\nconfig: {cloudSigma: {regions: [zrh]}}\n" +
		"kcp: {enabled: true, user: alice, kubeconfigSecret: kcp, install: {enabled: true, kubeconfigSecret: admin, context: root, " +
		"shardKubeconfigSecrets: [a], providers: [{kubeconfigSecret: capcs}, " +
		"{kubeconfigSecret: other, context: root:other, workspace: root:other, apiExport: capcs}]}}\n"
	all := jobs(t, template(t, values))
	for _, verb := range []string{"install", "uninstall"} {
		of := all["warrantgate-kcp-"+verb]
		for suffix, context := range map[string]string{"-provider-0": "", "-provider-1": "--context=root:other"} {
			// A provider's gates rewrite no owners.
			want := slices.DeleteFunc(slices.Clone(of), func(arg string) bool { return strings.HasPrefix(arg, "--rewrite=") })
			want[1] = "provider"
			at := slices.Index(want, "--context=root")
			if want[at] = context; context == "" {
				want = slices.Delete(want, at, at+1)
			}
			if diff := cmp.Diff(want, all["warrantgate-kcp-"+verb+suffix]); diff != "" {
				t.Errorf("%s%s (-want +got):\n%s", verb, suffix, diff)
			}
			cmd := exec.CommandContext(t.Context(), warrantgate, append(want, "--help")...)
			if out, err := cmd.CombinedOutput(); err != nil { // an unknown flag
				t.Errorf("%v: %s", err, out)
			}
		}
	}
	if len(all) != 6 {
		t.Errorf("%d Jobs, want 6: %v", len(all), slices.Collect(maps.Keys(all)))
	}
}

// The name of a Job is a label of its pods, which has at most 63 characters.
func TestTheNamesOfTheJobsAreNotTooLong(t *testing.T) {
	values := certificate + "fullnameOverride: " + strings.Repeat("a", 50) + "\nkubernetes: {enabled: false}\ncloudSigma: {enabled: true, secret: {name: cloudsigma}}\n" +
		"config: {cloudSigma: {regions: [zrh]}}\nkcp: {enabled: true, kubeconfigSecret: kcp, install: {enabled: true, kubeconfigSecret: admin, " +
		"providers: [" + strings.Repeat("{kubeconfigSecret: capcs}, ", 11) + "]}}\n"
	all := jobs(t, template(t, values))
	for name := range all {
		if errs := validation.IsValidLabelValue(name); len(errs) > 0 {
			t.Errorf("%s: %q", name, errs)
		}
	}
	if len(all) != 24 {
		t.Errorf("%d Jobs, want 24", len(all))
	}
}

// jobs returns the arguments of the Jobs, by name.
func jobs(t *testing.T, rendered charttest.Rendered) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, hook := range rendered.Hooks {
		if hook.GetKind() != "Job" {
			continue
		}
		var job batchv1.Job
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(hook.Object, &job); err != nil {
			t.Fatal(err)
		}
		found[job.Name] = job.Spec.Template.Spec.Containers[0].Args
	}
	return found
}

// The audit checks the providers of the configuration, and those whose gates a Job registers if their APIExport is known, each once.
func TestTheAuditChecksProviders(t *testing.T) {
	rendered := template(t, certificate+"kubernetes: {enabled: false}\ncloudSigma: {enabled: true, secret: {name: cloudsigma}}\n"+
		"config: {cloudSigma: {regions: [zrh]}, audit: {interval: 5m, providers: [{workspace: root:a, apiExport: a}]}}\n"+
		"kcp: {enabled: true, kubeconfigSecret: kcp, install: {enabled: true, kubeconfigSecret: admin, providers: [{kubeconfigSecret: none}, "+
		"{kubeconfigSecret: a, workspace: root:a, apiExport: a}, {kubeconfigSecret: b, workspace: root:b, apiExport: b}]}}\n")
	file, _ := find[corev1.ConfigMap](t, rendered.Objects, "ConfigMap")
	got, err := config.Parse([]byte(file.Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	want := v1beta1.Audit{
		Mode: v1beta1.Enforce, Interval: metav1.Duration{Duration: 5 * time.Minute}, RequestsPerSecond: 5,
		Providers: []v1beta1.AuditProvider{{Workspace: "root:a", APIExport: "a"}, {Workspace: "root:b", APIExport: "b"}},
	}
	if diff := cmp.Diff(want, got.Audit); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}
