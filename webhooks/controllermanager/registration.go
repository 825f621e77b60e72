package controllermanager

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// Paths of the gates.
const (
	IdentityPath  = "/controllermanager/identity"
	IntegrityPath = "/controllermanager/integrity"
)

// CEL expressions that select the requests for which the webhooks are called.
const (
	// celNotDeleted is false for updates of an object that is being deleted, such as the removal of a finalizer. It reads the stored
	// object, because the requester controls the new one.
	celNotDeleted = "oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null"

	// celChanged is true for a new object, and for updates that change the pod template or the labels. A label contains the name of
	// the cluster.
	celChanged = "oldObject == null || object.?spec.?template != oldObject.?spec.?template || " +
		celLabels + " != " + celLabelsBefore
	// A missing map, null and an empty map all mean that there are no labels.
	celLabels       = "(object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels)"
	celLabelsBefore = "(oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)"
)

// Hooks returns the webhooks of the gates. Each gate has one webhook for objects that are selected by labels, and one for objects
// that are selected by name. There are none in mode Off.
//
// The API server applies the selector to the object before and after the request, so a request that removes the labels is checked
// and denied. Objects that existed before the gates are checked at their next change, such as a restart.
func Hooks(config v1beta1.ControllerManager) (mutating, validating []webhooks.Hook) {
	if config.Mode == v1beta1.Off {
		return nil, nil
	}
	return hooks("controller-manager-identity.warrantgate.dev", IdentityPath, config),
		hooks("controller-manager-integrity.warrantgate.dev", IntegrityPath, config)
}

func hooks(name, path string, config v1beta1.ControllerManager) []webhooks.Hook {
	var hooks []webhooks.Hook
	if config.Selector != nil || len(config.Objects) == 0 {
		labeled := newHook(name, path, config.Mode)
		labeled.Selector = config.Selector
		hooks = append(hooks, labeled)
	}
	if len(config.Objects) > 0 {
		named := newHook("named-"+name, path, config.Mode)
		condition := admissionregistrationv1.MatchCondition{Name: "names-a-controller-manager", Expression: webhooks.CELNamed("object.metadata.?name.orValue('')", config.Objects)}
		named.Conditions = append([]admissionregistrationv1.MatchCondition{condition}, named.Conditions...)
		hooks = append(hooks, named)
	}
	return hooks
}

func newHook(name, path string, mode v1beta1.Mode) webhooks.Hook {
	return webhooks.Hook{
		Name: name, Path: path, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{appsv1.GroupName}, APIVersions: []string{appsv1.SchemeGroupVersion.Version},
				// No subresource changes the pod template. A write of the status can change the labels of a DaemonSet or a StatefulSet, but not
				// those of a Deployment (PrepareForUpdate of their status strategies in the API server).
				Resources: []string{"deployments", "daemonsets", "daemonsets/status", "statefulsets", "statefulsets/status"},
				Scope:     ptr.To(admissionregistrationv1.NamespacedScope),
			},
		}},
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "not-being-deleted", Expression: celNotDeleted},
			{Name: "changes-pods-or-labels", Expression: celChanged},
		},
	}
}
