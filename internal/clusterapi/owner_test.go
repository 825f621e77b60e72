package clusterapi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
)

func reference(apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: "uid"}
}

func machineRef(name string) metav1.OwnerReference {
	return reference("cluster.x-k8s.io/v1beta1", "Machine", name)
}

// GetOwnerMachine of Cluster API accepts exactly the references with wanted names in this table.
func TestOwners(t *testing.T) {
	for name, tc := range map[string]struct {
		references []metav1.OwnerReference
		want       []string
	}{
		"none":                         {},
		"a Machine":                    {[]metav1.OwnerReference{machineRef("a")}, []string{"a"}},
		"another version":              {[]metav1.OwnerReference{reference("cluster.x-k8s.io/v1alpha4", "Machine", "a")}, []string{"a"}},
		"after others":                 {[]metav1.OwnerReference{reference("v1", "ConfigMap", "x"), machineRef("a")}, []string{"a"}},
		"several, in order":            {[]metav1.OwnerReference{machineRef("b"), machineRef("a")}, []string{"b", "a"}},
		"one, twice":                   {[]metav1.OwnerReference{machineRef("a"), reference("cluster.x-k8s.io/v1beta2", "Machine", "a")}, []string{"a"}},
		"another kind":                 {[]metav1.OwnerReference{reference("cluster.x-k8s.io/v1beta1", "MachineSet", "a")}, nil},
		"another group":                {[]metav1.OwnerReference{reference("machine.openshift.io/v1beta1", "Machine", "a"), reference("v1", "Machine", "a")}, nil},
		"an invalid version":           {[]metav1.OwnerReference{reference("cluster.x-k8s.io/a/b", "Machine", "a"), machineRef("b")}, []string{"b"}},
		"a group with the same prefix": {[]metav1.OwnerReference{reference("cluster.x-k8s.io.example.com/v1", "Machine", "a")}, nil},
		"a kind in lower case":         {[]metav1.OwnerReference{reference("cluster.x-k8s.io/v1beta1", "machine", "a")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.references}}.Owners()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Owners() (-want +got):\n%s", diff)
			}
		})
	}
}

// capiMachine returns a Machine of Cluster API that belongs to the cluster.
func capiMachine(version, name, cluster string) *unstructured.Unstructured {
	o := object("Machine", name, with("apiVersion", "cluster.x-k8s.io/"+version))
	if cluster != "" {
		o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": cluster})
	}
	return o
}

func TestOwner(t *testing.T) {
	missing := func(name string) string {
		return fmt.Sprintf(`OwnerMachineMissing: its owner references name Machine %q, which does not exist; create it first, or remove the reference`, name)
	}
	for name, tc := range map[string]struct {
		owners []string
		served []string
		change func(*fakeServer)
		want   *clusterapi.Owner
		// wantErr begins with the reason if the error is an *AccountError.
		wantErr string
	}{
		"nobody":                         {},
		"a Machine":                      {owners: []string{"a"}, want: &clusterapi.Owner{Name: "a", ClusterName: "metal"}},
		"a Machine without a cluster":    {owners: []string{"plain"}, want: &clusterapi.Owner{Name: "plain"}},
		"a missing Machine":              {owners: []string{"gone"}, wantErr: missing("gone")},
		"a Machine of another namespace": {owners: []string{"elsewhere"}, wantErr: missing("elsewhere")},
		"two": {
			owners: []string{"a", "b"}, wantErr: "OwnerMachineAmbiguous: its owner references name 2 Machines; keep one of them",
		},
		"a Machine of another version": {owners: []string{"newer"}, served: []string{"v1beta2", "v1beta1"}, want: &clusterapi.Owner{Name: "newer", ClusterName: "metal"}},
		"Machines are not served":      {owners: []string{"a"}, served: []string{}, wantErr: missing("a")},
		"discovery fails":              {owners: []string{"a"}, change: func(s *fakeServer) { s.discoveryErr = errors.New("away") }, wantErr: `read Machine "a": away`},
		"reads fail": {
			owners: []string{"a"}, wantErr: `read Machine "a": etcd is away`,
			change: func(s *fakeServer) {
				s.machines.PrependReactor("get", "machines", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewServiceUnavailable("etcd is away")
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere := capiMachine("v1beta1", "elsewhere", "metal")
			elsewhere.SetNamespace("team-b")
			server := newServer(t, false, capiMachine("v1beta1", "a", "metal"), capiMachine("v1beta1", "b", "metal"), capiMachine("v1beta1", "plain", ""),
				capiMachine("v1beta2", "newer", "metal"), elsewhere)
			if tc.served != nil {
				server.served["machines"] = tc.served
			}
			if tc.change != nil {
				tc.change(server)
			}
			claimant := clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "asking"}}
			for _, owner := range tc.owners {
				claimant.OwnerReferences = append(claimant.OwnerReferences, machineRef(owner))
			}
			got, err := server.objects.Owner(t.Context(), claimant)
			if diff := cmp.Diff(tc.want, got); diff != "" || reasoned(err) != tc.wantErr {
				t.Errorf("Owner() error %q, want %q (-want +got):\n%s", reasoned(err), tc.wantErr, diff)
			}
		})
	}
}

