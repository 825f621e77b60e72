//go:build e2e

package machine_test

import (
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/describe"
)

// describe is the output of "kubectl describe" of an object.
func (w *world) describe(object *unstructured.Unstructured) (string, error) {
	kind := object.GroupVersionKind()
	describer, found := describe.GenericDescriberFor(&meta.RESTMapping{
		Resource:         kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s"),
		GroupVersionKind: kind, Scope: meta.RESTScopeNamespace,
	}, w.api.Config())
	Expect(found).To(BeTrue())
	return describer.Describe(object.GetNamespace(), object.GetName(), describe.DescriberSettings{ShowEvents: true, ChunkSize: 100})
}
