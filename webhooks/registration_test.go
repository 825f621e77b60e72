package webhooks_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// hook returns a hook with all fields.
func hook(name string) webhooks.Hook {
	return webhooks.Hook{
		Name: name + ".warrantgate.dev", Path: "/" + name, FailurePolicy: admissionregistrationv1.Fail,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"g"}, APIVersions: []string{"v1"}, Resources: []string{"rs", "rs/status"}},
		}},
		Conditions: []admissionregistrationv1.MatchCondition{{Name: "c", Expression: "true"}},
		Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
	}
}

func TestRegistration(t *testing.T) {
	server := webhooks.Server{URL: "https://warrantgate.example.com:9443/", CABundle: []byte("CA")}
	const version = "admissionregistration.k8s.io/v1"
	mutating := func(name string) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{
			Name:         name + ".warrantgate.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://warrantgate.example.com:9443/" + name), CABundle: []byte("CA")},
			Rules:        hook(name).Rules, MatchConditions: hook(name).Conditions, ObjectSelector: hook(name).Selector,
			MatchPolicy: ptr.To(admissionregistrationv1.Equivalent), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), TimeoutSeconds: ptr.To[int32](3),
			ReinvocationPolicy: ptr.To(admissionregistrationv1.NeverReinvocationPolicy), AdmissionReviewVersions: []string{"v1"},
		}
	}
	validating := func(name string) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name:         name + ".warrantgate.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://warrantgate.example.com:9443/" + name), CABundle: []byte("CA")},
			Rules:        hook(name).Rules, MatchConditions: hook(name).Conditions, ObjectSelector: hook(name).Selector,
			MatchPolicy: ptr.To(admissionregistrationv1.Equivalent), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), TimeoutSeconds: ptr.To[int32](3),
			AdmissionReviewVersions: []string{"v1"},
		}
	}
	allMutating := func(names ...string) client.Object {
		object := &admissionregistrationv1.MutatingWebhookConfiguration{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "MutatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"},
		}
		for _, name := range names {
			object.Webhooks = append(object.Webhooks, mutating(name))
		}
		return object
	}
	allValidating := func(names ...string) client.Object {
		object := &admissionregistrationv1.ValidatingWebhookConfiguration{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ValidatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"},
		}
		for _, name := range names {
			object.Webhooks = append(object.Webhooks, validating(name))
		}
		return object
	}

	for name, tc := range map[string]struct {
		mutating, validating []webhooks.Hook
		want                 []client.Object
	}{
		"no hooks":                            {},
		"mutating hooks":                      {mutating: []webhooks.Hook{hook("a"), hook("b")}, want: []client.Object{allMutating("a", "b")}},
		"validating hooks":                    {validating: []webhooks.Hook{hook("a"), hook("b")}, want: []client.Object{allValidating("a", "b")}},
		"hooks of both kinds, in their order": {[]webhooks.Hook{hook("b")}, []webhooks.Hook{hook("c"), hook("a")}, []client.Object{allMutating("b"), allValidating("c", "a")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, server.Registration(tc.mutating, tc.validating)); diff != "" {
				t.Errorf("Registration() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailurePolicy(t *testing.T) {
	for mode, want := range map[v1beta1.Mode]admissionregistrationv1.FailurePolicyType{
		v1beta1.Enforce: admissionregistrationv1.Fail,
		v1beta1.Warn:    admissionregistrationv1.Ignore,
		"":              admissionregistrationv1.Fail,
	} {
		if got := webhooks.FailurePolicy(mode); got != want {
			t.Errorf("FailurePolicy(%q) = %s, want %s", mode, got, want)
		}
	}
	for _, tc := range []struct {
		policy    admissionregistrationv1.FailurePolicyType
		failsOpen bool
		want      admissionregistrationv1.FailurePolicyType
	}{
		{admissionregistrationv1.Fail, false, admissionregistrationv1.Fail},
		{admissionregistrationv1.Ignore, false, admissionregistrationv1.Ignore},
		{admissionregistrationv1.Fail, true, admissionregistrationv1.Ignore},
		{admissionregistrationv1.Ignore, true, admissionregistrationv1.Ignore},
	} {
		of := hook("a")
		of.FailurePolicy = tc.policy
		server := webhooks.Server{URL: "https://h", FailsOpen: tc.failsOpen}
		for _, object := range server.Registration([]webhooks.Hook{of}, []webhooks.Hook{of}) {
			got := admissionregistrationv1.FailurePolicyType("")
			switch o := object.(type) {
			case *admissionregistrationv1.MutatingWebhookConfiguration:
				got = *o.Webhooks[0].FailurePolicy
			case *admissionregistrationv1.ValidatingWebhookConfiguration:
				got = *o.Webhooks[0].FailurePolicy
			}
			if got != tc.want {
				t.Errorf("%T of %+v: failure policy %q", object, tc, got)
			}
		}
	}
}