func reasoned(err error) string {
	if rejected, ok := errors.AsType[*clusterapi.AccountError](err); ok {
		return string(rejected.Reason) + ": " + err.Error()
	}
	return text(err)
}

// TestOwnerSeen changes the Machines after the watch has broken: the last observed owner is used only if it belongs to the machine's
// cluster.
func TestOwnerSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		owners []string
		// unlasting is true before settledAfter has passed. served are the served versions of Machines.
		unlasting bool
		served    []string
		// want is the result of OwnerSeen. The seen Machines belong to "metal", the current ones to "other".
		want    *clusterapi.Owner
		wantErr string
	}{
		"the same cluster":             {owners: []string{"a"}, want: &clusterapi.Owner{Name: "a", ClusterName: "metal"}},
		"the same cluster, in v1beta2": {owners: []string{"a"}, served: []string{"v1beta2"}, want: &clusterapi.Owner{Name: "a", ClusterName: "metal"}},
		"another cluster":              {owners: []string{"b"}, want: &clusterapi.Owner{Name: "b", ClusterName: "other"}},
		"a new Machine":                {owners: []string{"new"}, want: &clusterapi.Owner{Name: "new", ClusterName: "other"}},
		"before the watch is settled":  {owners: []string{"a"}, unlasting: true, want: &clusterapi.Owner{Name: "a", ClusterName: "other"}},
		"two":                          {owners: []string{"a", "b"}, wantErr: "OwnerMachineAmbiguous: its owner references name 2 Machines; keep one of them"},
		"none":                         {},
		"Machines are not served":      {owners: []string{"a"}, served: []string{}, wantErr: `OwnerMachineMissing: its owner references name Machine "a", which does not exist; create it first, or remove the reference`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				version := "v1beta1"
				if len(tc.served) > 0 {
					version = tc.served[0]
				}
				server := newServer(t, false, capiMachine(version, "a", "metal"), capiMachine(version, "b", "else"))
				if tc.served != nil {
					server.served["machines"] = tc.served
				}
				server.machines.PrependReactor("get", "machines", func(action clienttesting.Action) (bool, runtime.Object, error) {
					name := action.(clienttesting.GetAction).GetName() //nolint:errcheck,forcetypeassert // it is a get
					return true, capiMachine(version, name, "other"), nil
				})
				defer server.start(t.Context(), t)()
				if !tc.unlasting {
					<-time.After(2 * time.Second)
				}
				claimant := clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: "asking", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "metal"},
				}}
				for _, owner := range tc.owners {
					claimant.OwnerReferences = append(claimant.OwnerReferences, machineRef(owner))
				}
				got, err := server.objects.OwnerSeen(t.Context(), claimant)
				if diff := cmp.Diff(tc.want, got); diff != "" || reasoned(err) != tc.wantErr {
					t.Errorf("OwnerSeen() error %q, want %q (-want +got):\n%s", reasoned(err), tc.wantErr, diff)
				}
			})
		})
	}
}

