//go:build e2e

package keystonepolicy_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/internal/oslopolicy"
)

// The answers of Keystone: a denial, or the domains of the objects in a list.
const (
	denied   = "denied"
	admitted = "admitted"
	shows    = "shows "
)

// scoped are rules that depend on the scope of the token, with the answers of Keystone to requests, and what the linter reports.
var scoped = []struct {
	operation, rule string
	release         oslopolicy.Release
	// want are the answers, by the holder of the token and the path of the request: OWN and OTHER are the IDs of the domains, and PROJECT, CHILD and
	// USER those of objects of the own domain.
	want map[[2]string]string
	// severity is the highest severity of the findings.
	severity string
}{
	// Keystone limits these lists for a token of a domain only.
	{operation: "list_users", rule: "rule:admin_required or role:manager", severity: "error", want: map[[2]string]string{
		{"manager of the domain", "users"}: shows + own, {"manager of a project", "users"}: shows + both, {"manager by inheritance", "users"}: shows + both,
		{"member of a project", "users"}: denied,
	}},
	{operation: "list_groups", rule: "rule:admin_required or role:manager", severity: "error", want: map[[2]string]string{
		{"manager of the domain", "groups"}: shows + own, {"manager of a project", "groups"}: shows + both,
	}},
	{operation: "list_projects", rule: "rule:admin_required or role:manager", severity: "error", want: map[[2]string]string{
		{"manager of the domain", "projects"}: shows + own, {"manager of a project", "projects"}: shows + both,
	}},
	{operation: "list_role_assignments", rule: "rule:admin_required or role:manager", severity: "error", want: map[[2]string]string{
		{"manager of the domain", "role_assignments"}: shows + own, {"manager of a project", "role_assignments"}: shows + both,
	}},
	{operation: "list_users", rule: "rule:admin_required or (role:manager and not domain_id:None)", want: map[[2]string]string{
		{"manager of the domain", "users"}: shows + own, {"manager of a project", "users"}: denied,
	}},
	{operation: "list_users", rule: "rule:admin_required or (role:manager and domain_id:%(target.domain_id)s)", want: map[[2]string]string{
		{"manager of the domain", "users?domain_id=OTHER"}: shows, {"manager of a project", "users?domain_id=OWN"}: denied,
	}},
	// The same holds for everybody, also without a role.
	{operation: "list_users", rule: "rule:admin_required or (project_id:None and domain_id:None)", severity: "error", want: map[[2]string]string{
		{"user without a scope", "users"}: shows + both, {"manager of a project", "users"}: denied,
	}},
	{operation: "get_trust", rule: "rule:admin_required or role:manager", severity: "error"},
	{operation: "get_credential", rule: "rule:admin_required or role:manager", severity: "error"},

	// A filter shows objects of the own domain only.
	{operation: "list_groups", rule: "rule:admin_required or (role:reader and domain_id:%(filter_attr.domain_id)s)", want: map[[2]string]string{
		{"reader of the domain", "groups?domain_id=OWN"}: shows + own, {"reader of the domain", "groups?domain_id=OTHER"}: denied, {"reader of the domain", "groups"}: denied,
		{"reader of a project", "groups?domain_id=OWN"}: denied,
	}},
	{operation: "list_users", rule: "rule:admin_required or project_domain_id:%(filter_attr.domain_id)s", severity: "warning", want: map[[2]string]string{
		{"member of a project", "users?domain_id=OWN"}: shows + own, {"member of a project", "users?domain_id=OTHER"}: denied, {"member of a project", "users"}: denied,
	}},
	{operation: "list_users", rule: "rule:admin_required or user_domain_id:%(filter_attr.domain_id)s", severity: "warning", want: map[[2]string]string{
		{"member from another domain", "users?domain_id=OTHER"}: shows + other, {"member from another domain", "users?domain_id=OWN"}: denied,
	}},
	{operation: "list_role_assignments", rule: "rule:admin_required or project_id:%(filter_attr.scope.project.id)s", severity: "warning", want: map[[2]string]string{
		{"member of a project", "role_assignments?scope.project.id=PROJECT"}: shows + own, {"member of a project", "role_assignments?scope.domain.id=OWN"}: denied,
		{"member of a project", "role_assignments"}: denied,
	}},
	{operation: "list_role_assignments", rule: "rule:admin_required or user_id:%(filter_attr.user.id)s", severity: "warning", want: map[[2]string]string{
		{"member of a project", "role_assignments?user.id=SELF"}: shows + own, {"member of a project", "role_assignments?user.id=USER"}: denied,
	}},
	{operation: "list_projects", rule: "rule:admin_required or project_id:%(filter_attr.parent_id)s", severity: "warning", want: map[[2]string]string{
		{"member of a project", "projects?parent_id=PROJECT"}: shows + own, {"member of a project", "projects"}: denied,
	}},
	{operation: "list_users", rule: "rule:admin_required or (role:manager and domain_id:%(filter_attr.domain_id)s)", want: map[[2]string]string{
		{"manager of the domain", "users?domain_id=OWN"}: shows + own, {"manager of a project", "users?domain_id=OWN"}: denied,
	}},
	// This filter is the name of a user, whatever its domain.
	{operation: "list_users", rule: "rule:admin_required or user_id:%(filter_attr.name)s", severity: "error", want: map[[2]string]string{
		{"member of a project", "users"}: denied,
	}},

	// A token without a domain has no attribute with the domain of the token.
	{operation: "list_role_assignments", rule: "rule:admin_required or (role:reader and domain_id:%(target.domain_id)s)", want: map[[2]string]string{
		{"reader of the domain", "role_assignments"}: shows + own, {"reader of a project", "role_assignments"}: denied, {"user without a scope", "role_assignments"}: denied,
	}},
	{operation: "list_role_assignments", rule: "rule:admin_required or (role:reader and domain_id:%(target.domain_id)s)", release: "2026.2"},
	{operation: "list_projects", rule: "rule:admin_required or (role:reader and domain_id:%(target.domain_id)s)", release: "2026.2"},
	{operation: "list_roles", rule: "rule:admin_required or (role:manager and not domain_id:None)", release: "2026.2"},

	// The domain of a domain is null, and so is the domain of a token for a project.
	{operation: "update_project", rule: "rule:admin_required or (role:manager and domain_id:%(target.project.domain_id)s)", severity: "error", want: map[[2]string]string{
		{"manager of a project", "PATCH projects/OTHER"}: admitted, {"manager of the domain", "PATCH projects/OTHER"}: denied, {"manager of a project", "PATCH projects/PROJECT"}: denied,
	}},
	{operation: "update_project", rule: "rule:admin_required or (role:manager and token.domain.id:%(target.project.domain_id)s)", want: map[[2]string]string{
		{"manager of a project", "PATCH projects/OTHER"}: denied, {"manager of the domain", "PATCH projects/OTHER"}: denied, {"manager of the domain", "PATCH projects/PROJECT"}: admitted,
	}},
	{
		operation: "update_project", rule: "rule:admin_required or (role:manager and domain_id:%(target.project.domain_id)s and not None:%(target.project.domain_id)s)",
		want: map[[2]string]string{
			{"manager of a project", "PATCH projects/OTHER"}: denied, {"manager of the domain", "PATCH projects/PROJECT"}: admitted,
		},
	},
	{operation: "get_project", rule: "rule:admin_required or (role:manager and domain_id:%(target.project.domain_id)s)", severity: "warning", want: map[[2]string]string{
		{"manager of a project", "projects/OTHER"}: admitted, {"manager of the domain", "projects/OTHER"}: denied,
	}},
	{
		operation: "get_project", release: "2026.2", severity: "warning",
		rule: "rule:admin_required or (role:reader and domain_id:%(target.project.domain_id)s) or project_id:%(target.project.id)s",
	},

	// The query of these lists is no variable of the path.
	{operation: "list_domain_roles", rule: "rule:admin_required or (role:manager and domain_id:%(domain_id)s)", severity: "error", want: map[[2]string]string{
		{"manager of the domain", "roles?domain_id=OWN"}: denied,
	}},
	{operation: "list_domain_roles", rule: "rule:admin_required or (role:manager and domain_id:%(filter_attr.domain_id)s)", want: map[[2]string]string{
		{"manager of the domain", "roles?domain_id=OWN"}: admitted, {"manager of the domain", "roles?domain_id=OTHER"}: denied,
	}},
	{operation: "list_trusts_for_trustor", rule: "rule:admin_required or user_id:%(trustor_user_id)s", severity: "error", want: map[[2]string]string{
		{"member of a project", "OS-TRUST/trusts?trustor_user_id=SELF"}: denied,
	}},
	{operation: "list_trusts_for_trustor", rule: "rule:admin_required or user_id:%(target.trust.trustor_user_id)s", want: map[[2]string]string{
		{"member of a project", "OS-TRUST/trusts?trustor_user_id=SELF"}: admitted,
	}},

	// A manager of a project is no manager of its domain.
	{operation: "update_user", rule: "rule:admin_required or (role:manager and project_domain_id:%(target.user.domain_id)s)", severity: "warning", want: map[[2]string]string{
		{"manager of a project", "PATCH users/USER"}: admitted,
	}},
}

