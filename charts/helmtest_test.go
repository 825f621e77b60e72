package charts_test

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/charts/charttest"
)

// TestHelmTestTestsTheEnabledGates checks which API servers "helm test" checks, and with which users.
func TestHelmTestTestsTheEnabledGates(t *testing.T) {
	const (
		policies = "keystonePolicy: {selector: {matchLabels: {holds: keystone-policy}}}"
		beside   = "kcp: {enabled: true, install: {enabled: true, kubeconfigSecret: admin, context: root}}\n"
	)
	for name, tc := range map[string]struct {
		values string
		// want are the arguments that select the checked server, by the name of the pod.
		want map[string][]string
		// wantPermissions are the resources that the pod may create, wantSecret is the Secret with the kubeconfig for kcp.
		wantPermissions []string
		wantSecret      string
	}{
		"policies": {
			values:          "config: {machine: {mode: Off}, audit: {mode: Off}, " + policies + "}\n",
			want:            map[string][]string{"warrantgate-test-kubernetes": {"kubernetes", "--wait=30s", "--namespace=default"}},
			wantPermissions: []string{"configmaps"},
		},
		"policies by their labels and names": {
			values: "config: {machine: {mode: Off}, audit: {mode: Off}, " +
				strings.Replace(policies, "{selector", "{objects: [{namespace: keystone, name: policy}], selector", 1) + "}\n",
			want:            map[string][]string{"warrantgate-test-kubernetes": {"kubernetes", "--wait=30s", "--namespace=default"}},
			wantPermissions: []string{"configmaps"},
		},
		"policies by their names, which check admission cannot test": {
			values: "config: {machine: {mode: Off}, audit: {mode: Off}, keystonePolicy: {objects: [{namespace: keystone, name: policy}]}}\n",
		},
		"machines, and another namespace": {
			values:          cloudSigma + "kubernetes: {testNamespace: tenants}\n",
			want:            map[string][]string{"warrantgate-test-kubernetes": {"kubernetes", "--wait=30s", "--namespace=tenants"}},
			wantPermissions: []string{"cloudsigmamachines"},
		},
		"machines of OpenStack": {
			values:          "config: {openStack: {authURLs: [\"https://keystone.example.com/v3\"]}, " + policies + "}\n",
			want:            map[string][]string{"warrantgate-test-kubernetes": {"kubernetes", "--wait=30s", "--namespace=default"}},
			wantPermissions: []string{"configmaps", "cloudsigmamachines", "openstackmachines"},
		},
		"machines of other providers, which check admission cannot test": {
			values: "config: {machine: {kinds: [{group: aws.example.com, version: v1, kind: Server, resource: servers, provider: external}]}}\n",
		},
		"machines of other providers, and policies": {
			values:          "config: {machine: {kinds: [{group: aws.example.com, version: v1, kind: Server, resource: servers, provider: external}]}, " + policies + "}\n",
			want:            map[string][]string{"warrantgate-test-kubernetes": {"kubernetes", "--wait=30s", "--namespace=default"}},
			wantPermissions: []string{"configmaps"},
		},
		"a kcp, as the user who registers the gates": {
			values: "kubernetes: {enabled: false}\n" + beside,
			want:   map[string][]string{"warrantgate-test-kcp": {"kcp", "--wait=30s", "--context=root"}}, wantSecret: "admin",
		},
		"a kcp, as another user": {
			values: "kubernetes: {enabled: false}\n" + strings.Replace(beside, "kcp: {", "kcp: {test: {kubeconfigSecret: tester}, ", 1),
			want:   map[string][]string{"warrantgate-test-kcp": {"kcp", "--wait=30s"}}, wantSecret: "tester",
		},
		"both": {
			values: "config: {machine: {mode: Off}, audit: {mode: Off}, " + policies + "}\n" + beside,
			want: map[string][]string{
				"warrantgate-test-kcp": {"kcp", "--wait=30s", "--context=root"}, "warrantgate-test-kubernetes": {"kubernetes", "--wait=30s", "--namespace=default"},
			},
			wantPermissions: []string{"configmaps"}, wantSecret: "admin",
		},
		"a kcp without a user":              {values: "kubernetes: {enabled: false}\nkcp: {enabled: true}\n"},
		"a kcp whose gate on owners is off": {values: "kubernetes: {enabled: false}\nconfig: {workspace: {ownerIntegrity: {mode: Off}}}\n" + beside},
		"a Kubernetes without such a gate":  {values: "config: {machine: {mode: Off}, audit: {mode: Off}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tests := template(t, certificate+tc.values).Tests
			got := map[string][]string{}
			secret := ""
			for _, pod := range testPods(t, tests) {
				args := pod.Spec.Containers[0].Args
				got[pod.Name] = slices.DeleteFunc(args[2:], func(arg string) bool { return strings.Contains(arg, "=/etc/warrantgate/") })
				for _, volume := range pod.Spec.Volumes {
					if volume.Secret != nil {
						secret = volume.Secret.SecretName
					}
				}
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			if secret != tc.wantSecret {
				t.Errorf("the kubeconfig for kcp is that of %q, want %q", secret, tc.wantSecret)
			}
			if diff := cmp.Diff(tc.wantPermissions, created(t, tests), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThePodsOfHelmTest checks for each example that the pods are restricted, that their arguments are valid, and that they are deleted
// afterwards.
func TestThePodsOfHelmTest(t *testing.T) {
	tried := map[string]bool{}
	for _, file := range examples(t) {
		tests := template(t, readFile(t, file)).Tests
		for _, object := range tests {
			known(t, object)
			want := "before-hook-creation,hook-succeeded,hook-failed"
			if object.GetKind() == "Pod" { // a failed one is kept, with its log
				want = "before-hook-creation,hook-succeeded"
			}
			if policy := object.GetAnnotations()["helm.sh/hook-delete-policy"]; policy != want {
				t.Errorf("%s: %s has the delete policy %q, want %q", file, object.GetKind(), policy, want)
			}
		}
		for _, pod := range testPods(t, tests) {
			tried[pod.Spec.Containers[0].Args[2]] = true
			spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
			if err != nil {
				t.Fatal(err)
			}
			restricted(t, &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}})
			container := pod.Spec.Containers[0]
			mounted(t, pod.Spec, container)
			if out, err := exec.CommandContext(t.Context(), warrantgate, append(container.Args, "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", filepath.Base(file), err, out)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(tried)); !slices.Equal(got, []string{"kcp", "kubernetes"}) {
		t.Errorf("the examples test %q", got)
	}
}

func testPods(t *testing.T, objects []*unstructured.Unstructured) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	for _, object := range objects {
		if object.GetKind() != "Pod" {
			continue
		}
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	return pods
}

// created returns the resources that a role of the test allows to create. Any other verb is an error.
func created(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	if _, err := charttest.Find(objects, "Role"); err != nil {
		return nil
	}
	role, _ := find[rbacv1.Role](t, objects, "Role")
	var resources []string
	for _, rule := range role.Rules {
		if !slices.Equal(rule.Verbs, []string{"create"}) {
			t.Errorf("the test may %q %q", rule.Verbs, rule.Resources)
		}
		resources = append(resources, rule.Resources...)
	}
	return resources
}
