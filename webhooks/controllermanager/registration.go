package controllermanager

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// Paths that the gates are served at.
const (
	IdentityPath  = "/controllermanager/identity"
	IntegrityPath = "/controllermanager/integrity"
)

// Expressions in CEL by which the API server decides which requests are worth a call.
const (
	// celNotDeleted is false of updates of what is on its way out, such as the removal of a finalizer.
	celNotDeleted = "object.metadata.?deletionTimestamp.orValue(null) == null"

	// celChanged is true of a new Deployment and of updates that roll out other pods or may name another cluster.
	celChanged = "oldObject == null || object.?spec.?template != oldObject.?spec.?template || " +
		celLabels + " != " + celLabelsBefore
	// An absent map, null and an empty one are the same: there are no labels.
	celLabels       = "(object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels)"
	celLabelsBefore = "(oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)"
)

// Hooks returns how the gates are registered. There are none where they are off.
//
// The selector holds for a Deployment as it was as well as for what becomes of it (the API server asks about either), so
// taking its labels away is still judged. What was there before the gates and does not change is left alone; a restart
// brings it before them.
func Hooks(config v1beta1.ControllerManager) (mutating, validating []webhooks.Hook) {
	if config.Mode == v1beta1.Off {
		return nil, nil
	}
	hook := func(name, path string) []webhooks.Hook {
		return []webhooks.Hook{{
			Name: name, Path: path, FailurePolicy: webhooks.FailurePolicy(config.Mode), Selector: config.Selector,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{appsv1.GroupName}, APIVersions: []string{appsv1.SchemeGroupVersion.Version},
					Resources: []string{"deployments"}, // and neither status nor scale, which change no pods
					Scope:     ptr.To(admissionregistrationv1.NamespacedScope),
				},
			}},
			Conditions: []admissionregistrationv1.MatchCondition{
				{Name: "not-being-deleted", Expression: celNotDeleted},
				{Name: "changes-pods-or-labels", Expression: celChanged},
			},
		}}
	}
	return hook("controller-manager-identity.warrantgate.dev", IdentityPath),
		hook("controller-manager-integrity.warrantgate.dev", IntegrityPath)
}
