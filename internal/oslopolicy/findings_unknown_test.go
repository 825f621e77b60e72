package oslopolicy

import (
	"fmt"
	"strings"
	"testing"
)

// TestShippedRulesAsOverride: Keystone's own rules, written into an override, do not grant more than themselves in any release, together or alone. Some
// have attributes that Keystone does not set.
func TestShippedRulesAsOverride(t *testing.T) {
	for _, release := range Releases() {
		var all strings.Builder
		policies := []linted{}
		for _, r := range release.table().list {
			line := fmt.Sprintf("%q: %q\n", r.name, r.rule)
			all.WriteString(line)
			policies = append(policies, linted{file: line})
			if r.former != "" {
				both := fmt.Sprintf("%q: %q\n", r.name, "("+r.rule+") or ("+r.former+")")
				policies = append(policies, linted{file: both}, linted{file: fmt.Sprintf("%q: %q\n", r.name, r.former)})
			}
		}
		for _, l := range append(policies, linted{file: all.String()}, linted{file: all.String(), base: "other: role:admin"}) {
			l.options.Release = release
			for _, f := range l.findings(t) {
				if f.Severity != SeverityNote && f.Code != CodeOverrideObsolete && f.Code != CodeUnknownAttribute {
					t.Errorf("%s: %s: %s", release, severe(f), f.Details())
				}
			}
		}
	}
}

// TestMisspelledRoles: a role with nearly the name of one that Keystone or the base has is probably meant to be that one. The roles of a cloud can
// have any other names.
func TestMisspelledRoles(t *testing.T) {
	finding := func(role, meant string) string {
		return fmt.Sprintf(`no rule of Keystone checks the role %q; write "role:%s", unless the cloud has both roles`, role, meant)
	}
	const based = `no rule of Keystone and of the base checks the role "operatr"; write "role:operator", unless the cloud has both roles`
	options := LintOptions{ManagerRoles: []string{"domain-boss"}, ManagedRoles: []string{"creator"}}
	expect(t, map[string]linted{
		"the administrator's":               {rule: "role:admn", want: []string{finding("admn", "admin")}},
		"in another case":                   {rule: "role:Admn", want: []string{finding("Admn", "admin")}},
		"beside the right one":              {rule: "role:admin or role:raeder", want: []string{finding("raeder", "reader")}},
		"which must not be there":           {rule: "role:admin and not role:memebr", want: []string{finding("memebr", "member")}},
		"in a helper":                       {file: "identity:get_domain: rule:a\na: role:admn", want: []string{finding("admn", "admin")}},
		"where the smallest witness is one": {file: "identity:get_project: role:admn", want: []string{finding("admn", "admin")}},
		"of the base":                       {base: "other: role:operator", rule: "role:operatr", want: []string{based}},
		"of the options":                    {options: options, rule: "role:domain-bos or role:Creatr", want: []string{finding("domain-bos", "domain-boss"), finding("Creatr", "creator")}},
		"known":                             {options: options, rule: "role:Admin and (role:domain-boss or role:CREATOR or role:service or role:manager)"},
		"known to the base":                 {base: "other: role:admn", rule: "role:admn"},
		"of the cloud":                      {rule: "role:cloud-admin or role:support or role:heat_stack_owner or role:auditor"},
		"intended denials":                  {file: "identity:get_domain: '!'\nidentity:get_project: not role:admin"},
		"a template":                        {rule: "role:%(target.role.name)s"},
	}, func(f Finding) string {
		if f.Code != CodeUnknownRole || f.Severity != SeverityWarning {
			return ""
		}
		return f.Details()
	})
}

