// Package owner heals logical clusters whose recorded owner is foreign in them: those that hang in Initializing, and
// those that became Ready with an owner's name that somebody else can take.
//
// What the right owner is, package identity says. This package finds, writes, and makes kcp try again.
package owner

import (
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// healingAnnotation marks a LogicalCluster whose owner has been rewritten and whose initialization has yet to be tried
// again. It is what is left to do, in the object itself, so that whoever finds it can finish.
const healingAnnotation = "warrantgate.dev/healing"

// logicalClusterGVK is what LogicalClusters are read and written as. They are not read into kcp's types, because what a
// newer kcp adds to them would be lost in the writing.
var logicalClusterGVK = corev1alpha1.SchemeGroupVersion.WithKind("LogicalCluster")

// patient is a LogicalCluster under examination.
type patient struct {
	object *unstructured.Unstructured
	typed  corev1alpha1.LogicalCluster
	name   logicalcluster.Name
}

func examine(name logicalcluster.Name, object *unstructured.Unstructured) (patient, error) {
	p := patient{object: object, name: name}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &p.typed); err != nil {
		return patient{}, fmt.Errorf("read LogicalCluster %s: %w", name, err)
	}
	return p, nil
}

// path is the workspace's path, or the cluster's name where kcp does not tell it.
func (p patient) path() string {
	if path := p.typed.Annotations[core.LogicalClusterPathAnnotationKey]; path != "" {
		return path
	}
	return p.name.String()
}

// waitsForBindings tells whether kcp has yet to act as the owner: to create the default API bindings.
func (p patient) waitsForBindings() bool {
	return p.waitsFor(tenancyv1alpha1.WorkspaceAPIBindingsInitializer)
}

func (p patient) waitsFor(initializer corev1alpha1.LogicalClusterInitializer) bool {
	return p.typed.Status.Phase == corev1alpha1.LogicalClusterPhaseInitializing &&
		initialization.InitializerPresent(initializer, p.typed.Status.Initializers)
}

// treatable tells whether it is for warrantgate to write the owner. While initializers of others are all that is waited
// for, theirs is the turn.
func (p patient) treatable() bool {
	return p.waitsForBindings() || p.typed.Status.Phase == corev1alpha1.LogicalClusterPhaseReady
}

func (p patient) halfHealed() bool { return p.typed.Annotations[healingAnnotation] != "" }

// setOwner records the owner wherever kcp has one recorded, and that initialization is to be tried again.
func (p patient) setOwner(owner string) error {
	annotations := p.object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if _, found := annotations[kcp.OwnerAnnotation]; found || p.typed.Spec.CreatedBy == nil {
		annotations[kcp.OwnerAnnotation] = owner
	}
	annotations[healingAnnotation] = "owner-rewritten"
	p.object.SetAnnotations(annotations)
	if p.typed.Spec.CreatedBy == nil {
		return nil
	}
	parsed, err := identity.ParseOwner(owner)
	if err != nil {
		return err
	}
	createdBy, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&parsed)
	if err != nil {
		return err
	}
	return unstructured.SetNestedMap(p.object.Object, createdBy, "spec", "createdBy")
}

// retry takes away the label by which the initializer of the API bindings selects. kcp puts it back at once, which the
// initializer sees as a new LogicalCluster: it listens to no update.
func (p patient) retry() {
	annotations := p.object.GetAnnotations()
	delete(annotations, healingAnnotation)
	p.object.SetAnnotations(annotations)
	if p.waitsForBindings() {
		key, _ := initialization.InitializerToLabel(tenancyv1alpha1.WorkspaceAPIBindingsInitializer)
		labels := p.object.GetLabels()
		delete(labels, key)
		p.object.SetLabels(labels)
	}
}

// within tells whether a workspace's path is that of a subtree, or below it.
func within(path, subtree string) bool {
	return subtree == "" || path == subtree || strings.HasPrefix(path, subtree+":")
}
