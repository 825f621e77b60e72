package webhooks

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
)

// ConfigurationName is the name of both webhook configurations.
const ConfigurationName = "warrantgate"

// timeoutSeconds is how long an API server waits for a verdict. A gate that answers from memory takes a millisecond, and
// one that asks a cloud gives up before.
const timeoutSeconds = 3

// Hook is how a gate is registered with an API server.
type Hook struct {
	// Name is the fully qualified name of the webhook, Path where it is served.
	Name, Path string
	// FailurePolicy says what becomes of a request that no warrantgate judges; see FailurePolicy.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// Rules say which requests are judged, with plural resources.
	Rules []admissionregistrationv1.RuleWithOperations
	// Conditions, in CEL, say which of them are worth a call (KEP-3716).
	Conditions []admissionregistrationv1.MatchCondition
	// Selector picks the objects by their labels. Default: all.
	Selector *metav1.LabelSelector
}

// FailurePolicy says what becomes of a request that no warrantgate judges. A gate that only warns must not refuse
// anything by being away either, or it could not be tried out.
func FailurePolicy(mode v1beta1.Mode) admissionregistrationv1.FailurePolicyType {
	if mode == v1beta1.Warn {
		return admissionregistrationv1.Ignore
	}
	return admissionregistrationv1.Fail
}

// Server is where an API server reaches the gates.
type Server struct {
	// URL is https, without a path.
	URL string
	// PathToken is the first segment of each path, by which serve knows API servers. Empty: none, and serve knows them by their
	// client certificates.
	PathToken string
	// CABundle, in PEM, is whom the API server trusts there.
	CABundle []byte
	// FailsOpen has every hook let pass what no warrantgate judges, for as long as it is not proven that the gates are reached.
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

// Registration returns the webhook configurations that hold the hooks; none where there are no hooks of its kind.
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
		TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
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
		TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
		AdmissionReviewVersions: []string{"v1"},
	}
}
