//go:build e2e

package openstack_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
)

const (
	// clusterName is the cluster of most stories, credentials its Secret, cloudName the entry there.
	clusterName, credentials, cloudName = "pool", "credentials", "openstack"
	// clusterLabel names the cluster of an object.
	clusterLabel = "cluster.x-k8s.io/cluster-name"

	instanceIDPath  = "status.instanceID"
	providerIDPath  = "spec.providerID"
	identityRefPath = "spec.identityRef"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	machineKind    = infrastructure.WithKind("OpenStackMachine")
	clusterKind    = infrastructure.WithKind("OpenStackCluster")
	serverKind     = schema.GroupVersionKind{Group: infrastructure.Group, Version: "v1alpha1", Kind: "OpenStackServer"}

	newObject, with = suite.NewObject, suite.With
)

// change modifies an object.
type change = func(*unstructured.Unstructured)

// newMachine returns a machine of a cluster, or of none if cluster is empty.
func newMachine(namespace, name, cluster string, modify ...change) *unstructured.Unstructured {
	machine := newObject(machineKind, namespace, name)
	if cluster != "" {
		labeled(cluster)(machine)
	}
	for _, change := range modify {
		change(machine)
	}
	return machine
}

// labeled sets the cluster of an object.
func labeled(cluster string) change {
	return func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{clusterLabel: cluster}) }
}

// actsWith refers to the credentials in a Secret.
func actsWith(secret string) change {
	return with(identityRefPath, map[string]any{"type": "Secret", "name": secret, "cloudName": cloudName})
}

// set writes one field of an object by a merge patch of the resource that serves it. nil removes it.
func (w *world) set(ctx context.Context, object *unstructured.Unstructured, path string, value any, options ...client.PatchOption) error {
	written := &unstructured.Unstructured{Object: map[string]any{}}
	with(path, value)(written)
	content, err := json.Marshal(written.Object)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, content)
	target := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
	if !strings.HasPrefix(path, "status.") {
		return w.client.Patch(ctx, target, patch, options...)
	}
	ofStatus := &client.SubResourcePatchOptions{}
	for _, option := range options {
		option.ApplyToPatch(&ofStatus.PatchOptions)
	}
	return w.client.Status().Patch(ctx, target, patch, ofStatus)
}

// wayToSet writes one field of an object. nil removes it.
type wayToSet struct {
	name string
	set  func(ctx context.Context, c client.Client, object *unstructured.Unstructured, path string, value any) error
}

// waysToSet are the kinds of writes other than a merge patch. Server-side apply removes only fields that it has applied before.
var waysToSet = []wayToSet{
	{"JSON patch", func(ctx context.Context, c client.Client, object *unstructured.Unstructured, path string, value any) error {
		operations := []map[string]any{{"op": "add", "path": "/" + strings.ReplaceAll(path, ".", "/"), "value": value}}
		if value == nil {
			operations[0] = map[string]any{"op": "remove", "path": operations[0]["path"]}
		} else if parent, _, found := strings.Cut(path, "."); found { // these objects have no other subresource status
			operations = append([]map[string]any{{"op": "add", "path": "/" + parent, "value": map[string]any{}}}, operations...)
		}
		content, err := json.Marshal(operations)
		if err != nil {
			return err
		}
		target := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
		return c.Patch(ctx, target, client.RawPatch(types.JSONPatchType, content))
	}},
	{"PUT", func(ctx context.Context, c client.Client, object *unstructured.Unstructured, path string, value any) error {
		changed := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
		if err := c.Get(ctx, keyOf(object), changed); err != nil {
			return err
		}
		if value == nil {
			unstructured.RemoveNestedField(changed.Object, strings.Split(path, ".")...)
		} else {
			with(path, value)(changed)
		}
		return c.Update(ctx, changed)
	}},
	{"server-side apply", func(ctx context.Context, c client.Client, object *unstructured.Unstructured, path string, value any) error {
		applied := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
		applied.SetLabels(object.GetLabels())
		if value != nil {
			with(path, value)(applied)
		}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("tenant"), client.ForceOwnership)
	}},
}

// holds is the value of a field in the stored object, "" if there is none.
func (w *world) holds(ctx context.Context, object *unstructured.Unstructured, path string) string {
	GinkgoHelper()
	current := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
	Expect(w.client.Get(ctx, keyOf(object), current)).To(Succeed())
	value, _, err := unstructured.NestedString(current.Object, strings.Split(path, ".")...)
	Expect(err).NotTo(HaveOccurred())
	return value
}

// namespace creates a namespace for a story.
func (w *world) namespace(ctx context.Context) string { return suite.NewNamespace(ctx, w.client) }

// eventsOn returns the Events of warrantgate on an object.
func (w *world) eventsOn(ctx context.Context, object client.Object) ([]corev1.Event, error) {
	events := &corev1.EventList{}
	err := w.client.List(ctx, events, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{"involvedObject.uid": string(object.GetUID()), "source": "warrantgate"})
	return events.Items, err
}

// describe is the output of "kubectl describe" of an object.
func (w *world) describe(object *unstructured.Unstructured) (string, error) {
	return suite.KubectlDescribe(w.api.Config(), object.GroupVersionKind(), object.GetNamespace(), object.GetName())
}

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }
