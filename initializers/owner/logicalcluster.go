package owner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// rewrittenAtAnnotation records on a LogicalCluster when its owner was rewritten, until system:apibindings is retriggered. Any
// replica that finds it continues from there.
const rewrittenAtAnnotation = "warrantgate.dev/rewritten-at"

// writeTimeout limits one write of a LogicalCluster. Webhooks that a tenant registers in its workspace can delay it.
const writeTimeout = 10 * time.Second

// logicalClusterGVK is the kind that LogicalClusters are read and written as. They are also read as unstructured objects, because an update
// with kcp's types would remove fields that a newer kcp adds.
var logicalClusterGVK = corev1alpha1.SchemeGroupVersion.WithKind("LogicalCluster")

// logicalCluster is a LogicalCluster as it was read: object is written, typed is for decisions.
type logicalCluster struct {
	object *unstructured.Unstructured
	typed  corev1alpha1.LogicalCluster
	name   logicalcluster.Name
	// client is for the logical cluster.
	client client.Client
}

func newLogicalCluster(name logicalcluster.Name, object *unstructured.Unstructured) (*logicalCluster, error) {
	lc := &logicalCluster{object: object, name: name}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &lc.typed); err != nil {
		return nil, fmt.Errorf("decode LogicalCluster %s: %w", name, err)
	}
	return lc, nil
}

// path is the workspace's path, or the name of the logical cluster if no path is recorded.
func (lc *logicalCluster) path() string {
	if path := kcp.PathIn(&lc.typed, core.LogicalClusterPathAnnotationKey); path != "" {
		return path
	}
	return lc.name.String()
}

func (lc *logicalCluster) isReady() bool {
	return lc.typed.Status.Phase == corev1alpha1.LogicalClusterPhaseReady
}

// waitsForBindings reports whether kcp has yet to create the default API bindings, as the owner.
func (lc *logicalCluster) waitsForBindings() bool {
	return lc.typed.Status.Phase == corev1alpha1.LogicalClusterPhaseInitializing &&
		initialization.InitializerPresent(tenancyv1alpha1.WorkspaceAPIBindingsInitializer, lc.typed.Status.Initializers)
}

// bindingsFailed reports whether kcp has recorded that it could not create the default API bindings. kcp before v0.31 does not record it.
func (lc *logicalCluster) bindingsFailed() bool {
	return conditions.GetReason(&lc.typed, tenancyv1alpha1.WorkspaceAPIBindingsInitialized) == tenancyv1alpha1.WorkspaceInitializedAPIBindingErrors
}

// mayYetBind reports whether kcp has neither created the default API bindings nor failed to, as far as it records that: kcp from v0.32 on does.
func (lc *logicalCluster) mayYetBind() bool {
	return lc.typed.Spec.CreatedBy != nil && lc.waitsForBindings() && !lc.bindingsFailed()
}

// waitsForOthers reports whether an initializer other than system:apibindings is pending.
func (lc *logicalCluster) waitsForOthers() bool {
	return slices.ContainsFunc(lc.typed.Status.Initializers, func(initializer corev1alpha1.LogicalClusterInitializer) bool {
		return initializer != tenancyv1alpha1.WorkspaceAPIBindingsInitializer
	})
}

// mayBeRewritten reports whether the owner may be rewritten now. Pending initializers of others do not prevent that: they act as the owner,
// and kcp denies requests of a foreign one.
func (lc *logicalCluster) mayBeRewritten() bool {
	return lc.isReady() || lc.typed.Status.Phase == corev1alpha1.LogicalClusterPhaseInitializing
}

// rewrittenAt returns when the owner was rewritten, and whether system:apibindings has yet to be retriggered since. The time is
// zero if it cannot be parsed.
func (lc *logicalCluster) rewrittenAt() (at time.Time, pending bool) {
	value, pending := lc.typed.Annotations[rewrittenAtAnnotation]
	at, _ = time.Parse(time.RFC3339Nano, value) // every writer of the LogicalCluster can write this
	return at, pending
}

// setOwner sets the owner wherever kcp records one, and when that was.
func (lc *logicalCluster) setOwner(owner identity.Owner, now time.Time) error {
	annotations := lc.object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if _, found := annotations[kcp.OwnerAnnotation]; found || lc.typed.Spec.CreatedBy == nil {
		annotations[kcp.OwnerAnnotation] = owner.String()
	}
	annotations[rewrittenAtAnnotation] = now.UTC().Format(time.RFC3339Nano)
	lc.object.SetAnnotations(annotations)
	if lc.typed.Spec.CreatedBy == nil {
		return nil
	}
	createdBy, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&owner)
	if err != nil {
		return err
	}
	return unstructured.SetNestedMap(lc.object.Object, createdBy, "spec", "createdBy")
}

// retrigger removes the label by which system:apibindings selects. kcp sets it again at once, and the initializer handles the
// LogicalCluster as a new one: it does not handle updates.
func (lc *logicalCluster) retrigger() {
	annotations := lc.object.GetAnnotations()
	delete(annotations, rewrittenAtAnnotation)
	lc.object.SetAnnotations(annotations)
	if lc.waitsForBindings() {
		key, _ := initialization.InitializerToLabel(tenancyv1alpha1.WorkspaceAPIBindingsInitializer)
		labels := lc.object.GetLabels()
		delete(labels, key)
		lc.object.SetLabels(labels)
	}
}

// update writes the LogicalCluster, or only tries to on a dry run. If the stored owner differs from the written one, it returns a message about
// that, because webhooks inside the workspace may change the update.
func (lc *logicalCluster) update(ctx context.Context, dryRun bool) (changed string, err error) {
	written, err := newLogicalCluster(lc.name, lc.object.DeepCopy())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var options []client.UpdateOption
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := lc.client.Update(ctx, lc.object, options...); err != nil {
		return "", err
	}
	stored, err := newLogicalCluster(lc.name, lc.object)
	if err != nil {
		return "", err
	}
	if was, is := kcp.RecordedOwner(&written.typed), kcp.RecordedOwner(&stored.typed); was != is {
		return identity.DescribeChange(was, is), nil
	}
	return "", nil
}
