package oslopolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"warrantgate.dev/internal/message"
)

// defaultUser is the default user ID of a caller.
const defaultUser = "caller"

// Caller contains the properties of a token that rules can check.
type Caller struct {
	// User is the ID of the user, UserDomain the ID of the user's domain.
	User, UserDomain string
	// Roles are the names of the roles of the token.
	Roles []string
	// Domain is the ID of the domain of the token. Project is the ID of its project, which belongs to ProjectDomain. At most one of
	// Domain, Project and System is set.
	Domain, Project, ProjectDomain string
	// System is true for a token with system scope.
	System bool
	// AdminProject is the value of is_admin_project for a token of a project. In Keystone, it is true for every project, unless the options
	// admin_project_name and admin_project_domain_name are set. It is always true for tokens of the system and without a scope.
	AdminProject bool
}

// isScoped reports whether a token is for a domain, a project or the system. Other tokens have no roles.
func (c Caller) isScoped() bool { return c.Domain != "" || c.Project != "" || c.System }

// Credentials returns the credentials that Keystone passes to oslo.policy for a caller.
func (c Caller) Credentials() map[string]any {
	object := func(id string) map[string]any { return map[string]any{"id": id, "name": id} }
	owned := func(id, domain string) map[string]any {
		o := object(id)
		o["domain"] = object(domain)
		return o
	}
	roles, described := make([]any, len(c.Roles)), make([]any, len(c.Roles))
	for i, role := range c.Roles {
		roles[i], described[i] = role, object(role)
	}
	token := map[string]any{"user": owned(c.User, c.UserDomain), "roles": described, "methods": []any{"password"}}
	credentials := map[string]any{
		"user_id": orNil(c.User), "user_domain_id": orNil(c.UserDomain), "roles": roles, "is_admin_project": c.AdminProject || c.Domain == "" && c.Project == "",
		"domain_id": orNil(c.Domain), "project_id": orNil(c.Project), "project_domain_id": orNil(c.ProjectDomain),
		"system_scope": nil, "service_user_id": nil, "service_user_domain_id": nil, "service_project_id": nil,
		"service_project_domain_id": nil, "service_roles": []any{}, "token": token,
	}
	switch {
	case c.System:
		credentials["system_scope"], credentials["system"] = "all", "all"
		token["system"] = map[string]any{"all": true}
	case c.Domain != "":
		token["domain"] = object(c.Domain)
	case c.Project != "":
		token["project"] = owned(c.Project, c.ProjectDomain)
	}
	return credentials
}

// String returns the caller in the format of ParseCaller.
func (c Caller) String() string {
	var pairs []string
	add := func(key, value, implied string) {
		if value != "" && value != implied {
			pairs = append(pairs, key+"="+value)
		}
	}
	for _, role := range c.Roles {
		add("role", role, "")
	}
	add("user", c.User, defaultUser)
	add("domain", c.Domain, "")
	add("project", c.Project, "")
	if c.System {
		add("system", "all", "")
	}
	add("user-domain", c.UserDomain, cmp.Or(c.Domain, c.ProjectDomain))
	add("project-domain", c.ProjectDomain, "")
	if c.AdminProject {
		add("admin-project", "true", "")
	}
	if len(pairs) == 0 {
		add("user", c.User, "")
	}
	return strings.Join(pairs, ",")
}

