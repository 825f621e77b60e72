package controllermanager

import (
	"fmt"
	"strconv"
	"strings"

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
	// celNotDeleted is false of updates of what is on its way out, such as the removal of a finalizer. The requester can write
	// the timestamp of the new object.
	celNotDeleted = "oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null"

	// celChanged is true of a new object and of updates that roll out other pods or may name another cluster.
	celChanged = "oldObject == null || object.?spec.?template != oldObject.?spec.?template || " +
		celLabels + " != " + celLabelsBefore
	// An absent map, null and an empty one are the same: there are no labels.
	celLabels       = "(object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels)"
	celLabelsBefore = "(oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)"
)

// Hooks returns how the gates are registered: each with one webhook for objects that are selected by labels, and one for those
// that are selected by name. There are none where the gates are off.
//
// The selector holds for an object as it was as well as for what becomes of it (the API server asks about either), so that
// taking its labels away is still judged, and refused. What was there before the gates and does not change is left alone; a
// restart brings it before them.
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
		condition := admissionregistrationv1.MatchCondition{Name: "names-a-controller-manager", Expression: celNamed(config.Objects)}
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
				Resources: []string{"deployments", "daemonsets", "statefulsets"}, // and neither status nor scale, which change no pods
				Scope:     ptr.To(admissionregistrationv1.NamespacedScope),
			},
		}},
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "not-being-deleted", Expression: celNotDeleted},
			{Name: "changes-pods-or-labels", Expression: celChanged},
		},
	}
}

// celNamed is true of requests for one of the objects. The name is that of the object, because a request to create one whose
// name the API server makes up has none. No name holds a slash.
func celNamed(objects []v1beta1.ControllerManagerObject) string {
	quoted := make([]string, 0, len(objects))
	for _, object := range objects {
		quoted = append(quoted, strconv.Quote(object.Namespace+"/"+object.Name))
	}
	return fmt.Sprintf("request.namespace + '/' + object.metadata.?name.orValue('') in [%s]", strings.Join(quoted, ", "))
}