const both = other + " and " + own

// answer is the answer of Keystone to a request.
func (w *randomWorld) answer(ctx context.Context, holderName, request string) string {
	GinkgoHelper()
	i := slices.IndexFunc(w.holders, func(h holder) bool { return h.name == holderName })
	Expect(i).NotTo(Equal(-1), holderName)
	home := w.places[own]
	path := strings.NewReplacer("OWN", home.domain, "OTHER", w.places[other].domain, "PROJECT", home.project, "USER", home.user.ID).Replace(request)
	p := probe{path: path}
	if rest, ok := strings.CutPrefix(path, "PATCH "); ok {
		kind, _, _ := strings.Cut(rest, "s/")
		p = probe{method: http.MethodPatch, path: rest, body: object{kind: object{"description": "changed"}}}
	}
	kind, _, _ := strings.Cut(path, "?")
	if list := w.probes[prefix+"list_"+kind]; len(list) > 0 {
		p.listed = list[0].listed
	}
	allowed, body := w.send(ctx, w.holders[i], p)
	switch {
	case !allowed:
		return denied
	case p.listed == nil:
		return admitted
	}
	var places []string
	for _, domain := range p.listed(body) {
		for name, place := range w.places {
			if place.domain == domain && !slices.Contains(places, name) {
				places = append(places, name)
			}
		}
	}
	slices.Sort(places)
	return shows + strings.Join(places, " and ")
}

