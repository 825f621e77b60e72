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

// firstTimeoutSeconds is how long an API server waits for the answer about a first claim. The gate asks the cloud again until then.
const firstTimeoutSeconds = 10

// Hooks returns the webhooks of the gate: two for each kind, because the kinds have different fields, and one for the Machines of Cluster
// API that own them. There are none in mode Off.
//
// Kinds of external providers have one: with one account for all tenants, which no cloud protects from each other, their first claims must not be
// admitted while no warrantgate answers.
//
// First claims have a webhook of their own. While no warrantgate answers, it admits them, unless the policy is Deny: a provider that loses the
// first claim of a machine creates another server. Changed claims are denied then, and retried.
func Hooks(mode v1beta1.Mode, unknown v1beta1.UnknownPolicy, kinds []v1beta1.MachineKind) []webhooks.Hook {
	if mode == v1beta1.Off {
		return nil
	}
	hooks := make([]webhooks.Hook, 0, 2*len(kinds)+1)
	for _, kind := range kinds {
		condition := celChanged(kind)
		if kind.Provider.IsExternal() {
			condition = webhooks.CELSet(strings.Split(kind.ProviderIDPath, ".")...)
		}
		hooks = append(hooks, hook(mode, kind, condition))
	}
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind v1beta1.MachineKind) bool { return kind.Provider.IsExternal() })
	for _, kind := range kinds {
		first := hook(mode, kind, celFirst(kind))
		first.Name, first.Conditions[0].Name, first.TimeoutSeconds = "first."+first.Name, "first-claim", firstTimeoutSeconds
		if unknown != v1beta1.Deny {
			first.FailurePolicy = admissionregistrationv1.Ignore
		}
		hooks = append(hooks, first)
	}
	return append(hooks, ownerHook(mode, kinds))
}

// ownerHook returns the webhook for the Machines of Cluster API. It is not called for their creation, which must never wait for warrantgate:
// the audit reports a Machine that is deleted and created again with another label.
func ownerHook(mode v1beta1.Mode, kinds []v1beta1.MachineKind) webhooks.Hook {
	// Labels are the same in each version.
	rules := webhooks.WriteRules(clusterapi.OwnerMachines.Group, "*", clusterapi.OwnerMachines.Resource, clusterapi.OwnerMachines.Resource+"/status")
	rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	return webhooks.Hook{
		// The name is not the resource name, because a kind of another group may have the same resource name.
		Name: "owner.machine.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode), Rules: rules,
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "changes-the-cluster", Expression: webhooks.CELChanged("metadata", "labels", clusterapi.ClusterNameLabel)},
			{Name: "has-a-gated-machine", Expression: celInfrastructure(kinds)},
		},
	}
}

// celInfrastructure returns the CEL expression that is false for a Machine of Cluster API whose spec.infrastructureRef names none of the kinds,
// before and after. It names a group in apiVersion in v1beta1, and in apiGroup in v1beta2. A reference without a kind or a group counts as one to
// each kind.
func celInfrastructure(kinds []v1beta1.MachineKind) string {
	gated := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		gated = append(gated, fmt.Sprintf("[%q, %q]", kind.Group, kind.Kind))
	}
	path := []string{"spec", "infrastructureRef"}
	return fmt.Sprintf("[%s, %s].map(ref, ['kind', 'apiGroup', 'apiVersion'].map(name, type(ref) == map && name in ref && type(ref[name]) == string ? ref[name] : ''))"+
		".exists(ref, ref[0] == '' || ref[1] == '' && ref[2] == '' || [%s].exists(kind, ref[0] == kind[1] && (ref[1] == kind[0] || ref[2].startsWith(kind[0] + '/'))))",
		webhooks.CELField("object", path...), webhooks.CELField("oldObject", path...), strings.Join(gated, ", "))
}

func hook(mode v1beta1.Mode, kind v1beta1.MachineKind, condition string) webhooks.Hook {
	return webhooks.Hook{
		Name: kind.Resource + ".machine.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
		// The fields are known in this version only. The API server converts objects of other versions.
		Rules:      webhooks.WriteRules(kind.Group, kind.Version, kind.Resource, kind.Resource+"/status"),
		Conditions: []admissionregistrationv1.MatchCondition{{Name: "changes-a-claim", Expression: condition}},
	}
}

// celChanged returns the CEL expression that is true for requests that change a part of a machine's claim and are no first claims: the
// instance that it names, or the cluster, identity or owner for which it names one. newChange does the same, and compares UUIDs by their
// meaning. The expression may select too many requests, but never too few. A heartbeat changes no part of the claim.
//
// An error of celFirst is an error of this expression, too, so that no request is admitted because both webhooks could not evaluate it.
func celChanged(kind v1beta1.MachineKind) string {
	return fmt.Sprintf("[%s].exists(moves, !(%s) && (%s || ((%s != '' || %s != '') && (moves))))", celMoved(kind), celFirstOf(kind), celNames(kind),
		webhooks.CELField("object", strings.Split(kind.InstanceIDPath, ".")...), webhooks.CELField("object", strings.Split(kind.ProviderIDPath, ".")...))
}

// celFirst returns the CEL expression for first claims, as change.first.
func celFirst(kind v1beta1.MachineKind) string {
	return fmt.Sprintf("[%s].exists(moves, %s)", celMoved(kind), celFirstOf(kind))
}

// celFirstOf is celFirst with the variable moves: an update of a machine that named no instance in the first field, can be decoded before and
// after the update, and names one now.
func celFirstOf(kind v1beta1.MachineKind) string {
	instanceID, providerID := strings.Split(kind.InstanceIDPath, "."), strings.Split(kind.ProviderIDPath, ".")
	conditions := []string{"!moves", webhooks.CELField("oldObject", instanceID...) + " == ''"}
	for _, object := range []string{"oldObject", "object"} {
		conditions = append(conditions, webhooks.CELReadable(object, instanceID...), webhooks.CELReadable(object, providerID...))
	}
	return strings.Join(append(conditions, "("+celNames(kind)+")"), " && ")
}

// celMoved returns the CEL expression for requests that change the cluster, identity or owner of a machine.
func celMoved(kind v1beta1.MachineKind) string {
	owner := fmt.Sprintf("(%s != [] && %s != %s)", celOwners("object"), celOwners("object"), celOwners("oldObject"))
	return strings.Join(slices.Insert(celMoves(kind), 1, owner), " || ")
}

// celNames returns the CEL expression for requests that name another instance. A provider ID that is the prefix of the cloud and the stored
// instance ID is no new claim; see namesStored. Other spellings of it are selected.
func celNames(kind v1beta1.MachineKind) string {
	instanceID, providerID := strings.Split(kind.InstanceIDPath, "."), strings.Split(kind.ProviderIDPath, ".")
	return fmt.Sprintf("%s || (%s && ![%s].exists(id, %s && %s == %s + id))", webhooks.CELSet(instanceID...), webhooks.CELSet(providerID...),
		webhooks.CELField("oldObject", instanceID...), ownership.CELIsID("id"), webhooks.CELField("object", providerID...),
		webhooks.CELString(providerIDPrefix(kind.Provider)))
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
