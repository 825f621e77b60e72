package keystone

import (
	"fmt"
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

// celWritten is true, in CEL, of a new object and of one that holds something else than before. An object of either kind
// may lack either field.
const celWritten = "oldObject == null || object.?data != oldObject.?data || object.?binaryData != oldObject.?binaryData"

// Hooks returns how the gate is registered. There are none where it is off.
//
// The selector holds for an object as it was as well as for what becomes of it (the API server asks about either), so that
// giving it the labels is judged.
func Hooks(config v1beta1.KeystonePolicy) []webhooks.Hook {
	if config.Mode == v1beta1.Off {
		return nil
	}
	return []webhooks.Hook{{
		Name: "policies.keystone.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(config.Mode), Selector: config.Selector,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{corev1.GroupName}, APIVersions: []string{corev1.SchemeGroupVersion.Version},
				Resources: []string{configMaps, secrets}, Scope: ptr.To(admissionregistrationv1.NamespacedScope),
			},
		}},
		Conditions: []admissionregistrationv1.MatchCondition{{Name: "changes-data-or-selection", Expression: condition(config.Selector)}},
	}}
}

// condition is true of requests that write data, or a label that the selector goes by.
func condition(selector *metav1.LabelSelector) string {
	expressions := []string{celWritten}
	for _, key := range labelsOf(selector) {
		expressions = append(expressions, fmt.Sprintf("%s != %s", celLabel("object", key), celLabel("oldObject", key)))
	}
	return strings.Join(expressions, " || ")
}

// celLabel is the label as an optional value: one that is empty is not the same as none.
func celLabel(object, key string) string {
	return fmt.Sprintf("%s.metadata.?labels[?%s]", object, strconv.Quote(key))
}

// labelsOf are the labels that a selector goes by.
func labelsOf(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	var keys []string
	for key := range selector.MatchLabels {
		keys = append(keys, key)
	}
	for _, requirement := range selector.MatchExpressions {
		keys = append(keys, requirement.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