// worst returns the highest severity of the findings in a policy, without notes, and checks that no witness has a token that Keystone does not
// issue.
func worst(ctx context.Context, policy string, options oslopolicy.LintOptions) string {
	GinkgoHelper()
	findings, err := oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: "policy.yaml", Data: []byte(policy)}}, options)
	Expect(err).NotTo(HaveOccurred())
	severity := ""
	for _, f := range findings {
		if f.Witness != nil {
			Expect(f.Witness.As).NotTo(ContainSubstring("None"))
		}
		switch {
		case f.Code == oslopolicy.CodeOverrideObsolete, f.Severity == oslopolicy.SeverityNote:
		case f.Severity == oslopolicy.SeverityError, severity == "":
			severity = string(f.Severity)
		}
	}
	return severity
}

var _ = Describe("The scope of a token", func() {
	It("decides in Keystone what a rule shows, as the linter says", func(ctx SpecContext) {
		w := newRandomWorld(ctx)
		want, got := map[string]string{}, map[string]string{}
		for _, row := range scoped {
			policy := fmt.Sprintf("%q: %q\n", prefix+row.operation, row.rule)
			Expect(keystone.SetPolicy(ctx, []byte(policy))).To(Succeed())
			for request, answer := range row.want {
				name := fmt.Sprintf("%s %s as %s: %s", row.operation, row.rule, request[0], request[1])
				want[name], got[name] = answer, w.answer(ctx, request[0], request[1])
			}
			name := fmt.Sprintf("%s %s (%s)", row.operation, row.rule, row.release)
			want[name], got[name] = row.severity, worst(ctx, policy, oslopolicy.LintOptions{Release: row.release})
		}
		Expect(cmp.Diff(want, got)).To(BeEmpty(), "answers of Keystone and severities of the linter (-want +got)")
	}, SpecTimeout(specTimeout))

	It("does not matter for 40 protected roles, which no administrator of a domain can grant", func(ctx SpecContext) {
		w := newRandomWorld(ctx)
		var checks []string
		for i := range 40 {
			checks = append(checks, fmt.Sprintf("'protected_%d':%%(target.role.name)s", i))
		}
		policy := fmt.Sprintf("%q: %q\n%q: %q\n%q: %q\n%q: %q\n",
			"protected", strings.Join(checks, " or "),
			"same_domain", "domain_id:%(domain_id)s or domain_id:%(target.project.domain_id)s",
			"grants", "rule:admin_required and (None:%(target.role.domain_id)s or domain_id:%(target.role.domain_id)s) and rule:same_domain and not rule:protected",
			prefix+"create_grant", "(role:admin and is_admin_project:True) or rule:grants")
		Expect(keystone.SetPolicy(ctx, []byte(policy))).To(Succeed())
		home := w.places[own]
		for name, want := range map[string]bool{"protected_0": false, "protected_39": false, "member": true} {
			role, err := keystone.Role(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			allowed, _ := w.send(ctx, w.holders[slices.IndexFunc(w.holders, func(h holder) bool { return h.name == "administrator of the domain" })],
				probe{method: http.MethodPut, path: "projects/" + home.project + "/users/" + home.user.ID + "/roles/" + role})
			Expect(allowed).To(Equal(want), name)
		}
		for _, release := range []oslopolicy.Release{"", "2026.2"} {
			Expect(worst(ctx, policy, oslopolicy.LintOptions{Release: release})).To(BeEmpty())
		}
	}, SpecTimeout(specTimeout))

	It("does not matter for a rule in place of missing ones, to which no rule refers", func(ctx SpecContext) {
		w := newRandomWorld(ctx)
		policy := `"admin_required": "role:admin"` + "\n" + `"default": "rule:admin_required"` + "\n" + `"identity:list_users": "rule:admin_required"` + "\n"
		Expect(keystone.SetPolicy(ctx, []byte(policy))).To(Succeed())
		Expect(w.answer(ctx, "administrator of the domain", "users")).To(Equal(shows + own))
		Expect(w.answer(ctx, "member of a project", "users")).To(Equal(denied))
		Expect(worst(ctx, policy, oslopolicy.LintOptions{})).To(Equal("warning"))

		// In a file of its own, it opens the operations whose rule refers to what is missing.
		base, override := `"identity:list_users": "rule:admin_required or rule:missing"`+"\n", `"default": "role:member"`+"\n"
		Expect(keystone.SetPolicy(ctx, []byte(base), []byte(override))).To(Succeed())
		Expect(w.answer(ctx, "member of a project", "users")).To(Equal(shows + both))
		files, err := oslopolicy.ReadAll([]oslopolicy.Source{{Name: "base", Data: []byte(base)}})
		Expect(err).NotTo(HaveOccurred())
		findings, err := oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: "override", Data: []byte(override)}}, oslopolicy.LintOptions{Base: files})
		Expect(err).NotTo(HaveOccurred())
		Expect(slices.ContainsFunc(findings, func(f oslopolicy.Finding) bool {
			return f.Severity == oslopolicy.SeverityError && f.Code == oslopolicy.CodeBroaderThanDefault
		})).To(BeTrue())
	}, SpecTimeout(specTimeout))
})
