package webhooks

import (
	"cmp"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
)

// ConfigurationName is the name of the mutating and of the validating webhook configuration.
const ConfigurationName = "warrantgate"

// timeoutSeconds is how long an API server waits for a response, unless the hook has another limit. A gate that decides from memory takes a
// millisecond, and a gate that sends requests to a cloud has an earlier deadline.
const timeoutSeconds = 3

// Hook is one webhook in a webhook configuration.
type Hook struct {
	// Name is the fully qualified name of the webhook, Path is the path of its URL.
	Name, Path string
	// FailurePolicy applies while no replica of warrantgate answers; see the function FailurePolicy.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// TimeoutSeconds is how long an API server waits for a response. Default: 3.
	TimeoutSeconds int32
	// Rules select the requests, by plural resources.
	Rules []admissionregistrationv1.RuleWithOperations
	// Conditions, in CEL, select the requests that the API server calls the webhook for (KEP-3716).
	Conditions []admissionregistrationv1.MatchCondition
	// Selector selects objects by their labels. Default: all.
	Selector *metav1.LabelSelector
}

// FailurePolicy returns the failure policy of a gate in a mode. In mode Warn an outage must not deny requests either, so that a
// gate can be tried out without risk.
func FailurePolicy(mode v1beta1.Mode) admissionregistrationv1.FailurePolicyType {
	if mode == v1beta1.Warn {
		return admissionregistrationv1.Ignore
	}
	return admissionregistrationv1.Fail
}

// Server says how API servers reach the gates.
type Server struct {
	// URL is https, without a path.
	URL string
	// PathToken is the first segment of each path, by which the command serve recognizes API servers. If it is empty, serve
	// recognizes them by their client certificates.
	PathToken string
	// CABundle holds the CA certificates of the gates, in PEM.
	CABundle []byte
	// FailsOpen sets the failure policy Ignore for all webhooks, until a canary has proven that API servers reach the gates.
	FailsOpen bool
}

func (s Server) connection(path string) admissionregistrationv1.WebhookClientConfig {
	url := strings.TrimSuffix(s.URL, "/")
	if s.PathToken != "" {
		url += "/" + s.PathToken
	}
	return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(url + path), CABundle: s.CABundle}
}

func (s Server) failurePolicy(hook Hook) *admissionregistrationv1.FailurePolicyType {
	if s.FailsOpen {
		return ptr.To(admissionregistrationv1.Ignore)
	}
	return ptr.To(hook.FailurePolicy)
}

// Registration returns the webhook configurations with the hooks. A configuration without hooks is left out.
func (s Server) Registration(mutating, validating []Hook) []client.Object {
	var objects []client.Object
	meta := metav1.ObjectMeta{Name: ConfigurationName}
	if len(mutating) > 0 {
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}
		configuration.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
		for _, hook := range mutating {
			configuration.Webhooks = append(configuration.Webhooks, s.mutating(hook))
		}
		objects = append(objects, configuration)
	}
	if len(validating) > 0 {
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
		configuration.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
		for _, hook := range validating {
			configuration.Webhooks = append(configuration.Webhooks, s.validating(hook))
		}
		objects = append(objects, configuration)
	}
	return objects
}

// ValidatingPolicy returns a ValidatingAdmissionPolicy with its binding, which denies requests that a hook would be called for, or warns about
// them in the mode Warn. It has the name, the first rule and the conditions of the hook. A denial is also in the audit log.
func ValidatingPolicy(
	mode v1beta1.Mode, hook Hook, variables []admissionregistrationv1.Variable, validations []admissionregistrationv1.Validation,
) []client.Object {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: hook.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(FailurePolicy(mode)),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy:   ptr.To(admissionregistrationv1.Equivalent),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: hook.Rules[0]}},
			},
			MatchConditions: hook.Conditions,
			Variables:       variables,
			Validations:     validations,
		},
	}
	policy.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"))
	actions := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny, admissionregistrationv1.Audit}
	if mode == v1beta1.Warn {
		actions[0] = admissionregistrationv1.Warn
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: hook.Name},
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: hook.Name, ValidationActions: actions},
	}
	binding.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"))
	return []client.Object{policy, binding}
}

// WriteRules returns the rule for the creation and update of resources, in all scopes: a rule with the wrong scope never matches.
func WriteRules(group, version string, resources ...string) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources, Scope: ptr.To(admissionregistrationv1.AllScopes),
		},
	}}
}

func (s Server) mutating(hook Hook) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    hook.Name,
		ClientConfig:            s.connection(hook.Path),
		Rules:                   hook.Rules,
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		MatchConditions:         hook.Conditions,
		ObjectSelector:          hook.Selector,
		FailurePolicy:           s.failurePolicy(hook),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          ptr.To(cmp.Or(hook.TimeoutSeconds, timeoutSeconds)),
		ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}
}

func (s Server) validating(hook Hook) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    hook.Name,
		ClientConfig:            s.connection(hook.Path),
		Rules:                   hook.Rules,
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		MatchConditions:         hook.Conditions,
		ObjectSelector:          hook.Selector,
		FailurePolicy:           s.failurePolicy(hook),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          ptr.To(cmp.Or(hook.TimeoutSeconds, timeoutSeconds)),
		AdmissionReviewVersions: []string{"v1"},
	}
}
