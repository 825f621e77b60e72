//go:build e2e

package chart_test

import (
	"cmp"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
)

var _ = Describe("A namespace for restricted pods", func() {
	It("accepts each pod of each example, and rejects each pod without its security context", func(ctx SpecContext) {
		w := startWorld(ctx)
		restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}}
		Expect(w.admin.Create(ctx, restricted)).To(Succeed())
		create := func(spec corev1.PodSpec) error {
			return w.admin.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: restricted.Name, Name: "tried"}, Spec: spec,
			}, client.DryRunAll)
		}
		known := map[string]bool{}
		for _, values := range examples() {
			rendered, err := charttest.Template(ctx, "", "--values="+values)
			Expect(err).NotTo(HaveOccurred())
			for _, objects := range [][]*unstructured.Unstructured{rendered.Objects, rendered.Hooks, rendered.Tests} {
				for _, pod := range podsOf(objects) {
					if name := cmp.Or(pod.spec.ServiceAccountName, "default"); !known[name] {
						known[name] = true
						Expect(w.admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: restricted.Name, Name: name}})).To(Succeed())
					}
					Expect(create(pod.spec)).To(Succeed(), "%s with %s", pod.of, values)
					pod.spec.Containers[0].SecurityContext = nil
					Expect(create(pod.spec)).To(MatchError(ContainSubstring(`violates PodSecurity "restricted:latest"`)), "%s with %s", pod.of, values)
				}
			}
		}
	}, SpecTimeout(timeout))
})

// examples are the files of values in the chart's README.
func examples() []string {
	GinkgoHelper()
	chart, err := charttest.Chart()
	Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(chart, "examples", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	return files
}

// renderedPod is a pod of the chart, and the kind and name of the object that creates it.
type renderedPod struct {
	of   string
	spec corev1.PodSpec
}

// podsOf returns the pods of the objects that are pods or create pods.
func podsOf(objects []*unstructured.Unstructured) []renderedPod {
	GinkgoHelper()
	var pods []renderedPod
	for _, object := range objects {
		path := []string{"spec", "template", "spec"}
		if object.GetKind() == "Pod" {
			path = []string{"spec"}
		}
		raw, found, err := unstructured.NestedMap(object.Object, path...)
		Expect(err).NotTo(HaveOccurred())
		if !found {
			continue
		}
		pod := renderedPod{of: object.GetKind() + " " + object.GetName()}
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &pod.spec)).To(Succeed())
		pods = append(pods, pod)
	}
	return pods
}
