package webhookstest

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"warrantgate.dev/webhooks"
)

// URL is the URL at which Registered registers webhooks, without their paths.
const URL = "https://warrantgate.example.com:9443"

// Registered returns webhooks as an API server gets them.
func Registered(mutating, validating []webhooks.Hook) (m []admissionregistrationv1.MutatingWebhook, v []admissionregistrationv1.ValidatingWebhook) {
	for _, object := range (webhooks.Server{URL: URL}).Registration(mutating, validating) {
		switch configuration := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			m = append(m, configuration.Webhooks...)
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			v = append(v, configuration.Webhooks...)
		}
	}
	return m, v
}

// Pinned are the fields of a webhook that must not change by accident.
type Pinned struct {
	URL           string
	Rules         []admissionregistrationv1.RuleWithOperations
	MatchPolicy   admissionregistrationv1.MatchPolicyType
	FailurePolicy admissionregistrationv1.FailurePolicyType
	SideEffects   admissionregistrationv1.SideEffectClass
	Timeout       int32
	Conditions    int
}

// Pin returns the pinned fields of webhooks, by their names.
func Pin(hooks []admissionregistrationv1.ValidatingWebhook) map[string]Pinned {
	pinned := map[string]Pinned{}
	for _, w := range hooks {
		pinned[w.Name] = Pinned{*w.ClientConfig.URL, w.Rules, *w.MatchPolicy, *w.FailurePolicy, *w.SideEffects, *w.TimeoutSeconds, len(w.MatchConditions)}
	}
	return pinned
}
