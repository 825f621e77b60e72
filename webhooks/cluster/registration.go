package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// Hooks returns the webhooks of the gate Impersonation: one for each kind, because each names users in other fields. There are none in
// the mode Off.
func Hooks(config v1beta1.Cluster) []webhooks.Hook {
	return hooksOf(config, kindsOf(config.Impersonation))
}

// ProviderHooks returns the webhooks for the kinds of a provider's APIExport on kcp, which does not export Secrets.
func ProviderHooks(config v1beta1.Cluster) []webhooks.Hook {
	return hooksOf(config, exportable(kindsOf(config.Impersonation)))
}

func exportable(kinds []kind) []kind {
	return slices.DeleteFunc(kinds, func(k kind) bool { return k.resource == secrets })
}

func hooksOf(config v1beta1.Cluster, kinds []kind) []webhooks.Hook {
	mode := config.Impersonation.Mode
	if mode == v1beta1.Off {
		return nil
	}
	hooks := make([]webhooks.Hook, 0, len(kinds))
	for _, kind := range kinds {
		hooks = append(hooks, kind.hook("cluster", Path, mode, "names-another-user", config.ExemptNamespaces))
	}
	return hooks
}

// DelegationHooks returns the webhooks of the gate Delegation: one for each kind that refers to credentials or holds them, and one for
// the Clusters of Cluster API, which refer to those kinds. There are none in the mode Off.
func DelegationHooks(config v1beta1.Cluster) []webhooks.Hook {
	mode := config.Delegation.Mode
	if mode == v1beta1.Off {
		return nil
	}
	var hooks []webhooks.Hook
	for _, kind := range delegationKindsOf(config.Delegation) {
		hooks = append(hooks, kind.hook("delegation", DelegationPath, mode, "names-other-credentials", config.ExemptNamespaces))
	}
	return append(hooks, webhooks.Hook{
		// The name is not the resource name, because a kind of another group may have the same resource name.
		Name: "reference.delegation.warrantgate.dev", Path: DelegationPath, FailurePolicy: webhooks.FailurePolicy(mode),
		// The name in the reference is the same field in each version.
		Rules: webhooks.WriteRules(clusterapi.CoreClusters.Group, "*", clusterapi.CoreClusters.Resource),
		Conditions: []admissionregistrationv1.MatchCondition{{
			Name: "refers-to-another-cluster", Expression: webhooks.CELSet("spec", "infrastructureRef", "name"),
		}},
	})
}

// hook returns the webhook of a gate for the kind. condition is the name of its match condition. It is not called for Secrets of exempt
// namespaces, so that they can be written while no warrantgate runs.
func (k kind) hook(gate, path string, mode v1beta1.Mode, condition string, exempt []string) webhooks.Hook {
	conditions := []admissionregistrationv1.MatchCondition{{Name: condition, Expression: k.condition()}}
	if k.resource == secrets && len(exempt) > 0 {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{
			Name: "namespace-is-not-exempt", Expression: "!(request.namespace in [" + strings.Join(quotedAll(exempt), ", ") + "])",
		})
	}
	return webhooks.Hook{
		Name: k.resource.Resource + "." + gate + ".warrantgate.dev", Path: path, FailurePolicy: webhooks.FailurePolicy(mode),
		// The fields are known in this version only. The API server converts objects of other versions.
		Rules:      webhooks.WriteRules(k.resource.Group, k.resource.Version, k.written()...),
		Conditions: conditions,
	}
}

// quotedAll returns string literals of CEL.
func quotedAll(values []string) []string {
	quoted := make([]string, 0, len(values))
	for _, value := range values {
		quoted = append(quoted, strconv.Quote(value))
	}
	return quoted
}

// written returns the resources that a write of the object's fields or annotations may name. Of a configured kind, that may be the status: its
// path may be there, and the API server stores annotations of many built-in kinds with their status.
func (k kind) written() []string {
	resources := []string{k.resource.Resource}
	if k.configured {
		resources = append(resources, k.resource.Resource+"/status")
	}
	return resources
}

// celCluster is true if the user, the Secret that names it, or the region changes, and also where one is removed: a cluster without
// a user can act as the shared account (legacy credentials).
func celCluster() string {
	return strings.Join([]string{
		webhooks.CELChanged("spec", "userEmail"), webhooks.CELChanged("spec", "userRef", "name"), webhooks.CELChanged("spec", "userRef", "namespace"),
		webhooks.CELChanged("spec", "region"),
	}, " || ")
}

// celNaming is true if an object of a configured kind names another user.
func celNaming(k v1beta1.UserKind) string {
	var expressions []string
	if k.EmailPath != "" {
		expressions = append(expressions, webhooks.CELSet(strings.Split(k.EmailPath, ".")...))
	}
	if len(k.Annotations) > 0 {
		expressions = append(expressions, celAnnotations(k.Annotations))
	}
	return strings.Join(expressions, " || ")
}

// celOwner is true if a KdcCluster names another user, also if the newer annotation is removed and the older one counts then.
func celOwner() string {
	newer, older := ownerAnnotations[0], ownerAnnotations[1]
	return fmt.Sprintf("%s || %s != '' && %s", celAnnotations(ownerAnnotations),
		webhooks.CELField("object", "metadata", "annotations", older), webhooks.CELChanged("metadata", "annotations", newer))
}

func celAnnotations(keys []string) string {
	expressions := make([]string, 0, len(keys))
	for _, key := range keys {
		expressions = append(expressions, webhooks.CELSet("metadata", "annotations", key))
	}
	return strings.Join(expressions, " || ")
}
