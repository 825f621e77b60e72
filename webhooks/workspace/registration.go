package workspace

import (
	"fmt"
	"slices"

	"github.com/kcp-dev/sdk/apis/tenancy"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// Paths of the gates.
const (
	OwnerRewritePath = "/workspace/owner-rewrite"
	OwnerNoticePath  = "/workspace/owner-notice"
	DenialNoticePath = "/workspace/denial-notice"
)

// IntegrityPolicyName is the name of the ValidatingAdmissionPolicy that protects recorded owners, and of its binding.
const IntegrityPolicyName = "warrantgate-owner-integrity"

// Registration returns the objects that kcp needs in the workspace root: both webhook configurations, and the admission policy that
// protects recorded owners. Gates in the mode Off are left out.
func Registration(server webhooks.Server, config v1beta1.Workspace) []client.Object {
	return registration(server, config, false)
}

// RegistrationWithPolicy is Registration for a kcp that evaluates mutating admission policies. It includes RewritePolicy and restorePolicy.
// OwnerRewrite is not called for owners that the policy rewrites, nor DenialNotice for annotations that the policy puts back. Create these
// objects only after a test has shown that kcp evaluates the policy.
func RegistrationWithPolicy(server webhooks.Server, config v1beta1.Workspace) []client.Object {
	if RewritePolicy(config) == nil {
		return Registration(server, config)
	}
	return append(MutatingPolicies(config), registration(server, config, true)...)
}

func registration(server webhooks.Server, config v1beta1.Workspace, byPolicy bool) []client.Object {
	var mutating, validating []webhooks.Hook
	var policies []client.Object
	if mode := config.OwnerRewrite.Mode; mode != v1beta1.Off {
		mutating = append(mutating, ownerRewriteHook(mode, byPolicy))
		validating = append(validating, ownerNoticeHook())
	}
	if mode := config.OwnerIntegrity.Mode; mode != v1beta1.Off {
		mutating = append(mutating, denialNoticeHook(mode, byPolicy))
		policies = integrityPolicies(config)
	}
	// The policy comes first, because DenialNotice reports what it denies.
	return slices.Concat(policies, server.Registration(mutating, nil), server.Registration(nil, validating))
}

// Names of the webhook of OwnerRewrite, and of its condition that leaves owners to RewritePolicy.
const (
	ownerRewriteName = "owner-rewrite.warrantgate.dev"
	notForThePolicy  = "not-for-the-policy"
)

// LeavesOwnersToPolicy reports whether a webhook configuration is one of RegistrationWithPolicy, so that OwnerRewrite is not called for the
// owners that RewritePolicy rewrites.
func LeavesOwnersToPolicy(configuration *admissionregistrationv1.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc(configuration.Webhooks, func(hook admissionregistrationv1.MutatingWebhook) bool {
		return hook.Name == ownerRewriteName && slices.ContainsFunc(hook.MatchConditions, func(condition admissionregistrationv1.MatchCondition) bool {
			return condition.Name == notForThePolicy
		})
	})
}

func ownerRewriteHook(mode v1beta1.Mode, byPolicy bool) webhooks.Hook {
	hook := webhooks.Hook{
		Name: ownerRewriteName, Path: OwnerRewritePath, FailurePolicy: webhooks.FailurePolicy(mode),
		Rules: workspaceRules(admissionregistrationv1.Create, admissionregistrationv1.Update), // only a canary is sent at CREATE
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "placed-in-a-logical-cluster", Expression: "request.operation == 'UPDATE' && " + celPlaced},
			{Name: "not-a-conflict", Expression: celCurrent},
			{Name: "owner-may-be-foreign-or-has-warrants", Expression: celChangeable},
			{Name: "not-rewritten-by-the-policy", Expression: celUnchanged},
		},
	}
	if byPolicy {
		hook.Conditions = append(hook.Conditions, admissionregistrationv1.MatchCondition{Name: notForThePolicy, Expression: "!(" + celForPolicy() + ")"})
	}
	for i := range hook.Conditions {
		hook.Conditions[i].Expression = fmt.Sprintf("%s || (%s)", celWebhookCanary, hook.Conditions[i].Expression)
	}
	return hook
}

func ownerNoticeHook() webhooks.Hook {
	// What the policy rewrites is also reported on a kcp without the policy: during its installation or removal, kcp may observe the change
	// of the other configuration first.
	notable := fmt.Sprintf("%s || %s", celByPolicy, celUnhandled)
	return webhooks.Hook{
		Name: "owner-notice.warrantgate.dev", Path: OwnerNoticePath, FailurePolicy: admissionregistrationv1.Ignore,
		// Every placement by the policy waits so long for a serve that does not answer.
		TimeoutSeconds: 1,
		Rules:          workspaceRules(admissionregistrationv1.Update),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "placed-in-a-logical-cluster", Expression: celPlaced},
			{Name: "not-a-conflict", Expression: celCurrent},
			{Name: "owner-is-notable", Expression: notable},
		},
	}
}

func denialNoticeHook(mode v1beta1.Mode, byPolicy bool) webhooks.Hook {
	operations, changes := []admissionregistrationv1.OperationType{admissionregistrationv1.Update}, "size("+celSet+") > 0"
	switch {
	case mode == v1beta1.Warn: // nothing is put back or removed
	case byPolicy:
		operations = append(operations, admissionregistrationv1.Create)
		changes = fmt.Sprintf("(request.operation == 'CREATE' ? %s : %s)", celRemovable, changes)
	default:
		changes += " || " + celPutBack
	}
	return webhooks.Hook{
		Name: "denial-notice.warrantgate.dev", Path: DenialNoticePath, FailurePolicy: admissionregistrationv1.Ignore,
		Rules: workspaceRules(operations...),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "not-by-the-system", Expression: celNotSystem},
			{Name: "not-a-conflict", Expression: "oldObject == null || " + celCurrent},
			{Name: "changes-or-leaves-out-an-annotation", Expression: changes},
		},
	}
}

// workspaceRules returns the rules for Workspaces in all versions.
func workspaceRules(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{tenancy.GroupName}, APIVersions: []string{"*"}, Resources: []string{"workspaces"},
			Scope: ptr.To(admissionregistrationv1.ClusterScope),
		},
	}}
}
