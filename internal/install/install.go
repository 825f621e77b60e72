// Package install puts a set of objects into an API server and takes exactly these out again.
package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/managed"
)

// fieldManager owns the fields of what is installed (server-side apply, KEP-555).
const fieldManager = "warrantgate"

// Outcome is what became of one object.
type Outcome string

// Outcomes.
const (
	Created   Outcome = "created"
	Updated   Outcome = "configured"
	Unchanged Outcome = "unchanged"
	Deleted   Outcome = "deleted"
	Absent    Outcome = "not there"
	Foreign   Outcome = "left alone, it was not installed by warrantgate"
)

// Result tells what became of one object.
type Result struct {
	Kind, Name string
	Outcome    Outcome
}

// Prepare returns an object in the form in which it is applied: typed, marked, and without empty fields.
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
	labels[managed.Label] = managed.By
	prepared.SetLabels(labels)
	return prepared, nil
}

// Apply writes the objects in order by server-side apply. It may run again: what is as it should be stays unchanged.
// An object of the same name without warrantgate's label is an error, and is not touched.
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
			if existing.GetLabels()[managed.Label] != managed.By {
				return results, fmt.Errorf("%s exists and was not installed by warrantgate (no label %s=%s); rename or delete it first",
					describe(desired), managed.Label, managed.By)
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

// sameContent compares what an object says. That it was written anew says nothing: kcp does so once after each create.
func sameContent(before, after *unstructured.Unstructured) bool {
	before, after = before.DeepCopy(), after.DeepCopy()
	for _, object := range []*unstructured.Unstructured{before, after} {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
	}
	return equality.Semantic.DeepEqual(before.Object, after.Object)
}

// Replace applies the objects and removes what else of all is there from an earlier time, when more was wanted.
func Replace(ctx context.Context, c client.Client, objects, all []client.Object) ([]Result, error) {
	return ReplaceAfter(ctx, c, objects, all, func([]client.Object) error { return nil })
}

// ReplaceAfter is Replace, but calls ready between the two steps with the objects that it is about to remove. Nothing is removed if
// that is an error.
func ReplaceAfter(ctx context.Context, c client.Client, objects, all []client.Object, ready func(unwanted []client.Object) error) ([]Result, error) {
	results, err := Apply(ctx, c, objects)
	if err != nil {
		return results, err
	}
	var unwanted []client.Object
	for _, candidate := range all {
		if slices.ContainsFunc(objects, func(wanted client.Object) bool { return describe(wanted) == describe(candidate) }) {
			continue
		}
		desired, err := Prepare(candidate)
		if err != nil {
			return results, err
		}
		existing, err := get(ctx, c, desired)
		if err != nil {
			return results, err
		}
		if existing != nil {
			unwanted = append(unwanted, candidate)
		}
	}
	if err := ready(unwanted); err != nil {
		return results, err
	}
	removed, err := Remove(ctx, c, unwanted)
	removed = slices.DeleteFunc(removed, func(r Result) bool { return r.Outcome == Absent }) // which is as it should be
	return append(results, removed...), err
}

// Remove deletes the objects in reverse order, so that what refers to another goes first. What is not there is fine.
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
			outcome = Absent
		case existing.GetLabels()[managed.Label] != managed.By:
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

// Present tells whether all objects exist. An API server that does not have a kind has none of its objects.
func Present(ctx context.Context, c client.Client, objects []client.Object) (bool, error) {
	for _, object := range objects {
		desired, err := Prepare(object)
		if err != nil {
			return false, err
		}
		if existing, err := get(ctx, c, desired); err != nil || existing == nil {
			return false, err
		}
	}
	return true, nil
}

// get returns the object as it is in the API server, nil where there is none.
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
