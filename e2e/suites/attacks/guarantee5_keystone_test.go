//go:build e2e

package attacks_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Guarantee 5: the gate parses what the consumer parses. oslo.policy rejects these files, and Keystone then issues no tokens;
// e2e/suites/oslopolicy compares this with the real one. oslo.policy loads only the last file, which allows all users everything.
var _ = DescribeTable("the editor of a namespace who writes a policy that oslo.policy cannot load, or that hides a rule",
	func(ctx SpecContext, policy string) {
		w := kube(ctx)
		attacker := w.editor(ctx, w.namespace(ctx))
		for _, kind := range []string{"ConfigMap", "Secret"} {
			expectPolicyDenied(attacker.client.Create(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, policy)), "KeystonePolicyBroken")
			Expect(attacker.client.Create(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, soundPolicy))).To(Succeed())
			expectPolicyDenied(attacker.client.Update(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, policy)), "KeystonePolicyBroken")
		}
	},
	Entry("a tab after the colon", SpecTimeout(startTimeout), "\"identity:list_users\":\t\"rule:admin_required\"\n"),
	Entry("a tab before the colon", SpecTimeout(startTimeout), "\"identity:list_users\"\t: \"rule:admin_required\"\n"),
	Entry("a tab at the end of a line", SpecTimeout(startTimeout), "\"identity:list_users\": \"rule:admin_required\"\t\n\"identity:get_user\": \"rule:admin_required\"\n"),
	Entry("a tab before a comment", SpecTimeout(startTimeout), "\"identity:list_users\": \"rule:admin_required\" \t# why\n"),
	Entry("a tab between brackets", SpecTimeout(startTimeout), "\"identity:list_users\": [\"rule:admin_required\",\t\"rule:admin_required\"]\n"),
	Entry("a tab after a bracket", SpecTimeout(startTimeout), "\"identity:list_users\": [\"rule:admin_required\"]\t\n"),
	Entry("a comment without a blank before it", SpecTimeout(startTimeout), "\"identity:list_users\": |#\n  rule:admin_required\n"),
	Entry("a tag before a list", SpecTimeout(startTimeout), "\"identity:list_users\": !!str [\"rule:admin_required\"]\n"),
	Entry("a rule that allows all users, after more unused rules than are reported", SpecTimeout(startTimeout), unusedRules(500)+"\"identity:create_grant\": \"\"\n"),
)

// unusedRules returns rules that each cause a note.
func unusedRules(count int) string {
	var rules strings.Builder
	for i := range count {
		fmt.Fprintf(&rules, "\"unused_%d\": \"role:admin\"\n", i)
	}
	return rules.String()
}
