package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The ways to write.
const (
	create = "create"
	update = "update"
	merge  = "merge patch"
	patch  = "JSON patch"
	apply  = "server-side apply"
	remove = "delete"
)

// field is a field that a write sets, or removes if the value is nil.
type field struct {
	path  []string
	value any
}

// write is one request.
type write struct {
	actor   *Actor
	verb    string
	kind    schema.GroupVersionKind
	name    string
	version string
	status  bool
	fields  []field
	// at is the index of the place, namespace its namespace.
	at        int
	namespace string
}

func (w write) key() key { return key{w.at, w.kind.Kind, w.name} }

// String describes the write with everything that the request contains.
func (w write) String() string {
	resource := w.kind.Kind
	if w.version != w.kind.Version {
		resource += "." + w.version
	}
	if w.status {
		resource += "/status"
	}
	said := make([]string, 0, len(w.fields))
	for _, f := range w.fields {
		value, err := json.Marshal(f.value)
		if err != nil {
			value = fmt.Append(nil, f.value)
		}
		said = append(said, strings.Join(f.path, ".")+"="+string(value))
	}
	return fmt.Sprintf("%s: %s %s %s/%s %s", w.actor.Name, w.verb, resource, w.namespace, w.name, strings.Join(said, " "))
}

// send sends the request. The object is nil after a deletion.
func (w write) send(ctx context.Context, current *unstructured.Unstructured) error {
	c, object := w.actor.Client, w.empty()
	switch w.verb {
	case create:
		w.set(object, false)
		return c.Create(ctx, object)
	case remove:
		return c.Delete(ctx, object)
	case update:
		object = current.DeepCopy()
		object.SetAPIVersion(w.empty().GetAPIVersion())
		w.set(object, false)
		if w.status {
			return c.Status().Update(ctx, object)
		}
		return c.Update(ctx, object)
	}
	body, owner := w.body(current)
	if w.status {
		return c.Status().Patch(ctx, object, body, &client.SubResourcePatchOptions{PatchOptions: owner})
	}
	return c.Patch(ctx, object, body, &owner)
}

func (w write) empty() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	kind := w.kind
	kind.Version = w.version
	object.SetGroupVersionKind(kind)
	object.SetNamespace(w.namespace)
	object.SetName(w.name)
	return object
}

// body is the body of a patch.
func (w write) body(current *unstructured.Unstructured) (client.Patch, client.PatchOptions) {
	var (
		content any
		kind    types.PatchType
		options client.PatchOptions
	)
	switch w.verb {
	case merge:
		object := &unstructured.Unstructured{Object: map[string]any{}}
		w.set(object, true)
		content, kind = object.Object, types.MergePatchType
	case patch:
		content, kind = w.operations(current), types.JSONPatchType
	default:
		object := w.empty()
		w.set(object, false)
		content, kind = object.Object, types.ApplyPatchType
		force := true
		options = client.PatchOptions{FieldManager: w.actor.Name, Force: &force}
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		panic(err) // maps and strings can always be encoded
	}
	return client.RawPatch(kind, encoded), options
}

// set sets the fields. Removed fields become null if nulls is true.
func (w write) set(object *unstructured.Unstructured, nulls bool) {
	for _, f := range w.fields {
		if f.value == nil && !nulls {
			unstructured.RemoveNestedField(object.Object, f.path...)
			continue
		}
		setField(object.Object, f.path, f.value)
	}
}

// setField replaces values on its path, because a tenant's object can contain any value.
func setField(object map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := object[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			object[name] = below
		}
		object = below
	}
	object[path[len(path)-1]] = value
}

func (w write) operations(current *unstructured.Unstructured) []map[string]any {
	operations, object := []map[string]any{}, current.DeepCopy().Object
	for _, f := range w.fields {
		for depth := 1; depth < len(f.path); depth++ {
			if _, found, _ := unstructured.NestedFieldNoCopy(object, f.path[:depth]...); !found && f.value != nil {
				operations = append(operations, map[string]any{"op": "add", "path": pointer(f.path[:depth]), "value": map[string]any{}})
				setField(object, f.path[:depth], map[string]any{})
			}
		}
		_, found, _ := unstructured.NestedFieldNoCopy(object, f.path...)
		switch {
		case f.value != nil:
			operations = append(operations, map[string]any{"op": "add", "path": pointer(f.path), "value": f.value})
		case found:
			operations = append(operations, map[string]any{"op": "remove", "path": pointer(f.path)})
		}
	}
	return operations
}

func pointer(path []string) string {
	escaped := slices.Clone(path)
	for i := range escaped {
		escaped[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(escaped[i])
	}
	return "/" + strings.Join(escaped, "/")
}
