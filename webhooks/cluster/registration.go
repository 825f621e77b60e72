package cluster

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1alpha1"
	"warrantgate.dev/webhooks"
)

// Hooks returns how the gate is registered: one webhook for each kind, as each names users elsewhere. There are none
// where the gate is off.
func Hooks(mode v1alpha1.Mode) []webhooks.Hook { return hooksOf(mode, kinds()) }

// ProviderHooks returns those of them that a provider's APIExport on kcp can have: for what it exports, which Secrets are
// not among.
func ProviderHooks(mode v1alpha1.Mode) []webhooks.Hook {
	return hooksOf(mode, slices.DeleteFunc(kinds(), func(k kind) bool { return k.resource == secrets }))
}

func hooksOf(mode v1alpha1.Mode, kinds []kind) []webhooks.Hook {
	if mode == v1alpha1.Off {
		return nil
	}
	var hooks []webhooks.Hook
	for _, kind := range kinds {
		hooks = append(hooks, webhooks.Hook{
			Name: kind.resource.Resource + ".cluster.warrantgate.dev", Path: Path, FailurePolicy: webhooks.FailurePolicy(mode),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{kind.resource.Group},
					// Of the one version in which the fields are known. What is written in another comes converted.
					APIVersions: []string{kind.resource.Version},
					Resources:   []string{kind.resource.Resource},
					Scope:       ptr.To(admissionregistrationv1.AllScopes), // a rule of the wrong scope would never match
				},
			}},
			Conditions: []admissionregistrationv1.MatchCondition{{Name: "names-another-user", Expression: kind.condition()}},
		})
	}
	return hooks
}

// celCluster is true where the email changes, or the Secret while it counts, and either is there in the end. An email of
// nothing but blanks is none.
func celCluster() string {
	email := webhooks.CELField("object", "spec", "userEmail")
	name := webhooks.CELField("object", "spec", "userRef", "name")
	return fmt.Sprintf("(%s != '' || %s != '') && (%s || !(type(%s) == string && %s.trim() != '') && (%s || %s))",
		email, name, celChanged("spec", "userEmail"), email, email,
		celChanged("spec", "userRef", "name"), celChanged("spec", "userRef", "namespace"))
}

func celChanged(path ...string) string {
	return fmt.Sprintf("%s != %s", webhooks.CELField("object", path...), webhooks.CELField("oldObject", path...))
}

func celAnnotations() string {
	expressions := make([]string, 0, len(ownerAnnotations))
	for _, key := range ownerAnnotations {
		expressions = append(expressions, webhooks.CELSetAnew("metadata", "annotations", key))
	}
	return strings.Join(expressions, " || ")
}

// celSecret compares the values as they are stored, in base64. What is written as stringData is among them already.
func celSecret() string { return webhooks.CELSetAnew("data", userEmailKey) }
