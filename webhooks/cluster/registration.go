package cluster

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// Hooks returns how the gate is registered: one webhook for each kind, as each names users elsewhere. There are none
// where the gate is off.
func Hooks(mode v1beta1.Mode) []webhooks.Hook { return hooksOf(mode, kinds()) }

// ProviderHooks returns those of them that a provider's APIExport on kcp can have: for what it exports, which Secrets are
// not among.
func ProviderHooks(mode v1beta1.Mode) []webhooks.Hook {
	return hooksOf(mode, slices.DeleteFunc(kinds(), func(k kind) bool { return k.resource == secrets }))
}

func hooksOf(mode v1beta1.Mode, kinds []kind) []webhooks.Hook {
	if mode == v1beta1.Off {
		return nil
	}
	hooks := make([]webhooks.Hook, 0, len(kinds))
	for _, kind := range kinds {
		hooks = append(hooks, kind.hook("cluster", Path, mode, "names-another-user"))
	}
	return hooks
}

// DelegationHooks returns how the gate on delegated roles is registered. There are none where the gate is off.
func DelegationHooks(mode v1beta1.Mode) []webhooks.Hook {
	if mode == v1beta1.Off {
		return nil
	}
	var hooks []webhooks.Hook
	for _, kind := range delegationKinds() {
		hooks = append(hooks, kind.hook("delegation", DelegationPath, mode, "names-other-credentials"))
	}
	return hooks
}

// hook is how a gate on objects of the kind is registered. The condition's name says what is true of the requests that reach it.
func (k kind) hook(gate, path string, mode v1beta1.Mode, condition string) webhooks.Hook {
	return webhooks.Hook{
		Name: k.resource.Resource + "." + gate + ".warrantgate.dev", Path: path, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{k.resource.Group},
				// Of the one version in which the fields are known. What is written in another comes converted.
				APIVersions: []string{k.resource.Version},
				Resources:   []string{k.resource.Resource},
				Scope:       ptr.To(admissionregistrationv1.AllScopes), // a rule of the wrong scope would never match
			},
		}},
		Conditions: []admissionregistrationv1.MatchCondition{{Name: condition, Expression: k.condition()}},
	}
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
