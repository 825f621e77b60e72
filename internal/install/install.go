// Package install applies a set of objects to an API server, and removes only the objects that it created.
package install

import (
	"context"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managedBy is the label with the name of the tool that manages an object.
const managedBy = "app.kubernetes.io/managed-by"

// Labels returns the labels of objects that warrantgate creates. Uninstall removes only objects with them.
func Labels() map[string]string { return map[string]string{managedBy: fieldManager} }

// IsOurs reports whether warrantgate created an object.
func IsOurs(object client.Object) bool { return object.GetLabels()[managedBy] == fieldManager }

// Lease returns a Lease that the replicas create with these labels, as uninstall removes it.
func Lease(namespace, name string) client.Object {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	return lease
}

// fieldManager is the field manager of server-side apply (KEP-555).
const fieldManager = "warrantgate"

// Outcome is the result for one object.
type Outcome string

// Outcomes.
const (
	Created   Outcome = "created"
	Updated   Outcome = "configured"
	Unchanged Outcome = "unchanged"
	Deleted   Outcome = "deleted"
	Foreign   Outcome = "not changed, because warrantgate did not install it"
)

// Result is the outcome for one object.
type Result struct {
	Kind, Name string
	Outcome    Outcome
}

// Prepare returns an object as Apply writes it: with kind and version, with warrantgate's label, and without empty fields.
func Prepare(object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", describe(object), err)
	}
	prepared := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(prepared.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(prepared.Object, "status")
	labels := prepared.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, Labels())
	prepared.SetLabels(labels)
	return prepared, nil
}

// Apply writes the objects in order, with server-side apply. It is idempotent. If an object exists without warrantgate's label,
// Apply returns an error and does not change the object.
func Apply(ctx context.Context, c client.Client, objects []client.Object) ([]Result, error) {
	results := make([]Result, 0, len(objects))
	for _, object := range objects {
		desired, err := Prepare(object)
		if err != nil {
			return results, err
		}
		existing, err := get(ctx, c, desired)
		if err != nil {
			return results, err
		}
		outcome := Created
		if existing != nil {
			if !IsOurs(existing) {
				return results, fmt.Errorf("%s exists and was not installed by warrantgate (no label %s=%s); rename or delete it first",
					describe(desired), managedBy, fieldManager)
			}
			outcome = Unchanged
		}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired),
			client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
			return results, fmt.Errorf("apply %s: %w", describe(desired), err)
		}
		if existing != nil && !sameContent(existing, desired) {
			outcome = Updated
		}
		results = append(results, Result{desired.GetKind(), desired.GetName(), outcome})
	}
	return results, nil
}

// sameContent compares two objects without resourceVersion and managedFields. The version alone proves no change: kcp writes each
// object once more after its creation.
func sameContent(before, after *unstructured.Unstructured) bool {
	before, after = before.DeepCopy(), after.DeepCopy()
	for _, object := range []*unstructured.Unstructured{before, after} {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
	}
	return equality.Semantic.DeepEqual(before.Object, after.Object)
}

// Replace applies objects, and then removes those of all that are not in objects, from an earlier configuration.
func Replace(ctx context.Context, c client.Client, objects, all []client.Object) ([]Result, error) {
	results, err := Apply(ctx, c, objects)
	if err != nil {
		return results, err
	}
	unwanted, err := Unwanted(ctx, c, objects, all)
	if err != nil {
		return results, err
	}
	removed, err := Remove(ctx, c, unwanted)
	return append(results, removed...), err
}

// Unwanted returns those of all objects that exist and are not in objects.
func Unwanted(ctx context.Context, c client.Client, objects, all []client.Object) ([]client.Object, error) {
	var unwanted []client.Object
	for _, candidate := range all {
		if slices.ContainsFunc(objects, func(wanted client.Object) bool { return describe(wanted) == describe(candidate) }) {
			continue
		}
		desired, err := Prepare(candidate)
		if err != nil {
			return nil, err
		}
		existing, err := get(ctx, c, desired)
		if err != nil {
			return nil, err
		}
		if existing != nil {
			unwanted = append(unwanted, candidate)
		}
	}
	return unwanted, nil
}

// Remove deletes the objects in reverse order, so that a reference is deleted before its target. It has no results for missing objects.
func Remove(ctx context.Context, c client.Client, objects []client.Object) ([]Result, error) {
	results := make([]Result, 0, len(objects))
	for _, object := range slices.Backward(objects) {
		desired, err := Prepare(object)
		if err != nil {
			return results, err
		}
		existing, err := get(ctx, c, desired)
		if err != nil {
			return results, err
		}
		outcome := Deleted
		switch {
		case existing == nil:
			continue
		case !IsOurs(existing):
			outcome = Foreign
		default:
			if err := c.Delete(ctx, existing); client.IgnoreNotFound(err) != nil {
				return results, fmt.Errorf("delete %s: %w", describe(existing), err)
			}
		}
		results = append(results, Result{desired.GetKind(), desired.GetName(), outcome})
	}
	return results, nil
}

// get returns the object in the API server, or nil if it does not exist.
func get(ctx context.Context, c client.Client, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(object.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(object), existing)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // an older API server may not have the kind
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", describe(object), err)
	}
	return existing, nil
}

func describe(object client.Object) string {
	return fmt.Sprintf("%s %q", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
}
