package charts_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"warrantgate.dev/charts/charttest"
)

// TestEveryExampleIsRenderedTheSameEachTime checks that GitOps sees no difference if there was no change.
func TestEveryExampleIsRenderedTheSameEachTime(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			args := []string{"template", charttest.Release, "warrantgate", "--namespace=" + charttest.Namespace, "--kube-version=" + charttest.KubeVersion, "--values=" + file}
			if !strings.Contains(readFile(t, file), "existingSecret: ") {
				args = append(args, "--set=webhookPath.tokens={"+charttest.Token+"}")
			}
			var rendered [2]string
			for i := range rendered {
				var err error
				if rendered[i], err = charttest.Helm(t.Context(), "", args...); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(rendered[0], rendered[1]); diff != "" {
				t.Errorf("the second time (-first +second):\n%s", diff)
			}
		})
	}
}

// TestNothingIsRenderedTwice checks that no example, hooks included, has two objects of the same name: Argo CD keeps the last, and "kubectl
// apply" overwrites the first.
func TestNothingIsRenderedTwice(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rendered := template(t, readFile(t, file))
			seen := map[string]bool{}
			for _, object := range append(rendered.Objects, rendered.Hooks...) {
				name := object.GroupVersionKind().GroupKind().String() + "/" + object.GetNamespace() + "/" + object.GetName()
				if seen[name] {
					t.Errorf("there are two %s", name)
				}
				seen[name] = true
			}
		})
	}
}

// TestArgoCDMapsTheHooks checks that Argo CD maps all of the chart's Helm hooks to its own, and that both Helm and Argo CD delete them.
func TestArgoCDMapsTheHooks(t *testing.T) {
	// In v3.5.0 these are gitops-engine/pkg/sync/hook/helm/type.go, and controller/hook.go. It ignores post-rollback.
	phases := map[string]string{
		"post-install,post-upgrade,post-rollback": "PostSync", "pre-delete": "PreDelete", "post-delete": "PostDelete",
	}
	got := map[string]string{}
	for _, file := range examples(t) {
		for _, hook := range template(t, readFile(t, file)).Hooks {
			when := hook.GetAnnotations()["helm.sh/hook"]
			if phases[when] == "" {
				t.Errorf("%s: Argo CD does not know the hook %q", file, when)
			}
			got[hook.GetKind()+"/"+hook.GetName()] = phases[when]
			if policy := hook.GetAnnotations()["helm.sh/hook-delete-policy"]; policy != "before-hook-creation,hook-succeeded" {
				t.Errorf("%s: %s is deleted %q", file, hook.GetName(), policy)
			}
		}
	}
	want := map[string]string{
		"Job/warrantgate-kcp-install": "PostSync", "Job/warrantgate-kcp-uninstall": "PreDelete", "Lease/warrantgate-audit": "PostDelete",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

// TestWebhooksAreInTheLastWave checks that Argo CD creates the webhook configurations once the pods are ready, and removes them before the
// pods.
func TestWebhooksAreInTheLastWave(t *testing.T) {
	got := map[string]string{}
	for _, object := range template(t, readFile(t, "warrantgate/examples/cloudsigma.yaml")).Objects {
		if wave := object.GetAnnotations()["argocd.argoproj.io/sync-wave"]; wave != "" {
			got[object.GetKind()] = wave
		}
		if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			if hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks"); len(hooks) == 0 {
				t.Errorf("%s has no webhooks", object.GetKind())
			}
		}
	}
	want := map[string]string{"MutatingWebhookConfiguration": "1", "ValidatingWebhookConfiguration": "1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sync waves (-want +got):\n%s", diff)
	}
}

// TestTheExamplesForGitOpsHaveTheValuesOfOthers checks that they install the values with which the other examples are tested.
func TestTheExamplesForGitOpsHaveTheValuesOfOthers(t *testing.T) {
	for file, tc := range map[string]struct {
		kind   string
		path   []string
		values string
	}{
		"warrantgate/examples/gitops/argocd.yaml": {"Application", []string{"spec", "source", "helm", "valuesObject"}, "warrantgate/examples/kcp-operator.yaml"},
		"warrantgate/examples/gitops/flux.yaml":   {"HelmRelease", []string{"spec", "values"}, "warrantgate/examples/kcp-chart.yaml"},
	} {
		objects, err := charttest.Decode(readFile(t, file))
		if err != nil {
			t.Fatal(err)
		}
		object, err := charttest.Find(objects, tc.kind)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := unstructured.NestedMap(object.Object, tc.path...)
		if err != nil {
			t.Fatal(err)
		}
		want, err := charttest.Decode(readFile(t, tc.values))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[0].Object, got); diff != "" {
			t.Errorf("values of %s (-%s +got):\n%s", file, tc.values, diff)
		}
	}
}

// TestTheUsersOfKCPOperator decodes the Kubeconfigs strictly, and checks their users.
func TestTheUsersOfKCPOperator(t *testing.T) {
	objects, err := charttest.Decode(readFile(t, "warrantgate/examples/kcp-operator/kubeconfigs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type user struct{ Username, Groups, Target string }
	got := map[string]user{}
	for _, object := range objects {
		kubeconfig, err := charttest.DecodeKubeconfig(object)
		if err != nil {
			t.Fatal(err)
		}
		target := "front-proxy"
		if kubeconfig.Spec.Target.FrontProxyRef == nil {
			target = "shard " + kubeconfig.Spec.Target.RootShardRef.Name
		}
		got[kubeconfig.Spec.SecretRef.Name] = user{kubeconfig.Spec.Username, strings.Join(kubeconfig.Spec.Groups, ","), target}
	}
	want := map[string]user{
		"warrantgate-kcp":             {"warrantgate", "", "front-proxy"},
		"warrantgate-logical-cluster": {"warrantgate-logical-cluster", "system:kcp:external-logical-cluster-admin", "front-proxy"},
		"warrantgate-install":         {"warrantgate-install", "system:kcp:admin", "front-proxy"},
		"warrantgate-shard-root":      {"warrantgate-shard", "system:masters", "shard root"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}
