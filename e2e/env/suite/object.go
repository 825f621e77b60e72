//go:build e2e

package suite

import (
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// With sets the field at a path such as spec.region.
func With(path string, value any) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		Expect(unstructured.SetNestedField(object.Object, value, strings.Split(path, ".")...)).To(Succeed())
	}
}
