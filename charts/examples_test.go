package charts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/internal/config"
)

// foreign are the API groups of kinds that other projects define.
var foreign = map[string]bool{"cert-manager.io": true, "monitoring.coreos.com": true}

func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("warrantgate/examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %q, %v", files, err)
	}
	return files
}

func TestEveryExampleIsLinted(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if _, err := charttest.Helm(t.Context(), "", "lint", "warrantgate", "--strict", "--kube-version="+charttest.KubeVersion, "--values="+file); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheReadmesExampleIsRendered(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "warrantgate/README.md"), "## Install\n")
	_, values, shown := strings.Cut(section, "```yaml\n")
	values, _, closed := strings.Cut(values, "```")
	if !found || !shown || !closed {
		t.Fatal("the README shows no values")
	}
	template(t, certificate+values) // which the chart generates by default
}

// TestTheExampleAdmitsTheProvidersControllerManager checks that the example selects the provider's own manifest, and allows its command.
func TestTheExampleAdmitsTheProvidersControllerManager(t *testing.T) {
	content := ""
	for _, object := range template(t, readFile(t, "warrantgate/examples/cloudsigma.yaml")).Objects {
		if file, found, _ := unstructured.NestedString(object.Object, "data", "config.yaml"); found {
			content = file
		}
	}
	parsed, err := config.Parse([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	managers := parsed.ControllerManager
	selector, err := metav1.LabelSelectorAsSelector(managers.Selector)
	if err != nil || !selector.Matches(labels.Set{"app": "cloudsigma-ccm", "control-plane": "cloudsigma-ccm"}) || managers.Container != "" ||
		!slices.Contains(managers.Commands, "/ccm") {
		t.Errorf("the manifest is not selected, or not admitted: %+v, %v", managers, err)
	}
}

// TestEveryExampleIsValidInKubernetes decodes the rendered objects like an API server with strict field validation.
func TestEveryExampleIsValidInKubernetes(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rendered := template(t, readFile(t, file))
			names := map[string]bool{}
			for _, object := range append(rendered.Objects, rendered.Hooks...) {
				known(t, object)
				restricted(t, object)
			}
			for _, object := range rendered.Objects {
				name := object.GetKind() + "/" + object.GetName()
				if names[name] {
					t.Errorf("there are two %s", name)
				}
				names[name] = true
			}
		})
	}
}

// TestTheVersionsOfKubernetes renders for the supported releases, and for one that is too old.
func TestTheVersionsOfKubernetes(t *testing.T) {
	for _, version := range []string{"1.30.0", "1.33.0", "1.34.1", "1.35.0", "1.36.2"} {
		template(t, readFile(t, "warrantgate/examples/cloudsigma.yaml"), "--kube-version="+version)
	}
	_, err := charttest.Template(t.Context(), readFile(t, "warrantgate/examples/cloudsigma.yaml"), "--kube-version=1.29.9")
	if err == nil || !strings.Contains(err.Error(), "requires kubeVersion") {
		t.Errorf("Kubernetes 1.29: %v", err)
	}
}

func known(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	kind := object.GroupVersionKind()
	if foreign[kind.Group] {
		return
	}
	typed, err := scheme.Scheme.New(kind)
	if err != nil {
		t.Error(err)
		return
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
		t.Errorf("%s %q: %v", kind.Kind, object.GetName(), err)
	}
}

// restricted checks that pods meet the Pod Security Standard "restricted" and mount no token by default.
func restricted(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	raw, found, _ := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	if !found {
		return
	}
	var pod corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &pod); err != nil {
		t.Fatal(err)
	}
	wantPod := &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532), FSGroup: ptr.To[int64](65532),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(wantPod, pod.SecurityContext); diff != "" {
		t.Errorf("security context of %s (-want +got):\n%s", object.GetName(), diff)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("the pods of %s are given a token, needed or not", object.GetName())
	}
	want := &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	for _, container := range pod.Containers {
		if diff := cmp.Diff(want, container.SecurityContext); diff != "" {
			t.Errorf("security context of container %s (-want +got):\n%s", container.Name, diff)
		}
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Key == "client-secret" {
				t.Errorf("a secret is in the environment as %s", variable.Name)
			}
		}
	}
}
