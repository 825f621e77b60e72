package workspace_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/webhookstest"
	"warrantgate.dev/webhooks/workspace"
)

func TestWebhooksArePinned(t *testing.T) {
	rules := func(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"tenancy.kcp.io"}, APIVersions: []string{"*"}, Resources: []string{"workspaces"},
				Scope: ptr.To(admissionregistrationv1.ClusterScope),
			},
		}}
	}
	want := map[string]webhookstest.Pinned{
		"owner-rewrite.warrantgate.dev": {
			URL: "https://warrantgate.example.com:9443/workspace/owner-rewrite", Rules: rules("CREATE", "UPDATE"), MatchPolicy: "Equivalent",
			FailurePolicy: "Fail", SideEffects: "NoneOnDryRun", Timeout: 3, Conditions: 4,
		},
		"owner-notice.warrantgate.dev": {
			URL: "https://warrantgate.example.com:9443/workspace/owner-notice", Rules: rules("UPDATE"), MatchPolicy: "Equivalent",
			FailurePolicy: "Ignore", SideEffects: "NoneOnDryRun", Timeout: 1, Conditions: 3,
		},
		"denial-notice.warrantgate.dev": {
			URL: "https://warrantgate.example.com:9443/workspace/denial-notice", Rules: rules("UPDATE"), MatchPolicy: "Equivalent",
			FailurePolicy: "Ignore", SideEffects: "NoneOnDryRun", Timeout: 3, Conditions: 3,
		},
	}
	mutating, validating := webhookConfigurations(t)
	got := webhookstest.Pin(validating.Webhooks)
	for _, w := range mutating.Webhooks {
		got[w.Name] = webhookstest.Pinned{
			URL: *w.ClientConfig.URL, Rules: w.Rules, MatchPolicy: *w.MatchPolicy, FailurePolicy: *w.FailurePolicy, SideEffects: *w.SideEffects,
			Timeout: *w.TimeoutSeconds, Conditions: len(w.MatchConditions),
		}
		if *w.ReinvocationPolicy != admissionregistrationv1.NeverReinvocationPolicy {
			t.Errorf("%s is called again", w.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

func TestDenialsAreReportedWhereThereIsThePolicy(t *testing.T) {
	for mode, want := range map[v1beta1.Mode]bool{v1beta1.Enforce: true, v1beta1.Warn: true, v1beta1.Off: false} {
		config := v1beta1.Default().Workspace
		config.OwnerIntegrity.Mode = mode
		var order []string
		reported := false
		for _, object := range workspace.Registration(webhooks.Server{URL: "https://h"}, config) {
			order = append(order, object.GetObjectKind().GroupVersionKind().Kind)
			if configuration, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
				for i := range configuration.Webhooks {
					reported = reported || configuration.Webhooks[i].Name == "denial-notice.warrantgate.dev"
				}
			}
		}
		if reported != want {
			t.Errorf("mode %s: the denial is reported: %t, want %t", mode, reported, want)
		}
		if want && order[0] != "ValidatingAdmissionPolicy" {
			t.Errorf("registered in the order %v, want the policy first", order)
		}
	}
}

func TestPolicyActsAsItsModeSays(t *testing.T) {
	for mode, want := range map[v1beta1.Mode][]admissionregistrationv1.ValidationAction{
		v1beta1.Enforce: {"Deny", "Audit"},
		v1beta1.Warn:    {"Warn", "Audit"},
		v1beta1.Off:     nil,
	} {
		config := v1beta1.Default().Workspace
		config.OwnerIntegrity.Mode = mode
		var got []admissionregistrationv1.ValidationAction
		for _, object := range workspace.Registration(webhooks.Server{URL: "https://h"}, config) {
			if binding, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding); ok {
				got = binding.Spec.ValidationActions
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
}

func TestLeavesOwnersToPolicy(t *testing.T) {
	conditions := func(names ...string) []admissionregistrationv1.MatchCondition {
		var all []admissionregistrationv1.MatchCondition
		for _, name := range names {
			all = append(all, admissionregistrationv1.MatchCondition{Name: name})
		}
		return all
	}
	for name, tc := range map[string]struct {
		hook admissionregistrationv1.MutatingWebhook
		want bool
	}{
		"the condition":                    {admissionregistrationv1.MutatingWebhook{Name: "owner-rewrite.warrantgate.dev", MatchConditions: conditions("a", "not-for-the-policy")}, true},
		"no condition":                     {admissionregistrationv1.MutatingWebhook{Name: "owner-rewrite.warrantgate.dev"}, false},
		"other conditions":                 {admissionregistrationv1.MutatingWebhook{Name: "owner-rewrite.warrantgate.dev", MatchConditions: conditions("a")}, false},
		"the condition of another webhook": {admissionregistrationv1.MutatingWebhook{Name: "denial-notice.warrantgate.dev", MatchConditions: conditions("not-for-the-policy")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{tc.hook}}
			if got := workspace.LeavesOwnersToPolicy(configuration); got != tc.want {
				t.Errorf("LeavesOwnersToPolicy() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestGatesThatAreOffAreNotRegistered(t *testing.T) {
	off := v1beta1.Workspace{OwnerRewrite: v1beta1.Gate{Mode: v1beta1.Off}, OwnerIntegrity: v1beta1.Gate{Mode: v1beta1.Off}}
	if objects := workspace.Registration(webhooks.Server{URL: "https://h"}, off); len(objects) > 0 {
		t.Errorf("%d objects are registered", len(objects))
	}
}

func TestGatesThatOnlyWarnDenyNothingWhileDown(t *testing.T) {
	warn := v1beta1.Workspace{OwnerRewrite: v1beta1.Gate{Mode: v1beta1.Warn}, OwnerIntegrity: v1beta1.Gate{Mode: v1beta1.Warn}}
	for _, object := range workspace.Registration(webhooks.Server{URL: "https://h"}, warn) {
		policies := map[string]*admissionregistrationv1.FailurePolicyType{}
		switch o := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for _, w := range o.Webhooks {
				policies[w.Name] = w.FailurePolicy
			}
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for _, w := range o.Webhooks {
				policies[w.Name] = w.FailurePolicy
			}
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			policies[o.Name] = o.Spec.FailurePolicy
		}
		for name, policy := range policies {
			if *policy != admissionregistrationv1.Ignore {
				t.Errorf("%s: %s", name, *policy)
			}
		}
	}
}