// TestRulesThatMayGrantMore: a tenant writes rules that let it do what Keystone's own rule or the base denies, by checks that the linter cannot
// evaluate, that match only the tenant, or that are hidden behind others.
func TestRulesThatMayGrantMore(t *testing.T) {
	const (
		admin   = "rule:admin_required"
		home    = "domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s"
		broader = "error broader-than-default identity:create_user"
		remote  = "error remote-check identity:create_user"
		grants  = "error escalation identity:create_grant"
	)
	many := func(count int, check string) string {
		var checks []string
		for i := range count {
			checks = append(checks, fmt.Sprintf(check, i))
		}
		return strings.Join(checks, " or ")
	}
	deep := "identity:create_user: rule:r0\n"
	for i := range 150 {
		deep += fmt.Sprintf("r%d: role:admin or rule:r%d\n", i, i+1)
	}
	deep += "r150: user_id:mallory\n"
	expect(t, map[string]linted{
		"a user by ID":                                {rule: admin + " or user_id:mallory", want: []string{broader}},
		"a user by name":                              {rule: admin + " or token.user.name:mallory", want: []string{broader}},
		"a user by the name of the domain":            {rule: admin + " or token.user.domain.name:evil", want: []string{broader}},
		"a domain by name":                            {rule: admin + " or token.domain.name:evil", want: []string{broader}},
		"a project by name":                           {rule: admin + " or token.project.name:evil", want: []string{broader}},
		"a project by the name of its domain":         {rule: admin + " or token.project.domain.name:evil", want: []string{broader}},
		"a user by name and ID":                       {rule: admin + " or (token.user.name:mallory and user_id:abc)", want: []string{broader}},
		"a user by name, and not by ID":               {rule: admin + " or (token.user.name:mallory and not user_id:mallory)", want: []string{broader}},
		"a reader by ID":                              {rule: admin + " or (role:reader and user_id:mallory)", want: []string{broader}},
		"a user by ID, in its own domain":             {rule: admin + " or (user_id:mallory and domain_id:%(target.user.domain_id)s)", want: []string{"warning broader-than-default identity:create_user"}},
		"a project by ID":                             {rule: admin + " or project_id:mine", want: []string{broader}},
		"a name that the tenant gives to the object":  {rule: admin + " or 'evil':%(target.user.name)s", want: []string{broader}},
		"a value of an attribute":                     {rule: admin + " or user_id:%(target.user.description)s", want: []string{broader}},
		"a role that the target names":                {rule: admin + " or role:%(target.user.name)s", want: []string{broader}},
		"not a role that the target names":            {rule: admin + " or not role:%(target.user.name)s", want: []string{broader}},
		"another host":                                {rule: admin + " or http://host/%(target.user.name)s", want: []string{remote, broader}},
		"another host, encrypted":                     {rule: admin + " or https://host/%(target.user.name)s", want: []string{remote, broader}},
		"not another host":                            {rule: admin + " or not http://host/", want: []string{remote, broader}},
		"another host, whatever it says":              {rule: admin + " or not http://a/ or (http://a/ and http://b/)", want: []string{remote, remote, remote, broader}},
		"another host, for members":                   {rule: admin + " or (role:member and http://host/)", want: []string{remote, broader}},
		"another host, for managers":                  {rule: admin + " or (role:manager and http://host/)", want: []string{remote, broader}},
		"another host, for administrators":            {rule: admin + " and http://host/", want: []string{remote}},
		"text around an attribute":                    {rule: admin + " or user_domain_id:x%(target.user.domain_id)sy", want: []string{broader}},
		"two attributes":                              {rule: admin + " or user_id:%(target.user.name)s%(target.user.description)s", want: []string{broader}},
		"a number with a width":                       {rule: admin + " or '1':%(target.user.enabled)1d", want: []string{broader}},
		"a percent sign":                              {rule: admin + " or project_id:50%%", want: []string{broader}},
		"the catalog of the token":                    {rule: admin + " or token.catalog.type:identity", want: []string{broader}},
		"an endpoint in the catalog of the token":     {rule: admin + " or token.catalog.endpoints.region_id:x", want: []string{broader}},
		"a service provider":                          {rule: admin + " or token.service_providers.id:x", want: []string{broader}},
		"a group of an identity provider":             {rule: admin + " or token.user.OS-FEDERATION.groups.id:x", want: []string{broader}},
		"an access rule":                              {rule: admin + " or token.application_credential.access_rules.service:identity", want: []string{broader}},
		"the catalog, misspelled":                     {rule: admin + " or token.catalogue.type:identity", want: []string{broader, "warning unknown-credential identity:create_user"}},
		"the text of the token":                       {rule: admin + " or token:%(target.user.description)s", want: []string{broader, "warning unknown-credential identity:create_user"}},
		"the trust of the token":                      {rule: admin + " or token.OS-TRUST:x", want: []string{broader}},
		"an application credential":                   {rule: admin + " or token.application_credential.name:x", want: []string{broader}},
		"an expiry":                                   {rule: admin + " or token.user.password_expires_at:None", want: []string{broader}},
		"a service":                                   {rule: admin + " or service_roles:x", want: []string{broader}},
		"a flag":                                      {rule: admin + " or is_admin_project:%(target.user.enabled)s", want: []string{broader}},
		"in a helper":                                 {file: "identity:create_user: rule:a\na: rule:b or rule:admin_required\nb: role:%(target.user.name)s", want: []string{broader}},
		"in a helper of Keystone":                     {file: "admin_required: role:admin or role:%(target.user.name)s", want: []string{"error broader-than-default admin_required", "error escalation admin_required"}},
		"in a helper that only the base lacks":        {base: "identity:create_user: rule:admin_required or rule:local", file: "local: token.user.name:mallory", want: []string{"error broader-than-default local"}},
		"another host, in a helper":                   {file: "identity:create_user: rule:admin_required and rule:a\na: http://host/", want: []string{"error remote-check a"}},
		"another host of the base, where it is wrong": {base: "a: http://host/", file: "identity:create_user: rule:admin_required or rule:a", want: []string{broader}},
		"another host than that of the base":          {base: "identity:create_user: role:admin and http://host/", file: "identity:create_user: role:admin and http://evil/", want: []string{remote, broader}},
		"more than the base, by another host":         {base: "a: role:admin", file: "a: role:admin\nidentity:create_user: rule:a or token.user.name:x", want: []string{broader}},
		"behind members of the own domain": {
			file: "identity:create_group: role:member and domain_id:%(target.group.domain_id)s or user_id:mallory",
			want: []string{"error broader-than-default identity:create_group"},
		},
		"behind the domain of the body": {
			file: "identity:update_user: rule:admin_required or (user_id:mallory and domain_id:%(request_body.user.domain_id)s)",
			want: []string{"error broader-than-default identity:update_user"},
		},
		"behind the own user, as a new member of a group": {
			file: "identity:add_user_to_group: rule:admin_required or user_id:%(target.user.id)s", want: []string{"error broader-than-default identity:add_user_to_group"},
		},
		"behind the own user, as the trustee": {
			file: "identity:create_trust: user_id:%(target.trust.trustee_user_id)s", want: []string{"error broader-than-default identity:create_trust"},
		},
		"a grant by one manager":                {file: "identity:create_grant: rule:admin_required or (role:manager and user_id:mallory and " + home + ")", want: []string{grants}},
		"a grant by another host":               {file: "identity:create_grant: rule:admin_required or (role:manager and http://host/ and " + home + ")", want: []string{"error remote-check identity:create_grant", grants}},
		"a grant of a role with text around it": {file: "identity:create_grant: rule:admin_required or (role:manager and 'x':%(target.role.name)1s and " + home + ")", want: []string{grants}},
		"a grant of a role that is not managed": {file: "identity:create_grant: rule:admin_required or (role:manager and 'cloud':%(target.role.name)s and " + home + ")", want: []string{grants}},
		"a grant in another domain by one manager": {
			file: "identity:create_grant: rule:admin_required or (role:manager and user_id:mallory and 'member':%(target.role.name)s and domain_id:%(target.user.domain_id)s)",
			want: []string{"error broader-than-default identity:create_grant"},
		},
		"a grant in a helper of the base": {
			base: "identity:create_grant: rule:admin_required or (role:manager and rule:grantable and " + home + ")\ngrantable: \"'member':%(target.role.name)s\"",
			file: "grantable: '@'", want: []string{"error escalation grantable"},
		},
		"a user by ID, in an attribute": {
			rule: admin + " or (user_id:%(target.user.description)s and 'mallory':%(target.user.description)s)", want: []string{broader},
		},
		"a user by name, in an attribute": {
			rule: admin + " or (token.user.name:%(target.user.description)s and 'mallory':%(target.user.description)s)", want: []string{broader},
		},
		"a domain by ID, in an attribute": {
			rule: admin + " or (domain_id:%(target.user.description)s and 'evil':%(target.user.description)s)", want: []string{broader},
		},
		"a user and a project of one name": {
			rule: admin + " or (token.user.name:%(target.user.description)s and token.project.name:%(target.user.description)s)", want: []string{broader},
		},
		"a user and a project of one name, and nothing else": {
			base: "identity:create_user: '!'", want: []string{broader},
			rule: "token.user.name:%(target.user.description)s and token.project.name:%(target.user.description)s",
		},
		"a user with the ID of a project as its name": {
			rule: admin + " or (token.user.name:%(target.user.description)s and project_id:%(target.user.description)s)", want: []string{broader},
		},
		"a user by name, and not by ID, in an attribute": {
			file: "identity:update_user: rule:admin_required or (token.user.name:%(target.user.name)s and not user_id:%(target.user.name)s)",
			want: []string{"error broader-than-default identity:update_user"},
		},
		"a grant by one manager, in an attribute": {
			file: "identity:create_grant: rule:admin_required or (role:manager and user_id:%(target.user.name)s and 'mallory':%(target.user.name)s and " + home + ")",
			want: []string{grants},
		},
		"the own user, in a group of another domain": {
			file: "identity:add_user_to_group: rule:admin_required or (role:manager and domain_id:%(target.user.domain_id)s)",
			want: []string{"error broader-than-default identity:add_user_to_group"},
		},
		"a user of another domain, in the own group": {
			file: "identity:remove_user_from_group: rule:admin_required or (role:manager and domain_id:%(target.group.domain_id)s)",
			want: []string{"error broader-than-default identity:remove_user_from_group"},
		},
		"behind a field of the body":           {rule: admin + " or (role:manager and domain_id:%(request_body.foo_domain_id)s)", want: []string{broader}},
		"behind a field of another object":     {rule: admin + " or (role:manager and domain_id:%(request_body.x.domain_id)s)", want: []string{broader}},
		"behind a field of the created object": {rule: admin + " or (role:manager and domain_id:%(request_body.user.x_domain_id)s)", want: []string{broader}},
		"behind a field that users lack": {
			rule: admin + " or (role:manager and domain_id:%(target.user.x.domain_id)s)", want: []string{broader, "warning unknown-attribute identity:create_user"},
		},
		"a manager who reads users of one name in any domain": {
			file: "identity:get_user: rule:admin_required or (role:manager and 'x':%(target.user.name)s)", want: []string{"error broader-than-default identity:get_user"},
		},
		"one manager who reads any user": {
			file: "identity:get_user: rule:admin_required or (role:manager and user_id:mallory)", want: []string{"error broader-than-default identity:get_user"},
		},
		"behind many alternatives":   {rule: many(2000, "role:r%d") + " or user_id:mallory", want: []string{"error not-compared identity:create_user"}},
		"behind many different ones": {rule: many(70, "(role:r%[1]d and project_id:p%[1]d)") + " or user_id:mallory", want: []string{"error not-compared identity:create_user"}},
		"behind many that are alike": {rule: many(70, "role:r%d") + " or user_id:mallory", want: []string{broader}},
		"behind many roles": {
			rule: admin + " or (" + strings.ReplaceAll(many(20, "role:r%d"), " or ", " and ") + " and user_id:mallory)", want: []string{"error not-compared identity:create_user"},
		},
		"behind a field of the body of a change": {
			file: "identity:update_region: rule:admin_required or (role:manager and domain_id:%(request_body.region.domain_id)s)",
			want: []string{"error broader-than-default identity:update_region"},
		},
		"behind many tokens": {
			rule: "(" + many(11, "user_id:u%d") + ") and (" + many(11, "project_id:p%d") + ") and (" + many(11, "project_domain_id:d%d") + ") and role:admin",
			want: []string{"error not-compared identity:create_user"},
		},
		"all but a user that the search tries":  {rule: admin + " or not user_id:caller", want: []string{broader}},
		"all but a value that the search tries": {rule: admin + " or not 'another-description':%(target.user.description)s", want: []string{broader}},
		"all but a project that the search tries": {
			rule: admin + " or (role:member and not project_id:None and not project_id:own-project)", want: []string{broader},
		},
		"null in a field of the body": {
			file: "identity:update_user: rule:admin_required or (system_scope:%(request_body.user.x)s and not system_scope:all)", want: []string{"error broader-than-default identity:update_user"},
		},
		"null in a field of a new object": {rule: admin + " or None:%(target.user.default_project_id)s", want: []string{broader}},
		"null in place of a time": {
			file: "identity:update_user: rule:admin_required or (system_scope:%(target.user.password_expires_at)s and not system_scope:all)",
			want: []string{"error broader-than-default identity:update_user"},
		},
		"null in place of a former trust": {
			file: "identity:delete_trust: rule:admin_required or None:%(target.trust.redelegated_trust_id)s", want: []string{"error broader-than-default identity:delete_trust"},
		},
		"behind the body of a request that needs none": {
			file: "identity:delete_user: rule:admin_required or rule:a\nidentity:update_user: rule:admin_required and rule:a\na: \"'x':%(request_body.x)s\"",
			want: []string{"error broader-than-default identity:delete_user"},
		},
		"the own token as the subject": {
			file: "identity:create_endpoint: rule:admin_or_token_subject", want: []string{"error broader-than-default identity:create_endpoint"},
		},
		"the domain of the own token as the subject": {
			file: "identity:list_users: rule:admin_required or (role:member and user_domain_id:%(target.token.user.domain.id)s)",
			want: []string{"error broader-than-default identity:list_users"},
		},
		"the domain of a new object that has none": {
			file: "identity:create_endpoint: rule:admin_required or (role:manager and domain_id:%(request_body.endpoint.domain_id)s)",
			want: []string{"error broader-than-default identity:create_endpoint"},
		},
		"the domain of a new credential": {
			file: "identity:create_credential: rule:admin_required or (role:manager and domain_id:%(target.credential.domain_id)s)",
			want: []string{"error broader-than-default identity:create_credential", "warning unknown-attribute identity:create_credential"},
		},
		"a token without a scope, which counts as one for the admin project": {
			file: "identity:list_users: rule:admin_required or (is_admin_project:True and project_id:None and not system_scope:all)",
			want: []string{"error broader-than-default identity:list_users"},
		},
		"a role of the operator, for domains as projects": {
			base: "cloud_admin: role:admin", file: "identity:create_grant: rule:admin_required or (role:support and None:%(target.project.domain_id)s)",
			want: []string{"error broader-than-default identity:create_grant"},
		},
		"the own user, with a credential of another": {
			file: "identity:ec2_get_credential: rule:admin_or_owner", want: []string{"error broader-than-default identity:ec2_get_credential"},
		},
		"behind many references": {file: deep, want: []string{"error not-compared identity:create_user"}},
	}, severe)
}

