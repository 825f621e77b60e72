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

// Hooks returns how the gate is registered: one webhook for each kind, as each keeps its fields elsewhere, and one for the
// Machines of Cluster API that own them. There are none where the gate is off.
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
					// Of the one version in which the fields are known. What is written in another comes converted.
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
		// Not named after the resource, which a kind of another group may have as well.
		Name: "owner.machine.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{clusterapi.OwnerMachines.Group},
				// Labels are the same in each version. Where none is served there is nothing to be asked about.
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

// celClaim returns the expression, in CEL, that is true of requests which change a part of a machine's claim: one that names
// an instance anew, or changes for whom one is named. It is that of newChange, but for what only the gate can tell, such as
// whether two UUIDs are the same; it may let through too much, never too little. A heartbeat changes none of it.
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

// celChanged returns the expression, in CEL, that is true of requests which set, change or remove the field at a path.
func celChanged(path ...string) string {
	return fmt.Sprintf("%s != %s", webhooks.CELField("object", path...), webhooks.CELField("oldObject", path...))
}

// celOwners returns the expression, in CEL, of the names of the Machines of Cluster API that own an object; see
// clusterapi.Machine.Owners. Other owner references come and go, as when one is blocked from being deleted.
func celOwners(object string) string {
	references := webhooks.CELField(object, "metadata", "ownerReferences")
	return fmt.Sprintf("(type(%s) == list ? %s : []).filter(r, type(r) == map && 'kind' in r && r['kind'] == %q && "+
		"'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith(%q)).map(r, 'name' in r ? r['name'] : '')",
		references, references, clusterapi.OwnerKind, clusterapi.OwnerMachines.Group+"/")
}
