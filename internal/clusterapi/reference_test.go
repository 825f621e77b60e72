package clusterapi_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// capiCluster returns a Cluster of Cluster API that refers to the OpenStackCluster of that name.
func capiCluster(name, infrastructure string, modify ...func(map[string]any)) *unstructured.Unstructured {
	modify = append([]func(map[string]any){with("apiVersion", "cluster.x-k8s.io/v1beta1")}, modify...)
	if infrastructure != "" {
		modify = append(modify, with("spec.infrastructureRef.name", infrastructure))
	}
	return object("Cluster", name, modify...)
}

// others returns credentials that an attacker chooses.
func others() func(map[string]any) {
	return identityRef(map[string]any{"name": "others", "cloudName": "tenant"})
}

func TestAccountByReference(t *testing.T) {
	keys, other := openStackAccount("keys", "tenant", ""), openStackAccount("others", "tenant", "")
	missing := func(name string) *clusterapi.AccountError {
		return &clusterapi.AccountError{
			Reason:  clusterapi.ClusterMissing,
			Message: `Cluster "metal" refers to OpenStackCluster "` + name + `" by spec.infrastructureRef, which does not exist in namespace "team-a"`,
		}
	}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		served  []string
		want    ownership.Account
		wantErr *clusterapi.AccountError
	}{
		"to the object that has its name": {objects: []runtime.Object{capiCluster("metal", "metal"), openStackCluster("metal")}, want: keys},
		"to the object that has its label": {
			objects: []runtime.Object{capiCluster("metal", "x7k2p"), openStackCluster("x7k2p", labeled("metal"))}, want: keys,
		},
		"to an object that has no label yet": {
			objects: []runtime.Object{capiCluster("metal", "x7k2p"), openStackCluster("x7k2p")}, want: keys,
		},
		"to another object than the one of its name": {
			objects: []runtime.Object{capiCluster("metal", "x7k2p"), openStackCluster("metal"), openStackCluster("x7k2p", others())}, want: other,
		},
		"with any kind, group and namespace": {
			objects: []runtime.Object{
				capiCluster("metal", "x7k2p", with("spec.infrastructureRef", map[string]any{"kind": "Other", "apiVersion": "v1", "namespace": "team-b"})),
				openStackCluster("x7k2p"), openStackCluster("x7k2p", others(), inNamespace("team-b")),
			},
			want: keys,
		},
		"in another version": {
			objects: []runtime.Object{capiCluster("metal", "x7k2p", with("apiVersion", "cluster.x-k8s.io/v1beta2")), openStackCluster("x7k2p")},
			served:  []string{"v1beta2", "v1beta1"}, want: keys,
		},
		"whatever labels the objects have": {
			objects: []runtime.Object{
				capiCluster("metal", "x7k2p"), openStackCluster("metal", labeled("metal")), openStackCluster("x7k2p", labeled("prod"), others()),
			},
			want: other,
		},
		"to a missing object": {
			objects: []runtime.Object{capiCluster("metal", "x7k2p"), openStackCluster("metal")}, wantErr: missing("x7k2p"),
		},
		"to an invalid name": {objects: []runtime.Object{capiCluster("metal", "..")}, wantErr: missing("..")},
		"that is empty":      {objects: []runtime.Object{capiCluster("metal", ""), openStackCluster("metal")}, want: keys},
		"to an object of another namespace": {
			objects: []runtime.Object{capiCluster("metal", "x7k2p", inNamespace("team-b")), openStackCluster("metal")}, want: keys,
		},
		"Clusters are not served": {objects: []runtime.Object{openStackCluster("metal")}, served: []string{}, want: keys},
		"of the wrong type": {
			objects: []runtime.Object{capiCluster("metal", "", with("spec.infrastructureRef.name", int64(5)))},
			wantErr: &clusterapi.AccountError{
				Reason: clusterapi.ClusterUnreadable, Message: `Cluster "metal": spec.infrastructureRef.name is int64 where a string belongs`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, false, tc.objects...)
			if tc.served != nil {
				server.served["clusters"] = tc.served
			}
			server.compareAccount(t, metalOnOpenStack, tc.want, tc.wantErr)
		})
	}
}

// CAPCS uses the name of the Cluster, and ignores the reference.
func TestCloudSigmaIgnoresTheReference(t *testing.T) {
	server := newServer(t, false, capiCluster("metal", "other"), cluster(with("spec.userEmail", "bob@example.com")))
	server.compareAccount(t, metalCluster, account("bob@example.com"), nil)
	for _, action := range server.machines.Actions() {
		if action.GetResource().Resource == "clusters" {
			t.Errorf("the Cluster is read: %v", action)
		}
	}
}

func TestClusterReadErrorsAreNotAccountErrors(t *testing.T) {
	for verb, want := range map[string]string{
		"get": `read Cluster "metal": etcd is away`, "list": "list clusters.cluster.x-k8s.io: etcd is away",
	} {
		server := newServer(t, false, openStackCluster("metal"))
		server.machines.PrependReactor(verb, "clusters", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("etcd is away")
		})
		_, err := server.objects.Account(t.Context(), metalOnOpenStack)
		if verb == "list" {
			_, err = server.objects.ActingBy(t.Context(), "openstack", namespace, "metal")
		}
		if text(err) != want {
			t.Errorf("%s: error = %q, want %q", verb, text(err), want)
		}
	}
}

func TestActingBy(t *testing.T) {
	server := newServer(t, false,
		capiCluster("referring", "x7k2p"), capiCluster("metal", "x7k2p"), capiCluster("elsewhere", "x7k2p", inNamespace("team-b")),
		capiCluster("moved", "another"), capiCluster("undecided", ""),
	)
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"Clusters with the reference, and that of the same name, without one": {"x7k2p", []string{"metal", "referring", "x7k2p"}},
		"the Cluster of the same name, with an empty reference":               {"undecided", []string{"undecided"}},
		"not the Cluster of the same name, with another reference":            {"moved", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := server.objects.ActingBy(t.Context(), "openstack", namespace, tc.object)
			if err != nil {
				t.Fatal(err)
			}
			var want []clusterapi.Cluster
			for _, name := range tc.want {
				want = append(want, clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: name})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCredentialDependentsByReference(t *testing.T) {
	server := newServer(t, false,
		openStackCluster("metal"), capiCluster("metal", "another"), capiCluster("prod", "metal"),
	)
	got, err := server.objects.CredentialDependents(t.Context(), namespace, "keys", []string{"tenant"})
	if err != nil {
		t.Fatal(err)
	}
	want := []clusterapi.Dependent{{
		Account: openStackAccount("keys", "tenant", ""),
		Cluster: clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "prod"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dependents (-want +got):\n%s", diff)
	}
}
