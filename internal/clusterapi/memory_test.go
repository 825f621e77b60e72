package clusterapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
)

// A tenant can create any number of objects, of more than a MiB each. All of them are kept in memory, so what is kept of each must be small.
func TestEssentialsOfLargeObjectsAreSmall(t *testing.T) {
	const limit = 16 << 10
	long := strings.Repeat("x", 1<<20)
	reference := func(field string) func(map[string]any) {
		owner := owning("one")
		owner[field] = fmt.Sprint(owner[field]) + long
		return with("metadata.ownerReferences", []any{owner, owning("two")})
	}
	for name, tc := range map[string]struct {
		keep   func(any) (any, error)
		object *unstructured.Unstructured
	}{
		"the UID of an owner":     {cloudSigmaMachines.Essentials, machine(cloudSigmaMachines, "a", reference("uid"))},
		"the name of an owner":    {cloudSigmaMachines.Essentials, machine(cloudSigmaMachines, "a", reference("name"))},
		"the version of an owner": {cloudSigmaMachines.Essentials, machine(cloudSigmaMachines, "a", reference("apiVersion"))},
		"an instance ID":          {cloudSigmaMachines.Essentials, machine(cloudSigmaMachines, "a", with("status.instanceID", long))},
		"a provider ID":           {cloudSigmaMachines.Essentials, machine(cloudSigmaMachines, "a", with("spec.providerID", long))},
		"an object for an ID":     {cloudSigmaMachines.Essentials, machine(cloudSigmaMachines, "a", with("spec.providerID", map[string]any{"a": long}))},
		"a region":                {clusterapi.EssentialsOfCluster, cluster(with("spec.region", long))},
		"a user":                  {clusterapi.EssentialsOfCluster, cluster(with("spec.userEmail", long))},
		"a reference to a Secret": {clusterapi.EssentialsOfCluster, cluster(with("spec.userRef", map[string]any{"name": long, "namespace": long}))},
	} {
		t.Run(name, func(t *testing.T) {
			kept, err := tc.keep(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(kept)
			if err != nil || len(text) > limit {
				t.Errorf("%d bytes are kept, more than %d, %v", len(text), limit, err)
			}
		})
	}
}

// Lists of machines are held in memory, too.
func TestListedMachinesAreSmall(t *testing.T) {
	const limit = 16 << 10
	labels := map[string]any{"cluster.x-k8s.io/cluster-name": "metal"}
	for i := range 5_000 {
		labels[fmt.Sprintf("%0100d", i)] = strings.Repeat("x", 63)
	}
	server := newServer(t, false, machine(cloudSigmaMachines, "a", with("metadata.labels", labels), with("status.instanceID", ownID),
		with("spec.providerID", strings.Repeat("x", 1<<20)), with("metadata.ownerReferences", []any{owning("one"), owning(strings.Repeat("x", 1<<20))})))
	for name, list := range map[string]func() ([]clusterapi.Machine, error){
		"machines of an owner":  func() ([]clusterapi.Machine, error) { return server.objects.Owned(t.Context(), namespace, "one") },
		"machines of a cluster": func() ([]clusterapi.Machine, error) { return server.objects.Holders(t.Context(), metalCluster) },
	} {
		found, err := list()
		if err != nil || len(found) != 1 || found[0].ClusterName() != "metal" || len(found[0].IDs()) != 1 {
			t.Errorf("%s: found %d, %v, want one with a cluster and an ID", name, len(found), err)
			continue
		}
		text, err := json.Marshal([]any{found[0].ObjectMeta, found[0].InstanceID, found[0].ProviderID, found[0].Identity})
		if err != nil || len(text) > limit {
			t.Errorf("%s: %d bytes are kept, more than %d, %v", name, len(text), limit, err)
		}
	}
}

// So are the accounts of clusters: the audit holds those of all tenants, and a write of a Secret those of the clusters that refer to it.
func TestAccountsOfLargeClustersAreSmall(t *testing.T) {
	const limit = 8 << 10
	long := strings.Repeat("x", 1<<20)
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false, cluster(with("spec.userEmail", long)),
			cluster(with("metadata.name", "by-secret"), with("spec.region", long), with("spec.userRef", map[string]any{"name": "bob"})))
		defer server.start(t.Context(), t)()
		account, err := server.objects.Account(t.Context(), metalCluster)
		if text := fmt.Sprint(account); err != nil || len(text) > limit {
			t.Errorf("account of %d bytes, more than %d, %v", len(text), limit, err)
		}
		dependents, err := server.objects.UserDependents(t.Context(), namespace, "bob", "next@example.com")
		if text := fmt.Sprint(dependents); err != nil || len(dependents) != 1 || len(text) > limit {
			t.Errorf("%d dependents of %d bytes, want one of less than %d, %v", len(dependents), len(text), limit, err)
		}
	})
}

// Large objects are read in small pages. Without a limit, one request can exceed the memory of the process.
func TestListsAreReadInPages(t *testing.T) {
	server := newServer(t, false, openStackCluster("metal", with("spec.tags", []any{strings.Repeat("x", 1<<20)})))
	fields := []clusterapi.IdentityField{{Resource: clusterapi.OpenStackClusters, Path: "spec.identityRef"}}
	if _, err := server.objects.Refers(t.Context(), fields, namespace, "keys", "tenant"); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for _, action := range server.machines.Actions() {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			lists++
			if limit := list.ListOptions.Limit; limit < 1 || limit > 10 {
				t.Errorf("%s are listed with the limit %d", list.GetResource().Resource, limit)
			}
		}
	}
	if lists == 0 {
		t.Error("nothing was listed")
	}
}
