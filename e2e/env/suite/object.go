//go:build e2e

package suite

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewObject returns an object of any kind, with changes such as With.
func NewObject(kind schema.GroupVersionKind, namespace, name string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	for _, change := range changes {
		change(object)
	}
	return object
}

// Versions are the resource versions of all objects of the kinds.
func Versions(ctx context.Context, c client.Client, kinds ...schema.GroupVersionKind) map[string]string {
	GinkgoHelper()
	versions := map[string]string{}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		Expect(c.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			versions[kind.Kind+" "+client.ObjectKeyFromObject(&list.Items[i]).String()] = list.Items[i].GetResourceVersion()
		}
	}
	return versions
}

// ExpectNoSecrets expects that leaks finds no secret in the texts and in the messages of all Events.
func ExpectNoSecrets(ctx context.Context, c client.Client, leaks func(text string) []string, texts map[string]string) {
	GinkgoHelper()
	events := &corev1.EventList{}
	Expect(c.List(ctx, events)).To(Succeed())
	for i := range events.Items {
		texts["an Event"] += events.Items[i].Message + "\n"
	}
	for where, text := range texts {
		Expect(leaks(text)).To(BeEmpty(), "secrets in "+where)
	}
}

// With sets the field at a path such as spec.region.
func With(path string, value any) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		Expect(unstructured.SetNestedField(object.Object, value, strings.Split(path, ".")...)).To(Succeed())
	}
}
