package clusterapi_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/clusterapi"
)

// ownerMachine is a Machine of Cluster API.
func ownerMachine(name, cluster string) *unstructured.Unstructured {
	return object("Machine", name, with("apiVersion", "cluster.x-k8s.io/v1beta1"), with("metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": cluster}))
}

// OnChange reports the machines whose claim may have changed after the first list, and no heartbeats.
func TestOnChange(t *testing.T) {
	owners := clusterapi.OwnerMachines.WithVersion("v1beta1")
	heartbeat := with("metadata.resourceVersion", "8")
	worker := func(modify ...func(map[string]any)) *unstructured.Unstructured {
		return machine(cloudSigmaMachines, "worker", append([]func(map[string]any){
			with("status.instanceID", ownID), with("metadata.ownerReferences", []any{owning("a")}), with("metadata.resourceVersion", "7"),
		}, modify...)...)
	}
	owned := cluster(with("spec.userEmail", "tenant@example.com"), with("metadata.resourceVersion", "7"))
	type write struct {
		resource schema.GroupVersionResource
		object   *unstructured.Unstructured // nil deletes the object
		name     string
	}
	for name, tc := range map[string]struct {
		write write
		want  []string
	}{
		"no change":                 {},
		"another instance":          {write: write{object: worker(with("status.instanceID", otherID))}, want: []string{"worker"}},
		"a provider ID":             {write: write{object: worker(with("spec.providerID", "cloudsigma://"+ownID))}, want: []string{"worker"}},
		"another cluster":           {write: write{object: worker(with("metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": "other"}))}, want: []string{"worker"}},
		"another owner":             {write: write{object: worker(with("metadata.ownerReferences", []any{owning("b")}))}, want: []string{"worker"}},
		"a heartbeat":               {write: write{object: worker(heartbeat, with("status.instanceState", "running"))}},
		"the beginning of deletion": {write: write{object: worker(heartbeat, with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z"))}},
		"a deletion":                {write: write{name: "worker"}, want: []string{"worker"}},
		"a new machine":             {write: write{object: machine(cloudSigmaMachines, "new")}, want: []string{"new"}},
		"an owner of another cluster": {
			write: write{resource: owners, object: ownerMachine("a", "other")}, want: []string{"worker"},
		},
		"an owner that is deleted":    {write: write{resource: owners, name: "a"}, want: []string{"worker"}},
		"an owner of no machine":      {write: write{resource: owners, object: ownerMachine("b", "other")}},
		"another user of the cluster": {write: write{resource: clusterapi.CloudSigmaClusters, object: cluster(with("spec.userEmail", "else@example.com"))}, want: []string{"unclaimed", "worker"}},
		"another user of a cluster with the label of another": {
			write: write{resource: clusterapi.CloudSigmaClusters, object: cluster(with("spec.userEmail", "else@example.com"),
				with("metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": "decoy"}))},
			want: []string{"unclaimed", "worker"},
		},
		"a heartbeat of the cluster":     {write: write{resource: clusterapi.CloudSigmaClusters, object: cluster(with("spec.userEmail", "tenant@example.com"), heartbeat)}},
		"a cluster that is deleted":      {write: write{resource: clusterapi.CloudSigmaClusters, name: "metal"}, want: []string{"unclaimed", "worker"}},
		"a new cluster without machines": {write: write{resource: clusterapi.CloudSigmaClusters, object: object("CloudSigmaCluster", "new")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false, worker(), machine(cloudSigmaMachines, "unclaimed"), owned, ownerMachine("a", "metal"), ownerMachine("b", "metal"))
				var mu sync.Mutex
				var got []string
				if err := server.objects.OnChange(func(object clusterapi.MachineKey) {
					mu.Lock()
					defer mu.Unlock()
					if object.Resource != cloudSigmaMachines.Resource() || object.Namespace != namespace {
						t.Errorf("OnChange(%v)", object)
					}
					got = append(got, object.Name)
				}); err != nil {
					t.Fatal(err)
				}
				defer server.start(t.Context(), t)()
				mu.Lock()
				if len(got) > 0 {
					t.Errorf("changes in the first list: %q", got)
				}
				mu.Unlock()
				w := tc.write
				if w.resource.Resource == "" {
					w.resource = cloudSigmaMachines.Resource()
				}
				client := server.machines.Resource(w.resource).Namespace(namespace)
				var err error
				switch {
				case w.name != "":
					err = client.Delete(t.Context(), w.name, metav1.DeleteOptions{})
				case w.object == nil:
				case w.object.GetName() == "new":
					_, err = client.Create(t.Context(), w.object, createOptions)
				default:
					_, err = client.Update(t.Context(), w.object, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				slices.Sort(got)
				if diff := cmp.Diff(tc.want, slices.Compact(got)); diff != "" {
					t.Errorf("changed (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestMachineAndNaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false, machine(cloudSigmaMachines, "a", with("status.instanceID", ownID)), machine(metalMachines, "b", with("spec.providerID", ownID)),
			machine(cloudSigmaMachines, "c", with("status.instanceID", otherID)), machine(cloudSigmaMachines, "odd", with("status.instanceID", int64(1))),
			machine(otherMachines, "of another cloud", with("status.instanceID", ownID)),
			machine(awsMachines, "external", with("spec.providerID", ownID)), machine(awsPools, "pool", with("spec.providerID", ownID)))
		defer server.start(t.Context(), t)()
		var naming []string
		for _, m := range server.objects.Naming(ownID, clusterapi.Machine{Kind: metalMachines}) {
			naming = append(naming, m.Kind.Kind+" "+m.Name)
			if again, found := server.objects.Machine(m.Key()); !found || again.Key() != m.Key() || again.InstanceID != m.InstanceID {
				t.Errorf("Machine(%v) = %v, %t", m.Key(), again, found)
			}
		}
		if diff := cmp.Diff([]string{"CloudSigmaMachine a", "MetalMachine b"}, naming); diff != "" {
			t.Errorf("Naming() (-want +got):\n%s", diff)
		}
		external, _ := server.objects.Machine(clusterapi.MachineKey{Resource: awsMachines.Resource(), Namespace: namespace, Name: "external"})
		if own := server.objects.Naming(ownID, external); len(own) > 0 {
			t.Errorf("Naming() of an external provider = %v, all in the same namespace", own)
		}
		external.Namespace = "team-b"
		if others := server.objects.Naming(ownID, external); len(others) != 2 {
			t.Errorf("Naming() of an external provider = %v, want those of the other namespace", others)
		}
		for _, object := range []clusterapi.MachineKey{
			{Resource: cloudSigmaMachines.Resource(), Namespace: namespace, Name: "gone"}, {Resource: cloudSigmaMachines.Resource(), Namespace: namespace, Name: "odd"},
			{Resource: clusterapi.CloudSigmaClusters, Namespace: namespace, Name: "a"},
		} {
			if m, found := server.objects.Machine(object); found {
				t.Errorf("Machine(%v) = %v", object, m)
			}
		}
	})
}
