package clusterapi_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/clusterapi"
)

var (
	createOptions = metav1.CreateOptions{}
	deleteOptions = metav1.DeleteOptions{}
)

// longEnough is more than an informer waits before it tries again.
const longEnough = 2 * time.Minute

// unserved makes a server answer lists and watches of machines with an error until the returned function is called.
func (s *fakeServer) unserved(err error) (serve func()) {
	var served atomic.Bool
	s.machines.PrependReactor("list", "cloudsigmamachines", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !served.Load(), nil, err
	})
	return func() { served.Store(true) }
}

func TestUntilAllIsSeen(t *testing.T) {
	resource := schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "cloudsigmamachines"}
	// What the API server answers where no CustomResourceDefinition says otherwise.
	notServed := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource",
	}}
	for name, tc := range map[string]struct {
		failure error
		// want is what Synced says meanwhile, and Holder, who must not say that nobody holds what cannot be read.
		want string
	}{
		"what is not served has no objects": {failure: notServed},
		"what may not be read is not seen": {
			failure: apierrors.NewForbidden(resource, "", nil),
			want: "cloudsigmamachines.infrastructure.cluster.x-k8s.io cannot be read: " +
				`failed to list infrastructure.cluster.x-k8s.io/v1beta1, Resource=cloudsigmamachines: cloudsigmamachines.infrastructure.cluster.x-k8s.io is forbidden: <nil>`,
		},
		"a server that is away": {
			failure: apierrors.NewServiceUnavailable("etcd is away"),
			want: "cloudsigmamachines.infrastructure.cluster.x-k8s.io cannot be read: " +
				`failed to list infrastructure.cluster.x-k8s.io/v1beta1, Resource=cloudsigmamachines: etcd is away`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false, machine(cloudSigmaMachines, "holder", with("status.instanceID", ownID)))
				serve := server.unserved(tc.failure)
				const unread = "cloudsigmamachines.infrastructure.cluster.x-k8s.io have not been read yet"
				if message := text(server.objects.Synced()); !strings.Contains(message, unread) {
					t.Errorf("Synced() before Start = %q, want %q in it", message, unread)
				}
				if _, err := server.objects.Holder(t.Context(), ownID, asking(t)); text(err) != unread {
					t.Errorf("Holder() before Start, error = %q, want %q", text(err), unread)
				}
				defer server.start(t.Context(), t)()
				if message := text(server.objects.Synced()); message != tc.want {
					t.Errorf("Synced() = %q, want %q", message, tc.want)
				}
				if holder, err := server.objects.Holder(t.Context(), ownID, asking(t)); holder != nil || text(err) != tc.want {
					t.Errorf("Holder() = %v, %q, want none and %q", holder, text(err), tc.want)
				}
				<-time.After(longEnough)
				if message := text(server.objects.Synced()); message != tc.want {
					t.Errorf("Synced() after some attempts = %q, want %q", message, tc.want)
				}
				serve()
				<-time.After(longEnough)
				if err := server.objects.Synced(); err != nil {
					t.Errorf("Synced() once they are served = %v", err)
				}
				if holder, err := server.objects.Holder(t.Context(), ownID, asking(t)); holder == nil || err != nil {
					t.Errorf("Holder() once they are served = %v, %v, want one", holder, err)
				}
			})
		})
	}
}

// Kinds are watched apart: one that is missing keeps no other from being seen.
func TestAKindThatIsNotServedKeepsNoOtherBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false, machine(metalMachines, "holder", with("spec.instanceID", ownID)))
		server.unserved(apierrors.NewNotFound(schema.GroupResource{}, ""))
		defer server.start(t.Context(), t)()
		if holder, err := server.objects.Holder(t.Context(), ownID, asking(t)); holder == nil || err != nil {
			t.Errorf("Holder() = %v, %v, want the one of the other kind", holder, err)
		}
	})
}

func TestAFailureIsLoggedOnceAndNotForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		log := funcr.NewJSON(func(line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}, funcr.Options{})
		server := newServer(t, false)
		server.unserved(apierrors.NewServiceUnavailable("etcd is away"))
		stop := server.start(logf.IntoContext(t.Context(), log), t)
		<-time.After(10 * longEnough)
		stop()
		want := []string{`{"logger":"","level":0,"msg":"cannot watch; it is tried again","resource":"cloudsigmamachines.infrastructure.cluster.x-k8s.io",` +
			`"error":"failed to list infrastructure.cluster.x-k8s.io/v1beta1, Resource=cloudsigmamachines: etcd is away"}`}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// Memory is for what is judged by. All else of an object, most of it managedFields, is not kept.
func TestWhatIsKept(t *testing.T) {
	fat := strings.Repeat("x", 1<<16)
	dress := []func(map[string]any){
		with("metadata.resourceVersion", "7"), with("metadata.annotations", map[string]any{"a": fat}),
		with("metadata.managedFields", []any{map[string]any{"manager": fat}}), with("metadata.ownerReferences", []any{map[string]any{"kind": "Machine"}}),
		with("metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": "metal", "other": fat}),
		with("spec.disks", []any{fat}), with("status.addresses", []any{fat}),
	}
	identity := func(kind, name string, more map[string]any) map[string]any {
		object := map[string]any{
			"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind,
			"metadata": map[string]any{
				"namespace": namespace, "name": name, "uid": "uid-" + name, "resourceVersion": "7",
				"labels": map[string]any{"cluster.x-k8s.io/cluster-name": "metal"},
			},
		}
		for path, value := range more {
			with(path, value)(object)
		}
		return object
	}
	for name, tc := range map[string]struct {
		keep   func(any) (any, error)
		object *unstructured.Unstructured
		want   map[string]any
	}{
		"of a machine": {
			keep: cloudSigmaMachines.Essentials,
			object: machine(cloudSigmaMachines, "a", append(dress, with("status.instanceID", ownID), with("spec.providerID", "cloudsigma://"+ownID),
				with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z"))...),
			want: identity("CloudSigmaMachine", "a", map[string]any{
				"status.instanceID": ownID, "spec.providerID": "cloudsigma://" + ownID, "metadata.deletionTimestamp": "2026-02-04T12:03:29Z",
			}),
		},
		"of a machine that names nothing": {
			keep: cloudSigmaMachines.Essentials, object: machine(cloudSigmaMachines, "a", dress...), want: identity("CloudSigmaMachine", "a", nil),
		},
		"of a machine whose fields have the wrong type": {
			keep: cloudSigmaMachines.Essentials, object: machine(cloudSigmaMachines, "a", append(dress, with("status", fat), with("spec.providerID", int64(5)))...),
			want: identity("CloudSigmaMachine", "a", map[string]any{"spec.providerID": int64(5)}),
		},
		"of a cluster": {
			keep:   clusterapi.EssentialsOfCluster,
			object: cluster(append(dress, with("spec.userEmail", "tsap@example.com"), with("spec.userRef", map[string]any{"name": "bob"}))...),
			want: identity("CloudSigmaCluster", "metal", map[string]any{
				"spec.region": "next", "spec.userEmail": "tsap@example.com", "spec.userRef": map[string]any{"name": "bob"},
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole := tc.object.DeepCopy()
			kept, err := tc.keep(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&unstructured.Unstructured{Object: tc.want}, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(whole, tc.object); diff != "" {
				t.Errorf("the object itself was changed (-want +got):\n%s", diff)
			}
			// An informer may hand in what it has been given back before.
			again, err := tc.keep(kept)
			if diff := cmp.Diff(kept, again); err != nil || diff != "" {
				t.Errorf("error %v, and kept twice it is something else (-once +twice):\n%s", err, diff)
			}
		})
	}
	if _, err := cloudSigmaMachines.Essentials("a text"); text(err) != "what came is no object but string" {
		t.Errorf("of no object at all: error = %v", err)
	}
}
