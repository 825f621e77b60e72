package workspace

import (
	"fmt"
	"strings"

	"github.com/kcp-dev/sdk/apis/tenancy"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1alpha1"
)

// Paths that the gates are served at.
const (
	OwnerRewritePath   = "/workspace/owner-rewrite"
	OwnerIntegrityPath = "/workspace/owner-integrity"
	OwnerNoticePath    = "/workspace/owner-notice"
)

const (
	configurationName = "warrantgate"
	policyName        = "warrantgate-owner-integrity"
	// timeoutSeconds is how long kcp waits for a verdict. A verdict is a matter of a millisecond, so whoever takes
	// longer is not there.
	timeoutSeconds = 3
)

// Registration returns what has to be in root for kcp to ask the gates: both webhook configurations, and the admission
// policy that holds owner integrity by itself. url is where kcp reaches the gates, without a path; caBundle, in PEM,
// is whom it trusts there. Gates that are off are left out.
func Registration(url string, caBundle []byte, config v1alpha1.Workspace) []client.Object {
	url = strings.TrimSuffix(url, "/")
	connection := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(url + path), CABundle: caBundle}
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName}}
	mutating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName}}
	validating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))

	var objects []client.Object
	if mode := config.OwnerRewrite.Mode; mode != v1alpha1.Off {
		mutating.Webhooks = []admissionregistrationv1.MutatingWebhook{ownerRewriteWebhook(connection(OwnerRewritePath), mode)}
		validating.Webhooks = append(validating.Webhooks, ownerNoticeWebhook(connection(OwnerNoticePath)))
		objects = append(objects, mutating)
	}
	if mode := config.OwnerIntegrity.Mode; mode != v1alpha1.Off {
		validating.Webhooks = append(validating.Webhooks, ownerIntegrityWebhook(connection(OwnerIntegrityPath), mode))
		objects = append(objects, integrityPolicy(mode), integrityBinding(mode))
	}
	if len(validating.Webhooks) > 0 {
		objects = append(objects, validating)
	}
	return objects
}

// failurePolicy says what becomes of a request that no warrantgate judges. A gate that only warns must not refuse
// anything by being away either, or it could not be tried out.
func failurePolicy(mode v1alpha1.Mode) admissionregistrationv1.FailurePolicyType {
	if mode == v1alpha1.Warn {
		return admissionregistrationv1.Ignore
	}
	return admissionregistrationv1.Fail
}

func ownerRewriteWebhook(connection admissionregistrationv1.WebhookClientConfig, mode v1alpha1.Mode) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:         "owner-rewrite.warrantgate.dev",
		ClientConfig: connection,
		Rules:        workspaceRules(admissionregistrationv1.Update),
		MatchPolicy:  ptr.To(admissionregistrationv1.Equivalent),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "placed-in-a-logical-cluster", Expression: celPlaced},
			{Name: "not-a-conflict", Expression: celCurrent},
			{Name: "owner-may-be-foreign", Expression: celForeign},
		},
		FailurePolicy:           ptr.To(failurePolicy(mode)),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
		ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
		AdmissionReviewVersions: []string{"v1"},
	}
}

func ownerNoticeWebhook(connection admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	return validatingWebhook("owner-notice.warrantgate.dev", connection, admissionregistrationv1.Ignore,
		workspaceRules(admissionregistrationv1.Update),
		admissionregistrationv1.MatchCondition{Name: "placed-in-a-logical-cluster", Expression: celPlaced},
		admissionregistrationv1.MatchCondition{Name: "not-a-conflict", Expression: celCurrent},
		admissionregistrationv1.MatchCondition{Name: "owner-is-not-foreign", Expression: "!" + celForeign},
		admissionregistrationv1.MatchCondition{Name: "owner-is-notable", Expression: celNotable},
	)
}

func ownerIntegrityWebhook(connection admissionregistrationv1.WebhookClientConfig, mode v1alpha1.Mode) admissionregistrationv1.ValidatingWebhook {
	return validatingWebhook("owner-integrity.warrantgate.dev", connection, failurePolicy(mode),
		workspaceRules(admissionregistrationv1.Create, admissionregistrationv1.Update),
		admissionregistrationv1.MatchCondition{Name: "not-by-the-system", Expression: celNotSystem},
		admissionregistrationv1.MatchCondition{Name: "changes-what-is-guarded", Expression: "size(" + celChanged + ") > 0"},
	)
}

func validatingWebhook(
	name string, connection admissionregistrationv1.WebhookClientConfig, failurePolicy admissionregistrationv1.FailurePolicyType,
	rules []admissionregistrationv1.RuleWithOperations, conditions ...admissionregistrationv1.MatchCondition,
) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    name,
		ClientConfig:            connection,
		Rules:                   rules,
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		MatchConditions:         conditions,
		FailurePolicy:           ptr.To(failurePolicy),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// workspaceRules name the plural resource, in every version that is served.
func workspaceRules(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{tenancy.GroupName}, APIVersions: []string{"*"}, Resources: []string{"workspaces"},
			Scope: ptr.To(admissionregistrationv1.ClusterScope),
		},
	}}
}

// integrityPolicy is the gate OwnerIntegrity as a policy that the API server evaluates itself (KEP-3488).
func integrityPolicy(mode v1alpha1.Mode) client.Object {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(failurePolicy(mode)),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: workspaceRules(admissionregistrationv1.Create, admissionregistrationv1.Update)[0],
				}},
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "not-by-the-system", Expression: celNotSystem}},
			Variables: []admissionregistrationv1.Variable{
				{Name: "before", Expression: celBefore},
				{Name: "after", Expression: celAfter},
				{Name: "changed", Expression: changedKeys("variables.before", "variables.after")},
				{Name: "cluster", Expression: "variables.after[?'kcp.io/cluster'].orValue(variables.before[?'kcp.io/cluster'].orValue(''))"},
				// On create kcp tells webhooks, but not policies, where the object is going to live.
				{Name: "where", Expression: `variables.cluster == '' ? '' : ' in logical cluster "' + variables.cluster + '"'`},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "size(variables.changed) == 0",
				MessageExpression: fmt.Sprintf(`'user "' + request.userInfo.username + '" tried to change ' + variables.changed.join(', ') + `+
					`' of workspace "' + request.name + '"' + variables.where + ': %s; %s'`, whyGuarded, whatToDo),
				Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}
	policy.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"))
	return policy
}

func integrityBinding(mode v1alpha1.Mode) client.Object {
	actions := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny, admissionregistrationv1.Audit}
	if mode == v1alpha1.Warn {
		actions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn, admissionregistrationv1.Audit}
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policyName, ValidationActions: actions,
		},
	}
	binding.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"))
	return binding
}
