//go:build e2e

package keystonepolicy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// templates lists the attributes that Keystone fills in: the operation has only this rule, so the caller is allowed if the rule matches.
var templates = []struct {
	caller string
	call   call
	rule   string
	want   int
	// dead is true if the linter must report the attribute. The others match for other requests, even if they do not for this one.
	dead bool
}{
	{domainAdmin, creates("user", own), "domain_id:%(user.domain_id)s", 403, true},
	{domainAdmin, creates("user", own), "domain_id:%(domain_id)s", 403, true},
	{domainAdmin, creates("user", own), "domain_id:%(target.user.domain_id)s", 201, false},
	{domainAdmin, creates("user", own), "domain_id:%(request_body.user.domain_id)s", 201, false},
	{domainAdmin, creates("project", own), "domain_id:%(project.domain_id)s", 403, true},
	{domainAdmin, creates("project", own), "domain_id:%(target.project.domain_id)s", 201, false},
	{domainAdmin, creates("project", own), "domain_id:%(request_body.project.domain_id)s", 201, false},
	{domainAdmin, creates("group", own), "domain_id:%(group.domain_id)s", 403, true},
	{domainAdmin, creates("group", own), "domain_id:%(target.group.domain_id)s", 201, false},

	{domainAdmin, lists("user", own), "domain_id:%(domain_id)s", 403, true},
	{domainAdmin, lists("user", nowhere), "domain_id:%(target.domain_id)s", 200, false},
	{domainAdmin, lists("user", own), "domain_id:%(filter_attr.domain_id)s", 200, false},
	{domainAdmin, lists("user", nowhere), "domain_id:%(filter_attr.domain_id)s", 403, false},
	{domainAdmin, lists("user", other), "domain_id:%(filter_attr.domain_id)s", 403, false},
	{domainAdmin, lists("project", own), "domain_id:%(domain_id)s", 403, true},
	{domainAdmin, lists("project", nowhere), "domain_id:%(target.domain_id)s", 200, false},
	{domainAdmin, lists("group", own), "domain_id:%(domain_id)s", 403, true},
	{domainAdmin, lists("group", own), "domain_id:%(target.domain_id)s", 403, true},
	{domainAdmin, lists("group", nowhere), "domain_id:%(target.group.domain_id)s", 200, false},

	{tenant, trusts(), "user_id:%(trust.trustor_user_id)s", 403, true},
	{tenant, trusts(), "user_id:%(target.trust.trustor_user_id)s", 201, false},
	{tenant, trusts(), "user_id:%(request_body.trust.trustor_user_id)s", 201, false},

	// Attributes from the path of the request are filled in as before.
	{tenant, listsOwnProjects(), "user_id:%(user_id)s", 200, false},
	{tenant, listsOwnProjects(), "user_id:%(target.user.id)s", 200, false},
}

var _ = Describe("A template", func() {
	It("matches if Keystone fills the attribute in, which check and lint know", func(ctx SpecContext) {
		w := newWorld(ctx)
		file := filepath.Join(GinkgoT().TempDir(), "policy.yaml")
		want, got := map[string]int{}, map[string]int{}
		wantDead, gotDead := map[string]bool{}, map[string]bool{}
		for _, t := range templates {
			name := t.call.name + " by " + t.rule
			Expect(os.WriteFile(file, fmt.Appendf(nil, "%q: %q\n", t.call.can, t.rule), 0o600)).To(Succeed())
			enforce(ctx, file)
			c := w.callers[t.caller]
			r := t.call.of(w, c)
			want[name], got[name] = t.want, c.send(ctx, r)
			wantDead[name] = t.dead
			gotDead[name] = slices.ContainsFunc(lint(ctx, file), func(f finding) bool { return f.Code == "unknown-attribute" })
			agree(ctx, file, []checkCase{newCase(name, c, t.call.can, r, got[name])})
		}
		Expect(cmp.Diff(want, got)).To(BeEmpty(), "statuses of Keystone (-want +got)")
		Expect(cmp.Diff(wantDead, gotDead)).To(BeEmpty(), "attributes that the linter reports as dead (-want +got)")
	}, SpecTimeout(specTimeout))
})

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
		Message: fmt.Sprintf("a token with role=manager,project=own-project,project-domain=own-domain passes identity:list_%s, "+
			"which Keystone's own rule denies", kind),
	}
}

var _ = Describe("The linter", func() {
	DescribeTable("finds every mistake of an override, and no other problem", func(ctx SpecContext, policy int, want ...finding) {
		Expect(lint(ctx, files[policy])).To(ConsistOf(want))
	},
		Entry("every dead template and every list without a domain", broken, SpecTimeout(specTimeout),
			dead("admin_and_matching_user_domain_id", "user.domain_id", "identity:create_user"),
			dead("admin_and_matching_project_domain_id", "project.domain_id", "identity:create_project"),
			dead("admin_and_matching_group_domain_id", "group.domain_id", "identity:create_group"),
			dead("identity:create_trust", "trust.trustor_user_id", "identity:create_trust"),
			unlimited("users"), unlimited("projects"), unlimited("groups"),
		),
		Entry("the three lists, also by the helper that they share", mended, SpecTimeout(specTimeout),
			dead("admin_and_matching_domain_id", "domain_id", "identity:list_groups, identity:list_projects, identity:list_users"),
			unlimited("users"), unlimited("projects"), unlimited("groups"),
		),
		Entry("that it overrides nothing", shipped, SpecTimeout(specTimeout),
			finding{Severity: "warning", Code: "no-rules", Message: "it has no rules, so that it overrides nothing"},
		),
		Entry("nothing in the override of 37 rules", sound, SpecTimeout(specTimeout)),
	)
})
