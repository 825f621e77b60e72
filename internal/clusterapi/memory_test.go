package clusterapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
