//go:build e2e

package oslopolicy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/internal/oslopolicy"
)

type shippedReply struct {
	Rules []struct{ Name, Rule, Former string }
}

// shippedNames are the names of the rules in Keystone's package.
func shippedNames() []string {
	GinkgoHelper()
	var reply shippedReply
	oslo.call(map[string]bool{"shipped": true}, &reply)
	var names []string
	for _, rule := range reply.Rules {
		names = append(names, rule.Name)
	}
	return names
}

// keystoneQuestions evaluate all rules of Keystone and of the override, for many callers, and for objects in their own and in other
// domains.
func keystoneQuestions() []question {
	GinkgoHelper()
	names := append(shippedNames(), "cloud_admin", "cloud_reader", "domain_manager", "manager_of_user", "manager_of_project", "manager_of_group",
		"managed_role", "manager_of_user_scope", "manager_of_group_scope", "manager_of_grant", "manager_of_new_user", "round", "no_such_rule")
	var callers []oslopolicy.Caller
	for _, roles := range [][]string{nil, {"reader"}, {"member", "reader"}, {"manager"}, {"Admin"}, {"service"}} {
		caller := oslopolicy.Caller{User: "u1", UserDomain: "d1", Roles: roles}
		project, domain, system := caller, caller, caller
		project.Project, project.ProjectDomain, project.AdminProject = "p1", "d1", slices.Contains(roles, "Admin")
		domain.Domain, system.System = "d1", true
		callers = append(callers, project, domain, system)
	}
	var questions []question
	for _, domain := range []string{"d1", "d2"} {
		for _, role := range []string{"member", "admin"} {
			object := map[string]any{"id": "u" + domain[1:], "domain_id": domain, "user_id": "u" + domain[1:], "name": role}
			target := oslopolicy.Flatten(map[string]any{
				"user_id": "u" + domain[1:], "domain_id": domain, "project_id": "p" + domain[1:],
				"request_body": map[string]any{"user": object},
				"target": map[string]any{
					"user": object, "project": map[string]any{"id": "p" + domain[1:], "domain_id": domain}, "group": object, "domain": map[string]any{"id": domain},
					"role": map[string]any{"id": "r", "name": role, "domain_id": nil}, "credential": object, "token": object, "domain_id": "d1",
					"trust": map[string]any{"trustor_user_id": "u" + domain[1:], "trustee_user_id": "u9"},
				},
			})
			for _, caller := range callers {
				for _, name := range names {
					questions = append(questions, question{Rule: name, Target: target, Credentials: caller.Credentials()})
				}
			}
		}
	}
	return questions
}

var _ = Describe("The linter", func() {
	It("finds every fault of the faulty override, and no other problem", func(ctx SpecContext) {
		const file = "domain-manager-faulty.yaml"
		document, err := os.ReadFile(filepath.Join("testdata", file))
		Expect(err).NotTo(HaveOccurred())
		findings, err := oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: file, Data: document}}, oslopolicy.LintOptions{})
		Expect(err).NotTo(HaveOccurred())
		found := map[string]bool{}
		for _, f := range findings {
			if f.Severity != oslopolicy.SeverityNote || f.Code != oslopolicy.CodeNarrowerThanDefault { // which all overrides have
				found[fmt.Sprintf("%s: %s %s", f.Rule, f.Severity, f.Code)] = true
			}
		}
		Expect(slices.Collect(maps.Keys(found))).To(ConsistOf(
			"manager_of_new_user: error unknown-attribute",
			"manager_of_project: error unknown-attribute",
			"round: error cycle",
			"about: error cycle",
			"forgotten: note unused-rule",
			"matching_domain: error unknown-attribute",
			"identity:get_user: error malformed-check",
			"identity:get_user: error broader-than-default",
			"identity:update_user: error broader-than-default",
			"identity:delete_user: error always-allows",
			"identity:get_project: error always-allows",
			"identity:list_projects: error always-allows",
			"identity:update_project: error syntax",
			"identity:delete_project: error unknown-rule",
			"identity:list_user_projects: error unknown-rule",
			"identity:list_user_projects: error broader-than-default",
			"identity:get_group: error syntax",
			"identity:list_groups: error syntax",
			"identity:create_group: error syntax",
			"identity:create_usr: error unknown-operation",
			"identity:update_group: error duplicate-rule",
			"identity:update_group: error broader-than-default",
			"identity:delete_group: error always-allows",
			"identity:list_users_in_group: error operator-in-list",
			"identity:list_groups_for_user: error quoted-match",
			"identity:list_groups_for_user: error broader-than-default",
			"identity:add_user_to_group: error broader-than-default",
			"identity:check_user_in_group: error non-ascii",
			"identity:list_grants: error raises",
			"identity:check_grant: error raises",
			"identity:create_grant: error escalation",
			"identity:create_trust: error unknown-attribute",
			"identity:get_domain: error raises",
			"identity:list_roles: error mapping-rule",
			"identity:list_domains: error always-allows",
			"identity:get_role: warning unknown-credential",
			"identity:delete_domain: error remote-check",
			"identity:delete_domain: error broader-than-default",
			"identity:remove_user_from_group: note not-compared",
			"identity:delete_role: error unknown-attribute",
			"identity:delete_role: error broader-than-default",
		))
	})

	It("knows every rule that Keystone ships", func(ctx SpecContext) {
		var document strings.Builder
		for _, name := range shippedNames() {
			fmt.Fprintf(&document, "%q: \"rule:admin_required and rule:%s\"\n", "x_"+name, name)
			fmt.Fprintf(&document, "%q: \"!\"\n", name)
		}
		findings, err := oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: "all", Data: []byte(document.String())}}, oslopolicy.LintOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, finding := range findings {
			Expect(finding.Code).NotTo(BeElementOf(oslopolicy.CodeUnknownRule, oslopolicy.CodeUnknownOperation), finding.Message)
		}
	})
})
