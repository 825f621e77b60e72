//go:build e2e

package keystonepolicy_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// dead is the finding about a template that never matches.
func dead(rule, attribute, operations string) finding {
	return finding{
		Rule: rule, Severity: "error", Code: "unknown-attribute",
		Message: fmt.Sprintf("Keystone does not fill %%(%s)s in for %s: the check is always false", attribute, operations),
	}
}

// unlimited is the finding about a list that shows a manager with a token for a project the objects of all domains.
func unlimited(kind string) finding {
	return finding{
		Rule: "identity:list_" + kind, Severity: "error", Code: "broader-than-default",
		Message: fmt.Sprintf("a user with the role %q and a token for a project passes identity:list_%s for an object in another domain, "+
			"which Keystone's own rule denies", "manager", kind),
	}
}

var _ = Describe("The linter", func() {
	It("finds every dead template and every list without a domain of the broken override, and no other problem", func(ctx SpecContext) {
		Expect(lint(ctx, files[broken])).To(ConsistOf(
			dead("admin_and_matching_user_domain_id", "user.domain_id", "identity:create_user"),
			dead("admin_and_matching_project_domain_id", "project.domain_id", "identity:create_project"),
			dead("admin_and_matching_group_domain_id", "group.domain_id", "identity:create_group"),
			dead("identity:create_trust", "trust.trustor_user_id", "identity:create_trust"),
			unlimited("users"), unlimited("projects"), unlimited("groups"),
		))
	}, SpecTimeout(specTimeout))

	It("finds the three lists of the mended override, also by the helper that they share, and no other problem", func(ctx SpecContext) {
		Expect(lint(ctx, files[mended])).To(ConsistOf(
			dead("admin_and_matching_domain_id", "domain_id", "identity:list_groups, identity:list_projects, identity:list_users"),
			unlimited("users"), unlimited("projects"), unlimited("groups"),
		))
	}, SpecTimeout(specTimeout))

	It("reports that a file overrides nothing", func(ctx SpecContext) {
		Expect(lint(ctx, files[shipped])).To(ConsistOf(
			finding{Severity: "warning", Code: "no-rules", Message: "it has no rules, so that it overrides nothing"},
		))
	}, SpecTimeout(specTimeout))

	It("has no findings in the override of 37 rules", func(ctx SpecContext) {
		Expect(lint(ctx, files[sound])).To(BeEmpty())
	}, SpecTimeout(specTimeout))
})