// The cached version is not used after it is no longer served.
func TestOwnerAfterAChangeOfServedVersions(t *testing.T) {
	server := newServer(t, false, capiMachine("v1beta1", "a", "metal"), capiMachine("v1beta2", "a", "other"))
	claimant := clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, OwnerReferences: []metav1.OwnerReference{machineRef("a")}}}
	if owner, err := server.objects.Owner(t.Context(), claimant); err != nil || owner.ClusterName != "metal" {
		t.Fatalf("Owner() = %v, %v", owner, err)
	}
	server.served["machines"] = []string{"v1beta2"}
	server.machines.PrependReactor("get", "machines", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetResource().Version == "v1beta1", nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	if owner, err := server.objects.Owner(t.Context(), claimant); err != nil || owner.ClusterName != "other" {
		t.Errorf("Owner() = %v, %v, want that of the version that is served", owner, err)
	}
}

func TestOwned(t *testing.T) {
	owned := func(names ...string) func(map[string]any) {
		refs := []any{}
		for _, name := range names {
			refs = append(refs, map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": name, "uid": "uid"})
		}
		return with("metadata.ownerReferences", refs)
	}
	objects := []runtime.Object{
		machine(cloudSigmaMachines, "a", owned("owner"), with("status.instanceID", ownID)),
		machine(cloudSigmaMachines, "odd", owned("owner"), with("status.instanceID", int64(5))),
		machine(metalMachines, "second", owned("first", "owner")),
		machine(cloudSigmaMachines, "another", owned("first")),
		machine(cloudSigmaMachines, "free"),
		machine(cloudSigmaMachines, "elsewhere", owned("owner"), inNamespace("team-b")),
	}
	notFound := func(s *fakeServer) { s.unserved(apierrors.NewNotFound(schema.GroupResource{}, "")) }
	for name, tc := range map[string]struct {
		change  func(*fakeServer)
		want    []string
		wantErr string
	}{
		"all machines with the reference": {want: []string{`CloudSigmaMachine "a" of namespace "team-a"`, `CloudSigmaMachine "odd" of namespace "team-a"`, `MetalMachine "second" of namespace "team-a"`}},
		"without a kind that is not installed": {
			change: func(s *fakeServer) { notFound(s); s.served["cloudsigmamachines"] = []string{} },
			want:   []string{`MetalMachine "second" of namespace "team-a"`},
		},
		"with a kind that is served in another version": {
			change: func(s *fakeServer) { notFound(s); s.served["cloudsigmamachines"] = []string{"v1beta2", "v1"} },
			wantErr: "cloudsigmamachines.infrastructure.cluster.x-k8s.io are served in version v1beta2, v1, and not in v1beta1, " +
				"which warrantgate reads: configure a version that is served, or have v1beta1 served again",
		},
		"with a kind that is served again": {
			change:  notFound,
			wantErr: "cloudsigmamachines.infrastructure.cluster.x-k8s.io were not served a moment ago",
		},
		"discovery fails": {
			change:  func(s *fakeServer) { notFound(s); s.discoveryErr = errors.New("away") },
			wantErr: "away",
		},
		"a kind without the permission to list": {
			change:  func(s *fakeServer) { s.unserved(apierrors.NewServiceUnavailable("etcd is away")) },
			wantErr: "list cloudsigmamachines.infrastructure.cluster.x-k8s.io: etcd is away",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, false, objects...)
			if tc.change != nil {
				tc.change(server)
			}
			machines, err := server.objects.Owned(t.Context(), namespace, "owner")
			var got []string
			for _, m := range machines {
				got = append(got, m.String())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" || text(err) != tc.wantErr {
				t.Errorf("Owned() error %q, want %q (-want +got):\n%s", text(err), tc.wantErr, diff)
			}
		})
	}
}