// ParseCaller parses a caller such as role=manager,domain=acme. The domains of the user and of the project default to the domain of the
// token.
func ParseCaller(text string) (Caller, error) {
	caller := Caller{User: defaultUser}
	fields := map[string]*string{
		"user": &caller.User, "user-domain": &caller.UserDomain, "domain": &caller.Domain, "project": &caller.Project, "project-domain": &caller.ProjectDomain,
	}
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		key, value, ok := strings.Cut(pair, "=")
		field := fields[key]
		switch {
		case !ok || value == "":
			return caller, fmt.Errorf("as: %q must be key=value", pair)
		case key == "role":
			caller.Roles = append(caller.Roles, value)
		case key == "system" && value == "all":
			caller.System = true
		case key == "admin-project" && (value == "true" || value == "false"):
			caller.AdminProject = value == "true"
		case field != nil:
			*field = value
		default:
			return caller, fmt.Errorf("as: %q must be one of role, domain, project, system=all, user, user-domain, project-domain and admin-project=true", pair)
		}
	}
	scopes := 0
	for _, scoped := range []bool{caller.Domain != "", caller.Project != "", caller.System} {
		if scoped {
			scopes++
		}
	}
	if scopes > 1 {
		return caller, fmt.Errorf("as: %q names more than one of domain, project and system; a token has one scope", text)
	}
	caller.UserDomain = cmp.Or(caller.UserDomain, caller.Domain, caller.ProjectDomain)
	if caller.Project != "" && caller.ProjectDomain == "" {
		caller.ProjectDomain = caller.UserDomain
	}
	return caller, nil
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// Flatten flattens a target as Keystone does: {"target": {"user": {"id": …}}} becomes target.user.id.
func Flatten(target map[string]any) map[string]any {
	flat := make(map[string]any, len(target))
	var add func(parent string, fields map[string]any, depth int)
	add = func(parent string, fields map[string]any, depth int) {
		for key, value := range fields {
			name := key
			if parent != "" {
				name = parent + "." + key
			}
			if inner, ok := value.(map[string]any); ok && depth < maxNesting {
				add(name, inner, depth+1)
				continue
			}
			flat[name] = value
		}
	}
	add("", target, 0)
	return flat
}

// credentialNames are the paths in Keystone's credentials that rules can check.
const credentialNames = "user_id user_domain_id system_scope system domain_id project_id project_domain_id roles is_admin_project " +
	"is_admin service_user_id service_user_domain_id service_project_id service_project_domain_id service_roles " +
	"token.methods token.expires_at token.issued_at token.audit_ids token.is_domain token.is_admin_project token.user.id " +
	"token.user.name token.user.domain.id token.user.domain.name token.user.password_expires_at token.domain.id token.domain.name " +
	"token.project.id token.project.name token.project.domain.id token.project.domain.name token.roles.id token.roles.name " +
	"token.system.all token.application_credential.id token.application_credential.name token.application_credential.restricted"

// openCredentials are the prefixes of further paths that rules can check. What follows is not listed: Keystone copies fields there that an
// operator has added to endpoints, or that an identity provider has sent.
const openCredentials = "token.OS- token.catalog. token.service_providers. token.user.OS-FEDERATION. token.application_credential.access_rules." //nolint:gosec // the names of attributes, no credentials

// credentialHints maps credentials of other services, and wrong names, to credentials of Keystone.
var credentialHints = map[string]string{
	"user": "user_id", "tenant": "project_id", "tenant_id": "project_id", "project": "project_id", "domain": "domain_id",
	"user_domain": "user_domain_id", "token.domain_id": "token.domain.id", "token.project_id": "token.project.id",
	"token.user_id": "token.user.id", "token.user.domain_id": "token.user.domain.id", "token.project.domain_id": "token.project.domain.id",
	"scope": "system_scope",
}

// knowsCredential reports whether Keystone's credentials have a path. If not, meant is a suggestion.
func knowsCredential(path string) (known bool, meant string) {
	begins := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
	if hasWord(credentialNames, path) || slices.ContainsFunc(strings.Fields(openCredentials), begins) {
		return true, ""
	}
	if hint, ok := credentialHints[path]; ok {
		return false, hint
	}
	if lowered := strings.ToLower(path); lowered != path {
		if hasWord("role rule http https "+credentialNames, lowered) {
			return false, lowered
		}
	}
	return false, message.Nearest(path, strings.Fields(credentialNames+" role rule"))
}
