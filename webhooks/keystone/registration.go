package keystone

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// celWritten is true for a new object and for one whose content changes. Both fields are optional in both kinds.
const celWritten = "oldObject == null || object.?data != oldObject.?data || object.?binaryData != oldObject.?binaryData"

// Hooks returns the webhooks of the gate: one for objects that are selected by labels, and one for objects that are selected by name.
// There are none in the mode Off.
//
// The API server applies the selector to the object before and after the request, so requests that add or remove the labels are checked.
func Hooks(config v1beta1.KeystonePolicy) []webhooks.Hook {
	if config.Mode == v1beta1.Off {
		return nil
	}
	var hooks []webhooks.Hook
	if config.Selector != nil || len(config.Objects) == 0 {
		labeled := newHook("policies.keystone.warrantgate.dev", config.Mode)
		labeled.Selector = config.Selector
		labeled.Conditions = []admissionregistrationv1.MatchCondition{{Name: "changes-data-or-selection", Expression: condition(config.Selector)}}
		hooks = append(hooks, labeled)
	}
	if len(config.Objects) > 0 {
		named := newHook("named-policies.keystone.warrantgate.dev", config.Mode)
		named.Conditions = []admissionregistrationv1.MatchCondition{
			{Name: "names-a-policy", Expression: webhooks.CELNamed("object.metadata.name", config.Objects)}, {Name: "changes-data", Expression: celWritten},
		}
		hooks = append(hooks, named)
	}
	return hooks
}

func newHook(name string, mode v1beta1.Mode) webhooks.Hook {
	return webhooks.Hook{
		Name: name, Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{corev1.GroupName}, APIVersions: []string{corev1.SchemeGroupVersion.Version},
				Resources: []string{configMaps, secrets}, Scope: ptr.To(admissionregistrationv1.NamespacedScope),
			},
		}},
	}
}

// condition is true for requests that change the content, or a label that the selector uses.
func condition(selector *metav1.LabelSelector) string {
	expressions := []string{celWritten}
	for _, key := range labelsOf(selector) {
		expressions = append(expressions, fmt.Sprintf("%s != %s", celLabel("object", key), celLabel("oldObject", key)))
	}
	return strings.Join(expressions, " || ")
}

// celLabel is the label as an optional value, because an empty label is not the same as none.
func celLabel(object, key string) string {
	return fmt.Sprintf("%s.metadata.?labels[?%s]", object, strconv.Quote(key))
}

// labelsOf returns the labels that a selector uses.
func labelsOf(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	keys := slices.Collect(maps.Keys(selector.MatchLabels))
	for _, requirement := range selector.MatchExpressions {
		keys = append(keys, requirement.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
