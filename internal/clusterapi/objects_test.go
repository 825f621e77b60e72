package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
)

// claimant returns the machine that claims an instance, for Holder.
func claimant(t *testing.T) clusterapi.Machine {
	t.Helper()
	m, err := cloudSigmaMachines.Read(machine(cloudSigmaMachines, "asking"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func anyMachine(clusterapi.Machine) bool { return true }

func TestHolder(t *testing.T) {
	now := func(object *unstructured.Unstructured, err error) func(clienttesting.Action) (bool, runtime.Object, error) {
		return func(clienttesting.Action) (bool, runtime.Object, error) { return true, object, err }
	}
	holds := with("status.instanceID", ownID)
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "cloudsigmamachines"}, "holder")

	for name, tc := range map[string]struct {
		objects []runtime.Object
		// now responds to requests for single machines that have changed since they were seen.
		now     func(clienttesting.Action) (bool, runtime.Object, error)
		want    string // "" for no holder
		wantErr string
	}{
		"no machine at all":           {},
		"machines of other instances": {objects: []runtime.Object{machine(cloudSigmaMachines, "a", with("status.instanceID", otherID)), machine(cloudSigmaMachines, "b")}},
		"by the instance ID": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds)}, want: `CloudSigmaMachine "holder" of namespace "team-a"`,
		},
		"by the provider ID": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", with("spec.providerID", "cloudsigma://"+ownID))},
			want:    `CloudSigmaMachine "holder" of namespace "team-a"`,
		},
		"with another spelling of the ID": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", with("status.instanceID", " 5D0C3E1F-9A47-4B6E-8F21-7C9D0E1F2A3B"))},
			want:    `CloudSigmaMachine "holder" of namespace "team-a"`,
		},
		"with one of two IDs": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds, with("spec.providerID", "cloudsigma://"+otherID))},
			want:    `CloudSigmaMachine "holder" of namespace "team-a"`,
		},
		"only the machine itself": {objects: []runtime.Object{machine(cloudSigmaMachines, "asking", holds)}},
		"the machine itself, among others": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "asking", holds), machine(cloudSigmaMachines, "holder", holds)},
			want:    `CloudSigmaMachine "holder" of namespace "team-a"`,
		},
		"one of the same name in another namespace": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "asking", holds, inNamespace("team-b"))},
			want:    `CloudSigmaMachine "asking" of namespace "team-b"`,
		},
		"one of the same name and another kind": {
			objects: []runtime.Object{machine(metalMachines, "asking", with("spec.instanceID", ownID))},
			want:    `MetalMachine "asking" of namespace "team-a"`,
		},
		"one of another cloud, where the ID is another instance's": {
			objects: []runtime.Object{machine(otherMachines, "holder", holds)},
		},
		"one that is being deleted": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds, with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z"))},
			want:    `CloudSigmaMachine "holder" of namespace "team-a"`,
		},
		"one that no longer has the ID": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds)}, now: now(machine(cloudSigmaMachines, "holder"), nil),
		},
		"one that now has another ID": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds)},
			now:     now(machine(cloudSigmaMachines, "holder", with("status.instanceID", otherID)), nil),
		},
		"one that no longer exists": {objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds)}, now: now(nil, gone)},
		"one that is no longer readable": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds)},
			now:     now(machine(cloudSigmaMachines, "holder", with("status", "odd")), nil),
		},
		"one that cannot be requested": {
			objects: []runtime.Object{machine(cloudSigmaMachines, "holder", holds)}, now: now(nil, errors.New("etcd is away")),
			wantErr: `read CloudSigmaMachine "holder": etcd is away`,
		},
		"several: always the same result": {
			objects: []runtime.Object{
				machine(cloudSigmaMachines, "c", holds), machine(cloudSigmaMachines, "b", holds), machine(cloudSigmaMachines, "a", holds, inNamespace("team-b")),
			},
			want: `CloudSigmaMachine "b" of namespace "team-a"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false, tc.objects...)
				if tc.now != nil {
					server.machines.PrependReactor("get", "cloudsigmamachines", tc.now)
				}
				defer server.start(t.Context(), t)()
				for range 10 {
					holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine)
					if message := text(err); message != tc.wantErr {
						t.Fatalf("Holder() error = %q, want %q", message, tc.wantErr)
					}
					got := ""
					if holder != nil {
						got = holder.String()
					}
					if got != tc.want {
						t.Fatalf("Holder() = %q, want %q", got, tc.want)
					}
				}
			})
		})
	}
}

// Objects of one namespace may name an ID together, in several kinds of the provider, and are not read for that.
func TestHolderOfAnExternalProvider(t *testing.T) {
	const id = "aws:///eu-1a/i-0a1b"
	named := func(kind clusterapi.Kind, name string, modify ...func(map[string]any)) runtime.Object {
		return machine(kind, name, append([]func(map[string]any){with("spec.providerID", id)}, modify...)...)
	}
	elsewhere := inNamespace("team-b")
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    string // "" for no holder
		reads   int
	}{
		"none":                     {},
		"the object itself":        {objects: []runtime.Object{named(awsMachines, "asking")}},
		"of the same namespace":    {objects: []runtime.Object{named(awsMachines, "a"), named(awsPools, "asking"), named(awsPools, "a")}},
		"of another namespace":     {objects: []runtime.Object{named(awsMachines, "asking", elsewhere)}, want: `AWSMachine "asking" of namespace "team-b"`, reads: 1},
		"of another kind there":    {objects: []runtime.Object{named(awsPools, "a", elsewhere)}, want: `AWSPoolMachine "a" of namespace "team-b"`, reads: 1},
		"in another spelling":      {objects: []runtime.Object{named(awsPools, "a", elsewhere, with("spec.providerID", " AWS://eu-1a//I-0A1B/"))}, want: `AWSPoolMachine "a" of namespace "team-b"`, reads: 1},
		"being deleted":            {objects: []runtime.Object{named(awsPools, "a", elsewhere, with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z"))}, want: `AWSPoolMachine "a" of namespace "team-b"`, reads: 1},
		"of another provider":      {objects: []runtime.Object{named(otherMachines, "a", elsewhere), named(cloudSigmaMachines, "a", elsewhere)}},
		"in a list":                {objects: []runtime.Object{named(awsMachines, "a", elsewhere, with("spec.providerID", []any{id}))}},
		"in a member without name": {objects: []runtime.Object{machine(awsMachines, "a", elsewhere, with("", id))}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false, tc.objects...)
				defer server.start(t.Context(), t)()
				server.machines.ClearActions()
				asking, err := awsMachines.Decode([]byte(`{"": "x", "metadata": {"namespace": "team-a", "name": "asking"}, "spec": {"providerID": "` + id + `"}}`))
				if err != nil || asking.InstanceID != "" || len(asking.IDs()) != 1 {
					t.Fatalf("Decode() = %v, %v", asking, err)
				}
				holder, err := server.objects.Holder(t.Context(), asking.IDs()[0], asking, anyMachine)
				got := ""
				if holder != nil {
					got = holder.String()
				}
				if got != tc.want || err != nil || len(server.machines.Actions()) != tc.reads {
					t.Errorf("Holder() = %q, %v after %d requests, want %q after %d", got, err, len(server.machines.Actions()), tc.want, tc.reads)
				}
			})
		})
	}
}

func TestNewHolderIsFoundWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false)
		defer server.start(t.Context(), t)()
		server.machines.ClearActions()
		if holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine); holder != nil || err != nil {
			t.Errorf("Holder() = %v, %v, want none", holder, err)
		}
		if len(server.machines.Actions()) > 0 {
			t.Errorf("without a holder of the instance, there must be no request: %v", server.machines.Actions())
		}
		machines := server.machines.Resource(cloudSigmaMachines.Resource()).Namespace(namespace)
		if _, err := machines.Create(t.Context(), machine(cloudSigmaMachines, "holder", with("status.instanceID", ownID)), createOptions); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine); holder == nil || err != nil {
			t.Errorf("Holder() = %v, %v, want the new one", holder, err)
		}
		if err := machines.Delete(t.Context(), "holder", deleteOptions); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if holder, err := server.objects.Holder(t.Context(), ownID, claimant(t), anyMachine); holder != nil || err != nil {
			t.Errorf("Holder() = %v, %v, want none any more", holder, err)
		}
	})
}

func TestMachinesAndClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false, cluster(with("metadata.resourceVersion", "7"), with("spec.userEmail", "tenant@example.com")),
			machine(cloudSigmaMachines, "a", with("status.instanceID", ownID)), machine(metalMachines, "b"), machine(cloudSigmaMachines, "unreadable", with("spec.providerID", int64(5))))
		defer server.start(t.Context(), t)()

		var machines []string
		for m := range server.objects.Machines() {
			machines = append(machines, m.String())
		}
		slices.Sort(machines)
		if diff := cmp.Diff([]string{`CloudSigmaMachine "a" of namespace "team-a"`, `MetalMachine "b" of namespace "team-a"`}, machines); diff != "" {
			t.Errorf("Machines() (-want +got):\n%s", diff)
		}
		want := map[clusterapi.Cluster]corev1.ObjectReference{metalCluster: {
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "CloudSigmaCluster",
			Namespace: namespace, Name: "metal", UID: "uid-metal", ResourceVersion: "7",
		}}
		if diff := cmp.Diff(want, maps.Collect(server.objects.Clusters())); diff != "" {
			t.Errorf("Clusters() (-want +got):\n%s", diff)
		}
		for range server.objects.Machines() {
			break
		}
		for range server.objects.Clusters() {
			break
		}
	})
}

// TestOverHTTP checks the paths of requests, and resources that are not served, which the fakes cannot.
func TestOverHTTP(t *testing.T) {
	answers := map[string]string{
		"/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/team-a/cloudsigmaclusters/metal": `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1",` +
			`"kind":"CloudSigmaCluster","metadata":{"namespace":"team-a","name":"metal"},"spec":{"region":"next","userRef":{"name":"bob"}}}`,
		"/api/v1/namespaces/team-a/secrets/bob": `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"team-a","name":"bob"},` +
			`"data":{"userEmail":"Ym9iQGV4YW1wbGUuY29t"}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.Path]
		if !found {
			http.NotFound(w, r) // the same response as an API server
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer)) // the client fails if the response is incomplete
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: 1}
	objects, err := clusterapi.NewObjects(config, clusterapi.Options{Kinds: []clusterapi.Kind{cloudSigmaMachines}})
	if err != nil {
		t.Fatal(err)
	}
	if config.QPS != 1 {
		t.Errorf("the caller's configuration was changed to QPS %v", config.QPS)
	}
	got, err := objects.Account(t.Context(), metalCluster)
	if diff := cmp.Diff(account("bob@example.com"), got); err != nil || diff != "" {
		t.Errorf("Account() error %v (-want +got):\n%s", err, diff)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- objects.Start(ctx) }()
	var last error
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		last = objects.Synced()
		return last == nil, nil
	})
	if err != nil {
		t.Errorf("kinds that are not served keep it from being synced: %v", last)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// In a workspace of kcp, the kinds can be the tenant's own.
func TestNewObjectsOfAWorkspace(t *testing.T) {
	for host, wantErr := range map[string]bool{
		"https://kcp.example.com/clusters/root:org":           true,
		"https://rancher.example.com/k8s/clusters/c-m-1dz6n4": false,
		"https://api.example.com":                             false,
	} {
		if _, err := clusterapi.NewObjects(&rest.Config{Host: host}, clusterapi.Options{}); (err != nil) != wantErr {
			t.Errorf("NewObjects() of %s: error = %v, want %t", host, err, wantErr)
		}
	}
}

func TestNewObjectsWithInvalidConfiguration(t *testing.T) {
	for name, config := range map[string]*rest.Config{
		"an invalid host": {Host: "http://[::1"},
		"an invalid CA":   {Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no PEM")}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := clusterapi.NewObjects(config, clusterapi.Options{}); err == nil {
				t.Error("NewObjects() has no error")
			} else if want := "client for machines: "; len(err.Error()) <= len(want) || err.Error()[:len(want)] != want {
				t.Errorf("error = %q, want it to begin with %q", err, want)
			}
		})
	}
}

func TestThousandsOfMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for i := range 2000 {
			objects = append(objects, machine(cloudSigmaMachines, fmt.Sprint("m", i), with("status.instanceID", fmt.Sprintf("5d0c3e1f-9a47-4b6e-8f21-%012d", i))))
		}
		server := newServer(t, false, objects...)
		defer server.start(t.Context(), t)()
		server.machines.ClearActions()
		holder, err := server.objects.Holder(t.Context(), "5d0c3e1f-9a47-4b6e-8f21-000000001234", claimant(t), anyMachine)
		if err != nil || holder == nil || holder.Name != "m1234" {
			t.Errorf("Holder() = %v, %v, want m1234", holder, err)
		}
		if requests := len(server.machines.Actions()); requests != 1 {
			t.Errorf("it took %d requests, want one for the holder", requests)
		}
		nobody := func(clusterapi.Machine) bool { return false }
		if holder, err := server.objects.Holder(t.Context(), "5d0c3e1f-9a47-4b6e-8f21-000000001234", claimant(t), nobody); holder != nil || err != nil {
			t.Errorf("Holder() = %v, %v, although that machine does not count", holder, err)
		}
	})
}
