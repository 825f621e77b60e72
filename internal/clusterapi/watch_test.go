package clusterapi_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/clusterapi"
)

var (
	createOptions = metav1.CreateOptions{}
	deleteOptions = metav1.DeleteOptions{}
)

// longEnough is longer than the maximum backoff of an informer.
const longEnough = 2 * time.Minute

// unserved makes a server respond to lists and watches of machines with an error until serve is called.
func (s *fakeServer) unserved(err error) (serve func()) {
	var served atomic.Bool
	s.machines.PrependReactor("list", "cloudsigmamachines", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !served.Load(), nil, err
	})
	return func() { served.Store(true) }
}

func TestSyncedUntilAllObjectsAreSeen(t *testing.T) {
	resource := schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "cloudsigmamachines"}
	// The response of an API server without the CustomResourceDefinition.
	notServed := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource",
	}}
	for name, tc := range map[string]struct {
		failure error
		// served are the served versions of machines. discoveryErr is the error of discovery.
		served       []string
		discoveryErr error
		// want is the error of Synced and Holder before all objects are seen: Holder must not report that there is no holder if
		// machines cannot be read. wantBesides is the error of Synced about the Machines of Cluster API.
		want, wantBesides string
	}{
		"not installed": {failure: notServed, served: []string{}},
		"served in another version": {
			failure: notServed, served: []string{"v1beta2", "v1alpha4"},
			want: "cloudsigmamachines.infrastructure.cluster.x-k8s.io are served in version v1beta2, v1alpha4, and not in v1beta1, which warrantgate reads: " +
				"configure a version that is served, or have v1beta1 served again",
		},
		"served only at times": {
			failure: notServed,
			want: "cloudsigmamachines.infrastructure.cluster.x-k8s.io cannot be read: " +
				"cloudsigmamachines.infrastructure.cluster.x-k8s.io were not served a moment ago",
		},
		"discovery fails": {
			failure: notServed, discoveryErr: errors.New("etcd is away"),
			want:        "cloudsigmamachines.infrastructure.cluster.x-k8s.io cannot be read: etcd is away",
			wantBesides: "\nmachines.cluster.x-k8s.io cannot be read: failed to list cluster.x-k8s.io/, Resource=machines: etcd is away",
		},
		"reads are forbidden": {
			failure: apierrors.NewForbidden(resource, "", nil),
			want: "cloudsigmamachines.infrastructure.cluster.x-k8s.io cannot be read: " +
				`failed to list infrastructure.cluster.x-k8s.io/v1beta1, Resource=cloudsigmamachines: cloudsigmamachines.infrastructure.cluster.x-k8s.io is forbidden: <nil>`,
		},
		"an unreachable server": {
			failure: apierrors.NewServiceUnavailable("etcd is away"),
			want: "cloudsigmamachines.infrastructure.cluster.x-k8s.io cannot be read: " +
				`failed to list infrastructure.cluster.x-k8s.io/v1beta1, Resource=cloudsigmamachines: etcd is away`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false, machine(cloudSigmaMachines, "holder", with("status.instanceID", ownID)))
				serve := server.unserved(tc.failure)
				if tc.served != nil {
					server.served["cloudsigmamachines"] = tc.served
				}
				server.discoveryErr = tc.discoveryErr
				const unread = "cloudsigmamachines.infrastructure.cluster.x-k8s.io have not been read yet"
				if message := text(server.objects.Synced()); !strings.Contains(message, unread) {
					t.Errorf("Synced() before Start = %q, want %q in it", message, unread)
				}
				if _, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine); text(err) != unread {
					t.Errorf("Holder() before Start, error = %q, want %q", text(err), unread)
				}
				defer server.start(t.Context(), t)()
				if message := text(server.objects.Synced()); message != tc.want+tc.wantBesides {
					t.Errorf("Synced() = %q, want %q", message, tc.want+tc.wantBesides)
				}
				if holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine); holder != nil || text(err) != tc.want {
					t.Errorf("Holder() = %v, %q, want none and %q", holder, text(err), tc.want)
				}
				<-time.After(longEnough)
				if message := text(server.objects.Synced()); message != tc.want+tc.wantBesides {
					t.Errorf("Synced() after some attempts = %q, want %q", message, tc.want+tc.wantBesides)
				}
				serve()
				server.recovered.Store(true)
				<-time.After(longEnough)
				if err := server.objects.Synced(); err != nil {
					t.Errorf("Synced() once they are served = %v", err)
				}
				if holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine); holder == nil || err != nil {
					t.Errorf("Holder() once they are served = %v, %v, want one", holder, err)
				}
			})
		})
	}
}

