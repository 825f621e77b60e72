package clusterapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// metalOnOpenStack is the Cluster "metal" with machines on OpenStack.
var metalOnOpenStack = clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal"}

func openStackCluster(name string, modify ...func(map[string]any)) *unstructured.Unstructured {
	return object("OpenStackCluster", name, append([]func(map[string]any){identityRef(map[string]any{"name": "keys", "cloudName": "tenant"})}, modify...)...)
}

func identityRef(fields map[string]any) func(map[string]any) { return with("spec.identityRef", fields) }

func labeled(cluster string) func(map[string]any) {
	return with("metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": cluster})
}

func openStackAccount(secret, entry, region string) ownership.Account {
	return ownership.Account{
		Cloud: "openstack", Identity: ownership.Identity{Namespace: namespace, Secret: secret, Entry: entry}, Region: region,
	}
}

func TestAccountOnOpenStack(t *testing.T) {
	keys := openStackAccount("keys", "tenant", "")
	for name, tc := range map[string]struct {
		objects []runtime.Object
		cluster clusterapi.Cluster
		want    ownership.Account
		wantErr *clusterapi.AccountError
	}{
		"a cluster of the same name": {objects: []runtime.Object{openStackCluster("metal")}, want: keys},
		"with a region and a type": {
			objects: []runtime.Object{openStackCluster("metal", identityRef(map[string]any{"type": "Secret", "name": "keys", "cloudName": "tenant", "region": "west"}))},
			want:    openStackAccount("keys", "tenant", "west"),
		},
		"an object with any label": {objects: []runtime.Object{openStackCluster("metal", labeled("other"))}, want: keys},
		"no cluster": {
			objects: []runtime.Object{openStackCluster("metal", inNamespace("team-b")), cluster(with("spec.userEmail", "bob@example.com"))},
			wantErr: &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: `there is no OpenStackCluster "metal" in namespace "team-a"`},
		},
		"a machine of no cluster": {
			cluster: clusterapi.Cluster{Provider: "openstack", Namespace: namespace},
			wantErr: &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: `there is no OpenStackCluster "" in namespace "team-a"`},
		},
		"no reference": {
			objects: []runtime.Object{openStackCluster("metal", with("spec.identityRef", nil))},
			wantErr: &clusterapi.AccountError{
				Reason:  clusterapi.IdentityMissing,
				Message: `OpenStackCluster "metal" refers to no credentials: spec.identityRef.name and spec.identityRef.cloudName have to be set`,
			},
		},
		"a name that takes much memory": {
			objects: []runtime.Object{openStackCluster("metal", identityRef(map[string]any{"name": "keys", "cloudName": strings.Repeat("x", 256)}))},
			wantErr: &clusterapi.AccountError{
				Reason:  clusterapi.IdentityUnsupported,
				Message: `OpenStackCluster "metal": a field of spec.identityRef has more than 255 bytes, which warrantgate does not support; use shorter names`,
			},
		},
		"a reference to another kind": {
			objects: []runtime.Object{openStackCluster("metal", identityRef(map[string]any{"type": "ClusterIdentity", "name": "keys", "cloudName": "tenant"}))},
			wantErr: &clusterapi.AccountError{
				Reason:  clusterapi.IdentityUnsupported,
				Message: `OpenStackCluster "metal": spec.identityRef.type is "ClusterIdentity", which warrantgate does not support; refer to a Secret`,
			},
		},
		"a reference of the wrong type": {
			objects: []runtime.Object{openStackCluster("metal", identityRef(map[string]any{"name": int64(5)}))},
			wantErr: &clusterapi.AccountError{
				Reason: clusterapi.ClusterUnreadable, Message: `OpenStackCluster "metal": spec.identityRef.name is int64 where a string belongs`,
			},
		},
		"an identity of the machine": {
			objects: []runtime.Object{openStackCluster("metal")},
			cluster: clusterapi.Cluster{
				Provider: "openstack", Namespace: namespace, Name: "metal", Identity: clusterapi.IdentityRef{Name: "own", CloudName: "mine", Region: "east"},
			},
			want: openStackAccount("own", "mine", "east"),
		},
		"an incomplete identity of the machine": {
			cluster: clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal", Identity: clusterapi.IdentityRef{Path: "spec.keys", Name: "own"}},
			wantErr: &clusterapi.AccountError{
				Reason:  clusterapi.IdentityMissing,
				Message: `the machine refers to no credentials: spec.keys.name and spec.keys.cloudName have to be set`,
			},
		},
		"a provider without a known cluster kind": {
			cluster: clusterapi.Cluster{Provider: "other", Namespace: namespace, Name: "metal"},
			wantErr: &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: `provider "other" has no known kind of clusters`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.cluster == (clusterapi.Cluster{}) {
				tc.cluster = metalOnOpenStack
			}
			newServer(t, false, tc.objects...).compareAccount(t, tc.cluster, tc.want, tc.wantErr)
		})
	}
}

func TestIdentityOfAMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    clusterapi.Kind
		modify  func(map[string]any)
		want    clusterapi.IdentityRef
		wantErr string
	}{
		"nothing":                               {kind: openStackMachines, modify: with("spec.flavor", "small")},
		"a null":                                {kind: openStackMachines, modify: with("spec.identityRef", nil)},
		"its own":                               {kind: openStackMachines, modify: identityRef(map[string]any{"name": "own", "cloudName": "mine", "region": "east", "type": "Secret"}), want: clusterapi.IdentityRef{Path: "spec.identityRef", Type: "Secret", Name: "own", CloudName: "mine", Region: "east"}},
		"at another path":                       {kind: bringing("spec.keys", metalMachines), modify: with("spec.keys", map[string]any{"name": "own", "cloudName": "mine"}), want: clusterapi.IdentityRef{Path: "spec.keys", Name: "own", CloudName: "mine"}},
		"a text":                                {kind: openStackMachines, modify: with("spec.identityRef", "own"), wantErr: "spec.identityRef.type cannot be read: the field above it is not an object"},
		"a number":                              {kind: openStackMachines, modify: identityRef(map[string]any{"name": "own", "cloudName": 1.5}), wantErr: "spec.identityRef.cloudName is float64 where a string belongs"},
		"a kind without identities":             {kind: cloudSigmaMachines, modify: identityRef(map[string]any{"name": "own", "cloudName": "mine"})},
		"a kind without identities, wrong type": {kind: cloudSigmaMachines, modify: with("spec.identityRef", "own")},
	} {
		t.Run(name, func(t *testing.T) {
			object := machine(tc.kind, "worker", tc.modify)
			read, err := tc.kind.Read(object)
			if diff := cmp.Diff(tc.want, read.Identity); text(err) != tc.wantErr || diff != "" {
				t.Errorf("Read() error %v, identity (-want +got):\n%s", err, diff)
			}
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := tc.kind.Decode(raw)
			if diff := cmp.Diff(tc.want, decoded.Identity); text(err) != tc.wantErr || diff != "" {
				t.Errorf("Decode() error %v, identity (-want +got):\n%s", err, diff)
			}
			if err == nil && decoded.Cluster().Identity != tc.want {
				t.Errorf("Cluster() = %+v", decoded.Cluster())
			}
		})
	}
}

// The path of a kind is configured. Errors name it.
func TestIdentityAtAnotherPath(t *testing.T) {
	for want, keys := range map[string]any{
		`Farm "metal" refers to no credentials: spec.keys.name and spec.keys.cloudName have to be set`:                      nil,
		`Farm "metal": spec.keys.type is "ClusterIdentity", which warrantgate does not support; refer to a Secret`:          map[string]any{"type": "ClusterIdentity"},
		`Farm "metal": a field of spec.keys has more than 255 bytes, which warrantgate does not support; use shorter names`: map[string]any{"name": "keys", "cloudName": strings.Repeat("x", 256)},
		`Farm "metal": spec.keys.name is int64 where a string belongs`:                                                      map[string]any{"name": int64(5)},
	} {
		_, err := clusterapi.ReadIdentity(object("Farm", "metal", with("spec.keys", keys)), "spec.keys")
		if text(err) != want {
			t.Errorf("ReadIdentity() error = %v, want %s", err, want)
		}
	}
}

// A provider does not trim the cloud and the region, so a trimmed one would be another account than the provider's.
func TestBlanksInAReferenceCount(t *testing.T) {
	blanks := strings.Repeat(" ", 1100)
	for name, ref := range map[string]map[string]any{
		"cloudName": {"name": "keys", "cloudName": blanks + "tenant"},
		"region":    {"name": "keys", "cloudName": "tenant", "region": blanks},
	} {
		server := newServer(t, false, openStackCluster("metal", labeled("metal"), identityRef(ref)))
		got, err := server.objects.Account(t.Context(), metalOnOpenStack)
		if rejected, ok := errors.AsType[*clusterapi.AccountError](err); !ok || rejected.Reason != clusterapi.IdentityUnsupported {
			t.Errorf("%s: account %+v, %v; want %s", name, got, err, clusterapi.IdentityUnsupported)
		}
	}
}
