package machine

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// Hooks returns how the gate is registered: one webhook for each kind, as each keeps its fields elsewhere. There are
// none where the gate is off.
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
				Name: "names-another-instance",
				Expression: webhooks.CELSetAnew(strings.Split(kind.InstanceIDPath, ".")...) + " || " +
					webhooks.CELSetAnew(strings.Split(kind.ProviderIDPath, ".")...),
			}},
		})
	}
	return hooks
}
