package workspace

import (
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/tenancy"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
)

// Paths that the gates are served at.
const (
	OwnerRewritePath   = "/workspace/owner-rewrite"
	OwnerIntegrityPath = "/workspace/owner-integrity"
	OwnerNoticePath    = "/workspace/owner-notice"
)

// policyName is the name of the admission policy and of its binding.
const policyName = "warrantgate-owner-integrity"

// Registration returns what has to be in root for kcp to ask the gates: both webhook configurations, and the admission
// policy that holds owner integrity by itself. Gates that are off are left out.
func Registration(server webhooks.Server, config v1beta1.Workspace) []client.Object {
	var mutating, validating []webhooks.Hook
	var policies []client.Object
	if mode := config.OwnerRewrite.Mode; mode != v1beta1.Off {
		mutating = append(mutating, ownerRewriteHook(mode))
		validating = append(validating, ownerNoticeHook())
	}
	if mode := config.OwnerIntegrity.Mode; mode != v1beta1.Off {
		validating = append(validating, ownerIntegrityHook(mode))
		policies = append(policies, integrityPolicy(mode), integrityBinding(mode))
	}
	return slices.Concat(server.Registration(mutating, nil), policies, server.Registration(nil, validating))
}

func ownerRewriteHook(mode v1beta1.Mode) webhooks.Hook {
	return webhooks.Hook{
		Name: "owner-rewrite.warrantgate.dev", Path: OwnerRewritePath, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: workspaceRules(admissionregistrationv1.Update),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "placed-in-a-logical-cluster", Expression: celPlaced},
			{Name: "not-a-conflict", Expression: celCurrent},
			{Name: "owner-may-be-foreign", Expression: celForeign},
		},
	}
}

func ownerNoticeHook() webhooks.Hook {
	return webhooks.Hook{
		Name: "owner-notice.warrantgate.dev", Path: OwnerNoticePath, FailurePolicy: admissionregistrationv1.Ignore,
		Rules: workspaceRules(admissionregistrationv1.Update),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "placed-in-a-logical-cluster", Expression: celPlaced},
			{Name: "not-a-conflict", Expression: celCurrent},
			{Name: "owner-is-not-foreign", Expression: "!" + celForeign},
			{Name: "owner-is-notable", Expression: celNotable},
		},
	}
}

func ownerIntegrityHook(mode v1beta1.Mode) webhooks.Hook {
	return webhooks.Hook{
		Name: "owner-integrity.warrantgate.dev", Path: OwnerIntegrityPath, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: workspaceRules(admissionregistrationv1.Create, admissionregistrationv1.Update),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "not-by-the-system", Expression: celNotSystem},
			{Name: "changes-what-is-guarded", Expression: "size(" + celChanged + ") > 0"},
		},
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
func integrityPolicy(mode v1beta1.Mode) client.Object {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(webhooks.FailurePolicy(mode)),
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
				// The canary is left to the webhook: nobody acts on it, and the policy would answer in the webhook's place.
				{Name: "changed", Expression: fmt.Sprintf("%s.filter(key, key != '%s')", changedKeys("variables.before", "variables.after"), kcp.CanaryAnnotation)},
				// On update, the stored object tells where it lives.
				{Name: "cluster", Expression: fmt.Sprintf("(request.operation == 'CREATE' ? variables.after : variables.before)[?'%s'].orValue('')", logicalcluster.AnnotationKey)},
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

func integrityBinding(mode v1beta1.Mode) client.Object {
	actions := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny, admissionregistrationv1.Audit}
	if mode == v1beta1.Warn {
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
