package clusterapi

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// MachineKey identifies a machine. It is comparable.
type MachineKey struct {
	// LogicalCluster is the logical cluster of kcp, "" on Kubernetes.
	LogicalCluster  string
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// Key identifies the machine.
func (m Machine) Key() MachineKey {
	return MachineKey{LogicalCluster: m.LogicalCluster.String(), Resource: m.Kind.Resource(), Namespace: m.Namespace, Name: m.Name}
}

// Machine returns the last seen state of a machine, and whether the machine exists.
func (o *Objects) Machine(key MachineKey) (Machine, bool) {
	for i, kind := range o.kinds {
		if kind.Resource() != key.Resource {
			continue
		}
		found, exists, err := o.machines[i].informer.GetStore().GetByKey(types.NamespacedName{Namespace: key.Namespace, Name: key.Name}.String())
		if err != nil || !exists {
			return Machine{}, false
		}
		machine, err := kind.Read(asObject(found))
		return machine, err == nil
	}
	return Machine{}, false
}

// Naming returns the machines of the provider of a machine that name an instance, in their last seen state. Of an external provider, it returns
// those of other namespaces.
func (o *Objects) Naming(id string, by Machine) []Machine {
	var naming []Machine
	for i, kind := range o.kinds {
		if kind.Provider != by.Kind.Provider {
			continue
		}
		for _, object := range o.machines[i].byIndexWithout(indexInstance, id, by.ownsAll) {
			if machine, err := kind.Read(object); err == nil {
				naming = append(naming, machine)
			}
		}
	}
	return naming
}

// OnChange makes the watches call changed for each machine whose claim may have changed, or that was deleted: because of a write of the machine
// itself, of the Machine of Cluster API that owns it, or of its cluster. The objects that the first list contains are no changes. The
// argument identifies a machine, and does not have its state. OnChange is called before Start.
func (o *Objects) OnChange(changed func(MachineKey)) error {
	for i, kind := range o.kinds {
		if err := o.machines[i].onChange(func(object *unstructured.Unstructured) { changed(kind.metadataOf(object).Key()) }); err != nil {
			return err
		}
	}
	dependent := func(on dependency) {
		for i, kind := range o.kinds {
			for _, object := range o.machines[i].byIndex(indexDependency, on.String()) {
				changed(kind.metadataOf(object).Key())
			}
		}
	}
	for provider, clusters := range o.clusters {
		if err := clusters.onChange(func(object *unstructured.Unstructured) {
			dependent(dependency{string(provider), object.GetNamespace(), clusterKinds[provider].clusterName(object)})
		}); err != nil {
			return err
		}
	}
	return o.owners.onChange(func(object *unstructured.Unstructured) {
		dependent(dependency{OwnerKind, object.GetNamespace(), object.GetName()})
	})
}

// onChange makes the watch call changed for the objects that are created, changed or deleted after the first list: for a changed object with
// the state before and after.
func (w *watched) onChange(changed func(*unstructured.Unstructured)) error {
	_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, first bool) {
			if !first {
				changed(asObject(object))
			}
		},
		UpdateFunc: func(before, after any) {
			if before, after := asObject(before), asObject(after); !same(before, after) {
				changed(before)
				changed(after)
			}
		},
		DeleteFunc: func(object any) {
			if last, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = last.Obj
			}
			changed(asObject(object))
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.resource.Resource, err)
	}
	return nil
}

// same reports whether two states of an object specify the same claim. Heartbeats change nothing else that is kept.
func same(a, b *unstructured.Unstructured) bool {
	rest := func(object *unstructured.Unstructured) map[string]any {
		content := maps.Clone(object.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			metadata = maps.Clone(metadata)
			delete(metadata, "resourceVersion")
			delete(metadata, "deletionTimestamp")
			content["metadata"] = metadata
		}
		return content
	}
	return reflect.DeepEqual(rest(a), rest(b))
}

// dependency is an object that the claim of a machine depends on: a cluster or a Machine of Cluster API.
type dependency struct{ subject, namespace, name string }

func (d dependency) String() string { return d.subject + "/" + d.namespace + "/" + d.name }

// dependencies is an index function of machines.
func (k Kind) dependencies(object any) ([]string, error) {
	machine := k.metadataOf(asObject(object))
	on := []string{dependency{string(k.Provider), machine.Namespace, machine.ClusterName()}.String()}
	for _, owner := range machine.Owners() {
		on = append(on, dependency{OwnerKind, machine.Namespace, owner}.String())
	}
	return slices.Compact(on), nil
}
