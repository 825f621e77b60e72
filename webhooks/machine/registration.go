package machine

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Hooks returns the webhooks of the gate: one for each kind, because the kinds have different fields, and one for the Machines of Cluster
// API that own them. There are none in mode Off.
func Hooks(mode v1beta1.Mode, kinds []v1beta1.MachineKind) []webhooks.Hook {
	if mode == v1beta1.Off {
		return nil
	}
	hooks := make([]webhooks.Hook, 0, len(kinds))
	for _, kind := range kinds {
		hooks = append(hooks, hook(mode, kind, celClaim(kind)))
	}
	return append(hooks, webhooks.Hook{
		// The name is not the resource name, because a kind of another group may have the same resource name.
		Name: "owner.machine.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
		// Labels are the same in each version.
		Rules: webhooks.WriteRules(clusterapi.OwnerMachines.Group, "*", clusterapi.OwnerMachines.Resource, clusterapi.OwnerMachines.Resource+"/status"),
		Conditions: []admissionregistrationv1.MatchCondition{{
			Name: "changes-the-cluster", Expression: webhooks.CELChanged("metadata", "labels", clusterapi.ClusterNameLabel),
		}},
	})
}

func hook(mode v1beta1.Mode, kind v1beta1.MachineKind, condition string) webhooks.Hook {
	return webhooks.Hook{
		Name: kind.Resource + ".machine.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
		// The fields are known in this version only. The API server converts objects of other versions.
		Rules:      webhooks.WriteRules(kind.Group, kind.Version, kind.Resource, kind.Resource+"/status"),
		Conditions: []admissionregistrationv1.MatchCondition{{Name: "changes-a-claim", Expression: condition}},
	}
}

// celClaim returns the CEL expression that is true for requests that change a part of a machine's claim: the instance that it names, or
// the cluster, identity or owner for which it names one. newChange does the same, and compares UUIDs by their meaning. The expression may
// select too many requests, but never too few. A heartbeat changes no part of the claim.
func celClaim(kind v1beta1.MachineKind) string {
	owner := fmt.Sprintf("(%s != [] && %s != %s)", celOwners("object"), celOwners("object"), celOwners("oldObject"))
	return celChanges(kind, slices.Insert(celMoves(kind), 1, owner))
}

// celChanges returns the CEL expression for requests that name another instance, or that make one of the moves with an instance.
func celChanges(kind v1beta1.MachineKind, moves []string) string {
	instanceID, providerID := strings.Split(kind.InstanceIDPath, "."), strings.Split(kind.ProviderIDPath, ".")
	// A provider ID that is the prefix of the cloud and the stored instance ID is no new claim; see namesStored. Other spellings are selected.
	return fmt.Sprintf("%s || (%s && ![%s].exists(id, %s && %s == %s + id)) || ((%s != '' || %s != '') && (%s))",
		webhooks.CELSet(instanceID...), webhooks.CELSet(providerID...),
		webhooks.CELField("oldObject", instanceID...), ownership.CELIsID("id"), webhooks.CELField("object", providerID...), webhooks.CELString(providerIDPrefix(kind.Provider)),
		webhooks.CELField("object", instanceID...), webhooks.CELField("object", providerID...), strings.Join(moves, " || "))
}

// providerIDPrefix returns what providers write before the UUID in a provider ID.
func providerIDPrefix(provider v1beta1.Provider) string {
	if provider == v1beta1.ProviderOpenStack {
		return string(provider) + ":///"
	}
	return string(provider) + "://"
}

// celMoves returns the CEL expressions for requests that change the cluster or the identity of a machine.
func celMoves(kind v1beta1.MachineKind) []string {
	moves := []string{webhooks.CELChanged("metadata", "labels", clusterapi.ClusterNameLabel)}
	for _, path := range clusterapi.IdentityPaths(kind.IdentityRefPath) {
		moves = append(moves, webhooks.CELChanged(strings.Split(path, ".")...))
	}
	return moves
}

// maxOwners is the number of owner references that an API server can filter in milliseconds. It takes seconds for the 20,000 that fit into an
// object, and its cost limit would deny every update of an object with 9,000 references to Machines.
const maxOwners = 64

// celOwners returns the CEL expression for the names of the Machines of Cluster API that own an object; see clusterapi.Machine.Owners.
// Other owner references may change, for example when one blocks deletion. Of an object with more than maxOwners, it returns all references.
func celOwners(object string) string {
	references := webhooks.CELField(object, "metadata", "ownerReferences")
	return fmt.Sprintf("(type(%[1]s) != list ? [] : size(%[1]s) > %[2]d ? %[1]s : %[1]s.filter(r, type(r) == map && 'kind' in r && r['kind'] == %[3]q && "+
		"'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith(%[4]q)).map(r, 'name' in r ? r['name'] : ''))",
		references, maxOwners, clusterapi.OwnerKind, clusterapi.OwnerMachines.Group+"/")
}
