package oslopolicy

import (
	"fmt"
	"strings"
	"testing"
)

// TestPublishedShapes lints policies of the kinds that operators publish. What real Keystones answer to them is in e2e/suites/keystonepolicy.
func TestPublishedShapes(t *testing.T) {
	const (
		broader = "error broader-than-default identity:"
		near    = "warning broader-than-default identity:"
		dead    = "error unknown-attribute "
	)
	var protected []string
	for i := range 40 {
		protected = append(protected, fmt.Sprintf("'cloud_%d_admin':%%(target.role.name)s", i))
	}
	managers := strings.Join([]string{
		`"live_get_project": "(role:reader and system_scope:all) or (role:reader and domain_id:%(target.project.domain_id)s) or project_id:%(target.project.id)s"`,
		`"live_list_users": "(role:reader and system_scope:all) or (role:reader and domain_id:%(target.domain_id)s)"`,
		`"live_list_role_assignments": "(role:reader and system_scope:all) or (role:reader and domain_id:%(target.domain_id)s)"`,
		`"live_create_project": "(role:admin and system_scope:all) or (role:admin and domain_id:%(target.project.domain_id)s)"`,
		`"managers": "role:manager"`,
		`"grantable": "'member':%(target.role.name)s or 'load-balancer_member':%(target.role.name)s"`,
		`"grant": "token.domain.id:%(target.user.domain_id)s and token.domain.id:%(target.project.domain_id)s"`,
		`"identity:list_domains": "rule:managers or rule:admin_required"`,
		`"identity:get_domain": "(rule:managers and token.domain.id:%(target.domain.id)s) or token.project.domain.id:%(target.domain.id)s or rule:admin_required"`,
		`"identity:list_roles": "rule:managers or rule:admin_required"`,
		`"identity:get_role": "(rule:managers and rule:grantable) or rule:admin_required"`,
		`"identity:list_users": "(rule:managers and token.domain.id:%(target.domain_id)s) or rule:live_list_users or rule:admin_required"`,
		`"identity:get_project": "(rule:managers and token.domain.id:%(target.project.domain_id)s) or rule:live_get_project or rule:admin_required"`,
		`"identity:create_project": "(rule:managers and token.domain.id:%(target.project.domain_id)s) or rule:live_create_project or rule:admin_required"`,
		`"identity:create_grant": "(rule:managers and rule:grant and rule:grantable) or rule:admin_required"`,
		`"identity:list_role_assignments": "(rule:managers and token.domain.id:%(target.domain_id)s) or rule:live_list_role_assignments or rule:admin_required"`,
	}, "\n")
	expect(t, map[string]linted{
		"managers of domains, over copies of the shipped rules": {file: managers},
		"managers of domains, in a release that has them": {file: managers, options: LintOptions{Release: "2026.2"}, want: []string{
			"warning override-obsolete managers", near + "get_project",
		}},
		"a list of protected roles": {file: strings.Join([]string{
			`"cloud_admin": "role:admin and (is_admin_project:True or domain_id:default)"`,
			`"protected": "` + strings.Join(protected, " or ") + `"`,
			`"same_domain": "domain_id:%(domain_id)s or domain_id:%(target.project.domain_id)s"`,
			`"domain_admin": "role:admin and (None:%(target.role.domain_id)s or domain_id:%(target.role.domain_id)s) and rule:same_domain"`,
			`"project_admin": "(role:admin or role:role_admin) and None:%(target.role.domain_id)s and (project_id:%(project_id)s or project_id:%(target.project.parent_id)s)"`,
			`"identity:create_grant": "rule:cloud_admin or ((rule:domain_admin or rule:project_admin) and not rule:protected and not 'cloud-project':%(target.project.id)s)"`,
			`"identity:revoke_grant": "rule:cloud_admin or ((rule:domain_admin or rule:project_admin) and not rule:protected)"`,
		}, "\n")},
		"a list of protected roles, for managers": {file: strings.Join([]string{
			`"protected": "` + strings.Join(protected, " or ") + `"`,
			`"identity:create_grant": "role:admin or (role:manager and domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s and not rule:protected)"`,
		}, "\n"), want: []string{"error escalation identity:create_grant"}},
		"protected roles, each by itself": {
			file: `"identity:create_grant": "role:admin and not ` + strings.Join(protected, " and not ") + `"`,
		},
		"a full file with a default":           {file: `{"admin_required": "role:admin", "default": "rule:admin_required", "identity:create_user": "rule:admin_required"}`, want: []string{"warning open-default default"}},
		"an auditor of the operator":           {file: `{"identity:list_users": "rule:admin_required or role:auditor", "identity:list_role_assignments": "rule:admin_required or role:auditor"}`},
		"an auditor of the system":             {file: `{"identity:list_users": "rule:admin_required or (role:reader and system_scope:all)"}`},
		"managers in every list":               {file: "identity:list_users: rule:admin_required or role:manager\nidentity:list_projects: rule:admin_required or role:manager", want: []string{broader + "list_users", broader + "list_projects"}},
		"managers in the list of assignments":  {file: "identity:list_role_assignments: rule:admin_required or role:manager", want: []string{broader + "list_role_assignments"}},
		"managers in lists of their domain":    {file: "identity:list_users: rule:admin_required or (role:manager and not domain_id:None)"},
		"the administrator of a trust domain":  {file: "identity:create_user: rule:admin_required and domain_id:%(target.user.domain_id)s\nidentity:list_users: rule:admin_required and domain_id:%(target.domain_id)s"},
		"everybody reads domains":              {file: `"identity:get_domain": "@"`, want: []string{broader + "get_domain"}},
		"members read users":                   {file: "identity:get_user: rule:admin_required or role:member", want: []string{broader + "get_user"}},
		"users change themselves":              {file: "identity:update_user: rule:admin_required or user_id:%(user_id)s", want: []string{near + "update_user"}},
		"members change their project":         {file: "identity:update_project: rule:admin_required or (role:member and project_id:%(target.project.id)s)", want: []string{near + "update_project"}},
		"managers change their project":        {file: "identity:update_project: rule:admin_required or (role:manager and project_id:%(target.project.id)s)"},
		"users read the users of their domain": {file: "identity:list_users: rule:admin_required or project_domain_id:%(filter_attr.domain_id)s or user_domain_id:%(filter_attr.domain_id)s", want: []string{near + "list_users"}},
		"attributes of former releases": {
			file: "identity:list_users: rule:cloud_admin or rule:matching\nidentity:create_user: rule:cloud_admin or (role:admin and domain_id:%(user.domain_id)s)\ncloud_admin: role:admin and is_admin_project:True\nmatching: role:admin and domain_id:%(domain_id)s",
			want: []string{dead + "identity:create_user", dead + "matching"},
		},
		"services":                     {file: "identity:validate_token: rule:service_or_admin or rule:token_subject\nidentity:list_users: rule:admin_required or role:service"},
		"managers validate tokens":     {file: "identity:validate_token: rule:service_or_admin or role:manager", want: []string{broader + "validate_token"}},
		"owners of credentials":        {file: "identity:list_application_credentials: rule:admin_or_owner\nidentity:get_credential: rule:admin_required or user_id:%(target.credential.user_id)s\nidentity:list_credentials: role:member"},
		"members read credentials":     {file: "identity:list_application_credentials: rule:admin_required or role:member", want: []string{broader + "list_application_credentials"}},
		"managers read secrets":        {file: "identity:get_credential: rule:admin_required or role:manager", want: []string{broader + "get_credential"}},
		"managers read trusts":         {file: "identity:list_trusts: rule:admin_required or role:manager", want: []string{broader + "list_trusts"}},
		"managers read what is global": {file: "identity:list_services: rule:admin_required or role:manager\nidentity:get_mapping: rule:admin_required or role:manager\nidentity:list_implied_roles: rule:admin_required or role:manager"},
		"managers of the roles of their domain": {
			file:    "identity:get_domain_role: rule:admin_required or (role:manager and domain_id:%(target.role.domain_id)s)\nidentity:create_domain_role: rule:admin_required or (role:manager and domain_id:%(target.role.domain_id)s)",
			options: LintOptions{Release: "2026.2"}, want: []string{"warning override-obsolete identity:get_domain_role"},
		},
		"managers read roles of domains": {file: "identity:get_domain_role: rule:admin_required or role:manager\nidentity:list_domain_roles: rule:admin_required or (role:manager and domain_id:%(filter_attr.domain_id)s)", want: []string{broader + "get_domain_role"}},
		"managers grant readers":         {file: "identity:create_grant: rule:admin_required or (role:manager and 'reader':%(target.role.name)s and domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s)", want: []string{"error escalation identity:create_grant"}},
		"nobody":                         {file: `{"identity:create_credential": "!", "identity:create_trust": "!"}`},
		"limits of a domain": {
			file: "identity:get_limit: (role:reader and system_scope:all) or project_id:%(target.limit.project_id)s or domain_id:%(target.limit.domain_id)s",
			want: []string{broader + "get_limit"},
		},
		"managers create projects, by a credential that can be null": {
			file: "identity:create_project: rule:admin_required or (role:manager and domain_id:%(target.project.domain_id)s)", want: []string{broader + "create_project"},
		},
		"the same in a release with that rule": {
			file: "identity:create_project: rule:admin_required or (role:manager and domain_id:%(target.project.domain_id)s)", options: LintOptions{Release: "2025.1"},
			want: []string{"warning override-obsolete identity:create_project"},
		},
		"a default that opens what is missing in the base": {
			base: "identity:create_user: rule:admin_required or rule:local_admin", file: "default: role:member",
			want: []string{"error broader-than-default default", "warning open-default default"},
		},
	}, severe)
}