// TestRulesThatMayGrantNoMore: checks that cannot be evaluated are no findings where they cannot grant more.
func TestRulesThatMayGrantNoMore(t *testing.T) {
	const home = "domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s"
	// Trying all sets of them would take hours.
	applicationCredentials := "role:admin"
	for i := range 40 {
		applicationCredentials += fmt.Sprintf(" or token.application_credential.name:app%d", i)
	}
	expect(t, map[string]linted{
		"an administrator with a name": {file: "identity:create_user: rule:admin_required and token.user.name:root"},
		"a user by name, as in the base": {
			base: "identity:create_user: token.user.name:%(target.user.description)s and 'm':%(target.user.description)s",
			file: "identity:create_user: token.user.name:m and 'm':%(target.user.description)s",
		},
		"a user by name and a project, as in the base": {
			base: "identity:create_user: token.user.name:%(target.user.description)s and 'm':%(target.user.description)s and project_id:p",
			file: "identity:create_user: token.user.name:m and 'm':%(target.user.description)s and project_id:p",
		},
		"an administrator and a composed text":              {file: "identity:create_user: rule:admin_required and token.project.name:x%(target.user.domain_id)s"},
		"a role of the operator":                            {file: "identity:create_user: rule:admin_required or (role:auditor and token.methods:password)"},
		"not a role that the target names":                  {file: "identity:create_user: rule:admin_required and not role:%(target.user.name)s"},
		"a manager of a domain by name":                     {file: "identity:get_domain: rule:admin_required or (role:manager and token.domain.name:%(target.domain.name)s)"},
		"a manager who changes its domain, by name":         {file: "identity:update_domain: rule:admin_required or (role:manager and token.domain.name:%(target.domain.name)s)"},
		"a manager who changes its domain, by the variable": {file: "identity:update_domain: rule:admin_required or (role:manager and domain_id:%(domain_id)s)"},
		"a manager with a project, who reads users of its domain": {
			base: "identity:get_user: role:admin", file: "identity:get_user: role:admin or (role:manager and project_domain_id:%(target.user.domain_id)s)",
		},
		"a manager who reads itself": {
			base: "identity:get_user: role:admin", file: "identity:get_user: role:admin or (role:manager and user_id:%(user_id)s)",
		},
		"a manager of users":              {file: "identity:create_user: rule:admin_required or (role:manager and domain_id:%(target.user.domain_id)s)"},
		"a manager of users, by the body": {file: "identity:create_user: rule:admin_required or (role:manager and domain_id:%(request_body.user.domain_id)s)"},
		"a manager of members": {
			file: "identity:add_user_to_group: rule:admin_required or (role:manager and domain_id:%(target.group.domain_id)s and domain_id:%(target.user.domain_id)s)",
		},
		"a member of the system":  {file: "identity:list_users: rule:admin_required or (role:member and system_scope:all)"},
		"a manager of the system": {file: "identity:delete_user: rule:admin_required or (role:manager and system_scope:all)"},
		"the same checks that cannot be evaluated": {
			base: "identity:create_user: " + applicationCredentials, file: "identity:create_user: " + applicationCredentials,
		},
		"a manager of users, with a password":   {file: "identity:create_user: rule:admin_required or (role:manager and domain_id:%(target.user.domain_id)s and token.methods:password)"},
		"a manager who grants, with a password": {file: "identity:create_grant: rule:admin_required or (role:manager and 'member':%(target.role.name)s and token.methods:password and " + home + ")"},
		"the own user":                          {file: "identity:update_user: rule:admin_required or user_id:%(target.user.id)s", want: []string{"warning broader-than-default identity:update_user"}},
		"the own user, by the variable":         {file: "identity:get_user: rule:admin_or_owner"},
		"the own credentials, by the variable": {
			file: "identity:ec2_create_credential: rule:admin_or_owner", options: LintOptions{Release: "2025.1"}, want: []string{"warning broader-than-default identity:ec2_create_credential"},
		},
		"the own project":                          {file: "identity:update_project: rule:admin_required or (role:member and project_id:%(target.project.id)s)", want: []string{"warning broader-than-default identity:update_project"}},
		"the same check of another host":           {base: "identity:create_user: role:admin or http://host/", file: "identity:create_user: role:admin or http://host/"},
		"the same check in another order":          {base: "identity:create_user: role:admin or http://host/", file: "identity:create_user: http://host/ or role:admin"},
		"the same check for fewer users":           {base: "identity:create_user: role:admin or http://host/", file: "identity:create_user: role:admin"},
		"the same role that the target names":      {base: "identity:create_user: role:admin or role:%(target.user.name)s", file: "identity:create_user: role:%(target.user.name)s or role:admin"},
		"another host of a rule without use":       {file: "mine: http://host/"},
		"the same rule that is too large":          {base: "identity:create_user: " + "role:admin" + strings.Repeat(" or !", maxChecks), file: "identity:create_user: " + "role:admin" + strings.Repeat(" or !", maxChecks)},
		"a helper that names the host of the base": {base: "a: http://host/\nidentity:create_user: rule:a", file: "identity:create_user: rule:a and role:admin"},
	}, severe)
}