// Resources are watched separately: a missing one does not block the others.
func TestMissingKindDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false, machine(metalMachines, "holder", with("spec.instanceID", ownID)))
		server.unserved(apierrors.NewNotFound(schema.GroupResource{}, ""))
		server.served["cloudsigmamachines"] = []string{}
		defer server.start(t.Context(), t)()
		if holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine); holder == nil || err != nil {
			t.Errorf("Holder() = %v, %v, want the one of the other kind", holder, err)
		}
	})
}

func TestFailureIsLoggedOnce(t *testing.T) {
	const resource = `"resource":"cloudsigmamachines.infrastructure.cluster.x-k8s.io"`
	for name, tc := range map[string]struct {
		failure error
		served  []string
		want    string
	}{
		"an unreachable server": {
			failure: apierrors.NewServiceUnavailable("etcd is away"),
			want: `"msg":"cannot watch; retrying",` + resource +
				`,"error":"failed to list infrastructure.cluster.x-k8s.io/v1beta1, Resource=cloudsigmamachines: etcd is away"}`,
		},
		"a kind that is not installed": {
			failure: apierrors.NewNotFound(schema.GroupResource{}, ""), served: []string{},
			want: `"msg":"not served by this API server, so there are no objects; retrying",` + resource + `}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var lines []string
				log := funcr.NewJSON(func(line string) {
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, line)
				}, funcr.Options{})
				server := newServer(t, false)
				server.unserved(tc.failure)
				server.served["cloudsigmamachines"] = tc.served
				stop := server.start(logf.IntoContext(t.Context(), log), t)
				<-time.After(10 * longEnough)
				stop()
				if diff := cmp.Diff([]string{`{"logger":"","level":0,` + tc.want}, lines); diff != "" {
					t.Errorf("log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// fakeWatch ends a server's watch of machines, and makes later watches fail.
type fakeWatch struct {
	mu      sync.Mutex
	current *watch.RaceFreeFakeWatcher
	err     error
}

// errEmptyWatch stands for a watch that ends immediately, as client-go returns it for a broken connection.
var errEmptyWatch = errors.New("an empty watch")

// watches replaces the watch of machines.
func (s *fakeServer) watches() *fakeWatch {
	f := &fakeWatch{}
	s.machines.PrependWatchReactor("cloudsigmamachines", func(clienttesting.Action) (bool, watch.Interface, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if errors.Is(f.err, errEmptyWatch) {
			return true, watch.NewEmptyWatch(), nil
		}
		if f.err != nil {
			return true, nil, f.err
		}
		f.current = watch.NewRaceFreeFake()
		return true, f.current, nil
	})
	return f
}

// cut ends the watch and makes the next ones fail with err. nil makes them succeed.
func (f *fakeWatch) cut(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if err != nil {
		f.current.Stop()
	}
}

// A watch that is soon re-established does not change the result. If it is broken for longer, the objects are unknown.
func TestBrokenWatch(t *testing.T) {
	const name = "cloudsigmamachines.infrastructure.cluster.x-k8s.io"
	rejected := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED} // client-go retries this error without reporting it
	for name, tc := range map[string]struct {
		err error
		// served are the versions of machines while the watch is broken.
		served []string
		// wantAtOnce and wantLater are the errors a few seconds after the end of the watch, and after a long time.
		wantAtOnce, wantLater string
	}{
		"unreachable server": {err: rejected, wantLater: name + " have not been watched for more than 30s"},
		"broken connection":  {err: errEmptyWatch, wantLater: name + " have not been watched for more than 30s"},
		"forbidden": {
			err:       apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", nil),
			wantLater: name + " have not been watched for more than 30s: machines is forbidden: <nil>",
		},
		"another version": {
			err: apierrors.NewNotFound(schema.GroupResource{}, ""), served: []string{"v1beta2"},
			wantAtOnce: name + " are served in version v1beta2, and not in v1beta1, which warrantgate reads: configure a version that is served, or have v1beta1 served again",
			wantLater:  name + " are served in version v1beta2, and not in v1beta1, which warrantgate reads: configure a version that is served, or have v1beta1 served again",
		},
		"not served": {
			err: apierrors.NewNotFound(schema.GroupResource{}, ""), served: []string{},
			wantAtOnce: name + " are no longer served, although there were objects when they were last seen",
			wantLater:  name + " are no longer served, although there were objects when they were last seen",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false, machine(cloudSigmaMachines, "holder", with("status.instanceID", ownID)))
				stream := server.watches()
				defer server.start(t.Context(), t)()
				check := func(when, want string) {
					t.Helper()
					if message := text(server.objects.Synced()); message != want {
						t.Errorf("Synced() %s = %q, want %q", when, message, want)
					}
					holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine)
					if text(err) != want || (holder == nil) != (want != "") {
						t.Errorf("Holder() %s = %v, %q, want %q", when, holder, text(err), want)
					}
				}
				check("at first", "")
				if tc.served != nil {
					server.served["cloudsigmamachines"] = tc.served
				}
				stream.cut(tc.err)
				<-time.After(10 * time.Second)
				check("at once", tc.wantAtOnce)
				<-time.After(longEnough)
				check("later", tc.wantLater)
				delete(server.served, "cloudsigmamachines")
				stream.cut(nil)
				<-time.After(longEnough)
				check("in the end", "")
			})
		})
	}
}

// owning returns an owner reference to a Machine of Cluster API.
func owning(name string) map[string]any {
	return map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": name, "uid": "uid-" + name}
}

// Only the fields in use are kept in memory. All others, mostly managedFields, are dropped.
func TestEssentials(t *testing.T) {
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
		"a machine": {
			keep: cloudSigmaMachines.Essentials,
			object: machine(cloudSigmaMachines, "a", append(dress, with("status.instanceID", ownID), with("spec.providerID", "cloudsigma://"+ownID),
				with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z"))...),
			want: identity("CloudSigmaMachine", "a", map[string]any{
				"status.instanceID": ownID, "spec.providerID": "cloudsigma://" + ownID, "metadata.deletionTimestamp": "2026-02-04T12:03:29Z",
			}),
		},
		"a machine without IDs": {
			keep: cloudSigmaMachines.Essentials, object: machine(cloudSigmaMachines, "a", dress...), want: identity("CloudSigmaMachine", "a", nil),
		},
		"a machine with owners": {
			keep: cloudSigmaMachines.Essentials,
			object: machine(cloudSigmaMachines, "a", append(dress, with("metadata.ownerReferences", []any{
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}, owning("one"), owning("two"), owning("three"),
			}))...),
			want: identity("CloudSigmaMachine", "a", map[string]any{"metadata.ownerReferences": []any{owning("one"), owning("two")}}),
		},
		"a machine with fields of the wrong type": {
			keep: cloudSigmaMachines.Essentials, object: machine(cloudSigmaMachines, "a", append(dress, with("status", fat), with("spec.providerID", int64(5)))...),
			want: identity("CloudSigmaMachine", "a", map[string]any{"spec.providerID": int64(5)}),
		},
		"a cluster": {
			keep:   clusterapi.EssentialsOfCluster,
			object: cluster(append(dress, with("spec.userEmail", "tenant@example.com"), with("spec.userRef", map[string]any{"name": "bob"}))...),
			want: identity("CloudSigmaCluster", "metal", map[string]any{
				"spec.region": "next", "spec.userEmail": "tenant@example.com", "spec.userRef": map[string]any{"name": "bob"},
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
			// An informer may call the function with its own result.
			again, err := tc.keep(kept)
			if diff := cmp.Diff(kept, again); err != nil || diff != "" {
				t.Errorf("error %v, and the second result differs (-once +twice):\n%s", err, diff)
			}
		})
	}
	if _, err := cloudSigmaMachines.Essentials("a text"); text(err) != "string is not an object" {
		t.Errorf("of a string: error = %v", err)
	}
}
