package machine

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
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
		hooks = append(hooks, webhooks.Hook{
			Name: kind.Resource + ".machine.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{kind.Group},
					// The fields are known in this version only. The API server converts objects that are written in another one.
					APIVersions: []string{kind.Version},
					Resources:   []string{kind.Resource, kind.Resource + "/status"},
					Scope:       ptr.To(admissionregistrationv1.AllScopes), // a rule of the wrong scope would never match
				},
			}},
			Conditions: []admissionregistrationv1.MatchCondition{{
				Name: "changes-a-claim", Expression: celClaim(kind),
			}},
		})
	}
	return append(hooks, webhooks.Hook{
		// The name is not the resource name, because a kind of another group may have the same resource name.
		Name: "owner.machine.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{clusterapi.OwnerMachines.Group},
				// Labels are the same in each version.
				APIVersions: []string{"*"},
				Resources:   []string{clusterapi.OwnerMachines.Resource, clusterapi.OwnerMachines.Resource + "/status"},
				Scope:       ptr.To(admissionregistrationv1.AllScopes),
			},
		}},
		Conditions: []admissionregistrationv1.MatchCondition{{
			Name: "changes-the-cluster", Expression: celChanged("metadata", "labels", clusterapi.ClusterNameLabel),
		}},
	})
}

// celClaim returns the CEL expression that is true for requests that change a part of a machine's claim: the instance that it names, or
// the cluster, identity or owner for which it names one. newChange does the same, and compares UUIDs by their meaning. The expression may
// select too many requests, but never too few. A heartbeat changes no part of the claim.
func celClaim(kind v1beta1.MachineKind) string {
	instanceID, providerID := strings.Split(kind.InstanceIDPath, "."), strings.Split(kind.ProviderIDPath, ".")
	moves := []string{
		celChanged("metadata", "labels", clusterapi.ClusterNameLabel),
		fmt.Sprintf("(%s != [] && %s != %s)", celOwners("object"), celOwners("object"), celOwners("oldObject")),
	}
	for _, path := range clusterapi.IdentityPaths(kind.IdentityRefPath) {
		moves = append(moves, celChanged(strings.Split(path, ".")...))
	}
	return fmt.Sprintf("%s || %s || ((%s != '' || %s != '') && (%s))",
		webhooks.CELSetAnew(instanceID...), webhooks.CELSetAnew(providerID...),
		webhooks.CELField("object", instanceID...), webhooks.CELField("object", providerID...), strings.Join(moves, " || "))
}

// celChanged returns the CEL expression that is true of requests which set, change or remove the field at a path.
func celChanged(path ...string) string {
	return fmt.Sprintf("%s != %s", webhooks.CELField("object", path...), webhooks.CELField("oldObject", path...))
}

// celOwners returns the CEL expression for the names of the Machines of Cluster API that own an object; see clusterapi.Machine.Owners.
// Other owner references may change, for example when one blocks deletion.
func celOwners(object string) string {
	references := webhooks.CELField(object, "metadata", "ownerReferences")
	return fmt.Sprintf("(type(%s) == list ? %s : []).filter(r, type(r) == map && 'kind' in r && r['kind'] == %q && "+
		"'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith(%q)).map(r, 'name' in r ? r['name'] : '')",
		references, references, clusterapi.OwnerKind, clusterapi.OwnerMachines.Group+"/")
}
