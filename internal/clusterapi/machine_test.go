package clusterapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/clusterapi"
)

// read contains the fields of a Machine that differ between the test cases.
type read struct {
	InstanceID, ProviderID, Cluster string
	IDs                             []string
}

func readOf(m clusterapi.Machine) read {
	return read{InstanceID: m.InstanceID, ProviderID: m.ProviderID, Cluster: m.ClusterName(), IDs: m.IDs()}
}

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    clusterapi.Kind // default: cloudSigmaMachines
		modify  []func(map[string]any)
		want    read
		wantErr string
	}{
		"a new machine":          {want: read{Cluster: "metal"}},
		"a machine of a cluster": {modify: []func(map[string]any){with("metadata.labels", map[string]any{"a": "b"})}},
		"labels are null":        {modify: []func(map[string]any){with("metadata.labels", nil)}},
		"labels of another type": {modify: []func(map[string]any){with("metadata.labels", []any{"cluster.x-k8s.io/cluster-name"})}},
		"both fields, in the format of providers": {
			modify: []func(map[string]any){with("status.instanceID", ownID), with("spec.providerID", "cloudsigma://"+ownID)},
			want:   read{InstanceID: ownID, ProviderID: "cloudsigma://" + ownID, Cluster: "metal", IDs: []string{ownID}},
		},
		"both fields, of two instances": {
			modify: []func(map[string]any){with("status.instanceID", ownID), with("spec.providerID", "cloudsigma://"+otherID)},
			want:   read{InstanceID: ownID, ProviderID: "cloudsigma://" + otherID, Cluster: "metal", IDs: []string{ownID, otherID}},
		},
		"only the provider ID": {
			modify: []func(map[string]any){with("spec.providerID", "cloudsigma://"+ownID)},
			want:   read{ProviderID: "cloudsigma://" + ownID, Cluster: "metal", IDs: []string{ownID}},
		},
		"fields are not changed": {
			modify: []func(map[string]any){with("status.instanceID", " 5D0C3E1F-9A47-4B6E-8F21-7C9D0E1F2A3B ")},
			want:   read{InstanceID: " 5D0C3E1F-9A47-4B6E-8F21-7C9D0E1F2A3B ", Cluster: "metal", IDs: []string{ownID}},
		},
		"invalid IDs": {
			modify: []func(map[string]any){with("status.instanceID", "soon"), with("spec.providerID", "openstack:///x")},
			want:   read{InstanceID: "soon", ProviderID: "openstack:///x", Cluster: "metal"},
		},
		"a kind with the ID in spec": {
			kind: metalMachines, modify: []func(map[string]any){with("spec.instanceID", ownID), with("status.instanceID", otherID)},
			want: read{InstanceID: ownID, Cluster: "metal", IDs: []string{ownID}},
		},
		"null": {
			modify: []func(map[string]any){with("status.instanceID", nil), with("spec", nil)},
			want:   read{Cluster: "metal"},
		},
		"a number": {
			modify:  []func(map[string]any){with("status.instanceID", int64(5))},
			wantErr: "status.instanceID is int64 where a string belongs",
		},
		"a list": {
			modify:  []func(map[string]any){with("spec.providerID", []any{ownID})},
			wantErr: "spec.providerID is []interface {} where a string belongs",
		},
		"a string as status": {
			modify:  []func(map[string]any){with("status", "ready")},
			wantErr: "status.instanceID cannot be read: the field above it is not an object",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := tc.kind
			if kind.Group == "" {
				kind = cloudSigmaMachines
			}
			got, err := kind.Read(machine(kind, "hl9tl-qbrcf", tc.modify...))
			if message := text(err); message != tc.wantErr {
				t.Fatalf("Read() error = %q, want %q", message, tc.wantErr)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want, readOf(got)); diff != "" {
				t.Errorf("Read() (-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestMachineAccessors(t *testing.T) {
	owner := map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "hl9tl", "uid": "0eb3"}
	got, err := cloudSigmaMachines.Read(machine(cloudSigmaMachines, "hl9tl-qbrcf",
		with("metadata.resourceVersion", "7"), with("metadata.ownerReferences", []any{owner}), with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z")))
	if err != nil {
		t.Fatal(err)
	}
	deleted := metav1.Date(2026, 2, 4, 12, 3, 29, 0, metav1.Now().UTC().Location()) // in the location of the parser
	want := metav1.ObjectMeta{
		Name: "hl9tl-qbrcf", Namespace: namespace, UID: "uid-hl9tl-qbrcf", ResourceVersion: "7", DeletionTimestamp: &deleted,
		Labels:          map[string]string{"cluster.x-k8s.io/cluster-name": "metal"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Name: "hl9tl", UID: "0eb3"}},
	}
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if got, want := got.String(), `CloudSigmaMachine "hl9tl-qbrcf" of namespace "team-a"`; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
	wantReference := corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "CloudSigmaMachine",
		Namespace: namespace, Name: "hl9tl-qbrcf", UID: "uid-hl9tl-qbrcf", ResourceVersion: "7",
	}
	if diff := cmp.Diff(wantReference, got.Reference()); diff != "" {
		t.Errorf("Reference() (-want +got):\n%s", diff)
	}
	wantResource := schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "cloudsigmamachines"}
	if diff := cmp.Diff(wantResource, got.Kind.Resource()); diff != "" {
		t.Errorf("Resource() (-want +got):\n%s", diff)
	}
}

// openStackServers is the kind that a configuration file adds for newer versions of Cluster API Provider OpenStack.
var openStackServers = func() clusterapi.Kind {
	kind := bringing("spec.identityRef", newKind("OpenStackServer", "openstackservers", "status.instanceID", "openstack"))
	kind.Version = "v1alpha1"
	return kind
}()

func TestSameServer(t *testing.T) {
	of := func(kind clusterapi.Kind, modify ...func(map[string]any)) clusterapi.Machine {
		read, err := kind.Read(machine(kind, "worker", modify...))
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	for name, tc := range map[string]struct {
		one, other clusterapi.Machine
		want       bool
	}{
		"a machine and its server":                    {of(openStackMachines), of(openStackServers), true},
		"a machine and a server of another name":      {of(openStackMachines), of(openStackServers, with("metadata.name", "other")), false},
		"a machine and a server of another namespace": {of(openStackMachines), of(openStackServers, inNamespace("team-b")), false},
		"two machines": {of(openStackMachines), of(openStackMachines), false},
		"two servers":  {of(openStackServers), of(openStackServers), false},
		"a machine of another cloud and a server": {of(cloudSigmaMachines), of(openStackServers), false},
		"a machine and one of another kind":       {of(openStackMachines), of(metalMachines), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.one.SameServer(tc.other); got != tc.want {
				t.Errorf("SameServer() = %t, want %t", got, tc.want)
			}
			if got := tc.other.SameServer(tc.one); got != tc.want {
				t.Errorf("the other way round: SameServer() = %t, want %t", got, tc.want)
			}
		})
	}
}
