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
var _ = DescribeTable("the editor of a namespace who writes a policy that oslo.policy cannot load, or that hides a rule", expectBroken,
	Entry("a tab after the colon", SpecTimeout(startTimeout), "\"identity:list_users\":\t\"rule:admin_required\"\n"),
	Entry("a comment without a blank before it", SpecTimeout(startTimeout), "\"identity:list_users\": |#\n  rule:admin_required\n"),
	Entry("a tag before a list", SpecTimeout(startTimeout), "\"identity:list_users\": !!str [\"rule:admin_required\"]\n"),
	Entry("a rule that allows all users, after more unused rules than are reported", SpecTimeout(startTimeout), unusedRules(500)+"\"identity:create_grant\": \"\"\n"),
)

// The rules are read as they are written. They let the author do what only administrators of the cloud may, by a check that matches nobody else,
// or that cannot be evaluated before Keystone asks another host or knows the target.
var _ = DescribeTable("the editor of a namespace who writes a rule for itself",
	func(ctx SpecContext, rule string) {
		expectBroken(ctx, "\"identity:create_user\": \"rule:admin_required\"\n"+rule+"\n")
	},
	Entry("for its user ID", SpecTimeout(startTimeout), `"identity:delete_user": "rule:admin_required or user_id:mallory"`),
	Entry("for its name", SpecTimeout(startTimeout), `"identity:delete_user": "rule:admin_required or token.user.name:mallory"`),
	Entry("for a role that the target names", SpecTimeout(startTimeout), `"identity:delete_user": "rule:admin_required or role:%(target.user.name)s"`),
	Entry("for what its own host says", SpecTimeout(startTimeout), `"identity:delete_user": "rule:admin_required or https://mallory.example.com/%(target.user.id)s"`),
	Entry("for text around an attribute", SpecTimeout(startTimeout), `"identity:delete_user": "rule:admin_required or user_id:%(target.user.name)s%(target.user.description)s"`),
	Entry("for a grant in its own domain", SpecTimeout(startTimeout), `"identity:create_grant": "rule:admin_required or (role:manager and user_id:mallory `+
		`and domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s)"`),
	Entry("for its user ID, in an attribute that it writes", SpecTimeout(startTimeout),
		`"identity:delete_user": "rule:admin_required or (user_id:%(target.user.description)s and 'mallory':%(target.user.description)s)"`),
	Entry("for groups of other domains", SpecTimeout(startTimeout),
		`"identity:add_user_to_group": "rule:admin_required or (role:manager and domain_id:%(target.user.domain_id)s)"`),
	Entry("for a field that it adds to the request", SpecTimeout(startTimeout),
		`"identity:create_group": "rule:admin_required or (role:manager and domain_id:%(request_body.my_domain_id)s)"`),
	Entry("after more alternatives than are compared", SpecTimeout(startTimeout), `"identity:delete_user": "`+strings.Repeat("! or ", 2000)+`user_id:mallory"`),
)

// expectBroken checks that an editor can neither create an object with this policy, nor write the policy into one that exists.
func expectBroken(ctx SpecContext, policy string) {
	GinkgoHelper()
	w := kube(ctx)
	attacker := w.editor(ctx, w.namespace(ctx))
	for _, kind := range []string{"ConfigMap", "Secret"} {
		expectPolicyDenied(attacker.client.Create(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, policy)), "KeystonePolicyBroken")
		Expect(attacker.client.Create(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, soundPolicy))).To(Succeed())
		expectPolicyDenied(attacker.client.Update(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, policy)), "KeystonePolicyBroken")
	}
}

// unusedRules returns rules that each cause a note.
func unusedRules(count int) string {
	var rules strings.Builder
	for i := range count {
		fmt.Fprintf(&rules, "\"unused_%d\": \"role:admin\"\n", i)
	}
	return rules.String()
}
