//go:build e2e

package keystonepolicy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/sets"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/internal/oslopolicy"
)

// randomPolicies is the number of policies of the random test.
var randomPolicies = volume.Of(20, 10_000)

// holder is a user with a token that Keystone has issued.
type holder struct {
	name string
	*gophercloud.ServiceClient
	// tenant is false for administrators and services, which may get everything that a rule says. system is true for a token for the system, which
	// may get everything but grants.
	tenant, system bool
	// manages is true for a token with the role manager. domain is the ID of its domain.
	manages bool
	domain  string
	// homes are the domains of the token's scope and of the user.
	homes []string
	// user and project are the IDs of the user, and of the project of the token.
	user, project string
}

// reach says how far a request goes, compared with what the rules of Keystone allow.
type reach int

const (
	// harmless: the requester may do it, or it shows nothing.
	harmless reach = iota
	// near: it is about an object of the own domain, project or user.
	near
	// far: it is about an object of another domain, or grants a role that managers must not grant.
	far
)

// probe is a request to an operation.
type probe struct {
	method, path string
	body         object
	// subject is true if the token is sent as the subject of the request, too.
	subject bool
	// domains are the domains of the objects, "" for none. of lists finds them in the answer.
	domains []string
	listed  func(body []byte) []string
	// owner is the ID of the project that owns the object, self means that it is the requester, whose ID is in place of SELF in the path.
	owner string
	self  bool
	// shared objects are the same for all domains.
	shared bool
	// escalates means that it grants a role that is not managed.
	escalates bool
}

// randomWorld has two domains with objects, and the tokens.
type randomWorld struct {
	*world
	holders []holder
	// children are projects below those of the places.
	children map[string]string
	// domainOf contains the domains of projects.
	domainOf map[string]string
	probes   map[string][]probe
	// former are the requests that Keystone's own rules allow, by holder and operation.
	former map[string]bool
}

func newRandomWorld(ctx context.Context) *randomWorld {
	GinkgoHelper()
	w := &randomWorld{world: newWorld(ctx), children: map[string]string{}, domainOf: map[string]string{}, former: map[string]bool{}}
	home, away := w.places[own], w.places[other]
	for name, p := range w.places {
		child, err := projects.Create(ctx, keystone.Admin(), projects.CreateOpts{DomainID: p.domain, ParentID: p.project, Name: "child"}).Extract()
		Expect(err).NotTo(HaveOccurred())
		w.children[name] = child.ID
		w.domainOf[p.project], w.domainOf[child.ID] = p.domain, p.domain
		for _, to := range []roles.AssignOpts{{UserID: p.user.ID, DomainID: p.domain}, {UserID: p.user.ID, ProjectID: p.project}} {
			Expect(keystone.Assign(ctx, "reader", to)).To(Succeed())
		}
	}
	onDomain, onProject := tokens.Scope{DomainID: home.domain}, tokens.Scope{ProjectID: home.project}
	add := func(h holder, domain place, scope tokens.Scope, names ...string) {
		user := newUser(ctx, domain)
		for _, name := range names {
			to := roles.AssignOpts{UserID: user.ID, ProjectID: scope.ProjectID, DomainID: scope.DomainID}
			if scope.System {
				id, err := keystone.Role(ctx, name)
				Expect(err).NotTo(HaveOccurred())
				put(ctx, "system", "users", user.ID, "roles", id)
				continue
			}
			Expect(keystone.Assign(ctx, name, to)).To(Succeed())
		}
		client, err := keystone.Login(ctx, user, scope)
		Expect(err).NotTo(HaveOccurred())
		h.ServiceClient, h.user, h.project = client, user.ID, scope.ProjectID
		h.homes = []string{domain.domain}
		h.domain, h.system = scope.DomainID, scope.System
		if scope.DomainID != "" || scope.ProjectID != "" {
			h.homes = append(h.homes, home.domain)
		}
		h.manages = slices.Contains(names, "manager")
		w.holders = append(w.holders, h)
	}
	// No rule names the role of an observer, who is not even a reader.
	for _, role := range []string{"observer", "reader", "member", "manager"} {
		add(holder{name: role + " of the domain", tenant: true}, home, onDomain, role)
		add(holder{name: role + " of a project", tenant: true}, home, onProject, role)
	}
	for _, role := range []string{"member", "manager"} {
		add(holder{name: role + " from another domain", tenant: true}, away, onProject, role)
		add(holder{name: role + " of the domain, from another one", tenant: true}, away, onDomain, role)
	}
	add(holder{name: "user without a scope", tenant: true}, home, tokens.Scope{})
	add(holder{name: "administrator of the domain"}, home, onDomain, "admin")
	add(holder{name: "service"}, home, onProject, "service")
	add(holder{name: "user of the system", tenant: true}, home, tokens.Scope{System: true}, "manager", "member")
	// A role that a project inherits from its domain.
	heir := newUser(ctx, home)
	manager, err := keystone.Role(ctx, "manager")
	Expect(err).NotTo(HaveOccurred())
	put(ctx, "OS-INHERIT", "domains", home.domain, "users", heir.ID, "roles", manager, "inherited_to_projects")
	client, err := keystone.Login(ctx, heir, onProject)
	Expect(err).NotTo(HaveOccurred())
	w.holders = append(w.holders, holder{
		name: "manager by inheritance", ServiceClient: client, tenant: true, manages: true, homes: []string{home.domain}, user: heir.ID, project: home.project,
	})
	w.probes = w.newProbes()
	return w
}

// put sends a PUT request without a body as the administrator.
func put(ctx context.Context, path ...string) {
	GinkgoHelper()
	admin := keystone.Admin()
	response, err := admin.Put(ctx, admin.ServiceURL(path...), nil, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent}})
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
}

// newProbes returns the requests to each operation. None of them changes anything that the others depend on: bodies are not valid, which
// Keystone checks after the policy.
func (w *randomWorld) newProbes() map[string][]probe {
	invalid := object{"description": 1}
	probes := map[string][]probe{}
	add := func(operation string, p probe) { probes[prefix+operation] = append(probes[prefix+operation], p) }
	domainsIn := func(kind string) func(body []byte) []string {
		return func(body []byte) []string {
			var answer map[string]json.RawMessage
			var list []struct {
				DomainID string `json:"domain_id"`
			}
			Expect(json.Unmarshal(body, &answer)).To(Succeed())
			Expect(json.Unmarshal(answer[kind], &list)).To(Succeed())
			var domains []string
			for _, entry := range list {
				domains = append(domains, entry.DomainID)
			}
			return domains
		}
	}
	assignments := func(body []byte) []string {
		var answer struct {
			Assignments []struct {
				Scope struct{ Domain, Project struct{ ID string } }
			} `json:"role_assignments"`
		}
		Expect(json.Unmarshal(body, &answer)).To(Succeed())
		var domains []string
		for _, a := range answer.Assignments {
			switch {
			case a.Scope.Project.ID != "":
				domains = append(domains, w.domainOf[a.Scope.Project.ID])
			default:
				domains = append(domains, a.Scope.Domain.ID)
			}
		}
		return domains
	}
	for _, kind := range []string{"users", "groups", "projects"} {
		add("list_"+kind, probe{path: kind, listed: domainsIn(kind)})
	}
	add("list_role_assignments", probe{path: "role_assignments", listed: assignments})
	add("list_domains", probe{path: "domains", shared: true})
	add("list_roles", probe{path: "roles", shared: true})
	add("get_role", probe{path: "roles/" + w.roles["member"], shared: true})
	add("list_role_assignments", probe{path: "role_assignments?user.id=SELF", listed: assignments, self: true})
	add("get_user", probe{path: "users/SELF", self: true})
	add("list_groups_for_user", probe{path: "users/SELF/groups", self: true})
	add("list_user_projects", probe{path: "users/SELF/projects", self: true})
	add("update_user", probe{method: http.MethodPatch, path: "users/SELF", body: object{"user": invalid}, self: true})
	for place, p := range w.places {
		add("check_user_in_group", probe{path: "groups/" + p.group + "/users/SELF", self: true})
		for _, filter := range []string{"scope.project.id=" + p.project, "scope.domain.id=" + p.domain} {
			add("list_role_assignments", probe{path: "role_assignments?user.id=SELF&" + filter, listed: assignments, self: true})
		}
		add("list_projects", probe{path: "projects?parent_id=" + p.project + "&domain_id=" + p.domain, listed: domainsIn("projects")})
		for _, kind := range []string{"users", "groups", "projects"} {
			add("list_"+kind, probe{path: kind + "?domain_id=" + p.domain, listed: domainsIn(kind)})
		}
		add("list_projects", probe{path: "projects?parent_id=" + p.project, listed: domainsIn("projects")})
		for _, filter := range []string{"scope.domain.id=" + p.domain, "scope.project.id=" + p.project, "user.id=" + p.user.ID} {
			add("list_role_assignments", probe{path: "role_assignments?" + filter, listed: assignments})
		}
		in := []string{p.domain}
		add("get_user", probe{path: "users/" + p.user.ID, domains: in})
		add("get_group", probe{path: "groups/" + p.group, domains: in})
		add("get_project", probe{path: "projects/" + p.project, domains: in, owner: p.project})
		add("get_domain", probe{path: "domains/" + p.domain, domains: in})
		add("list_users_in_group", probe{path: "groups/" + p.group + "/users", domains: in})
		add("list_groups_for_user", probe{path: "users/" + p.user.ID + "/groups", domains: in})
		add("list_user_projects", probe{path: "users/" + p.user.ID + "/projects", domains: in})
		add("update_user", probe{method: http.MethodPatch, path: "users/" + p.user.ID, body: object{"user": invalid}, domains: in})
		add("update_group", probe{method: http.MethodPatch, path: "groups/" + p.group, body: object{"group": invalid}, domains: in})
		add("update_project", probe{method: http.MethodPatch, path: "projects/" + p.project, body: object{"project": invalid}, domains: in, owner: p.project})
		add("get_project", probe{path: "projects/" + w.children[place], domains: in})
		add("update_project", probe{method: http.MethodPatch, path: "projects/" + w.children[place], body: object{"project": invalid}, domains: in})
		// A domain is also a project, which has no domain.
		add("get_project", probe{path: "projects/" + p.domain, domains: []string{""}})
		add("update_project", probe{method: http.MethodPatch, path: "projects/" + p.domain, body: object{"project": invalid}, domains: []string{""}})
		add("update_domain", probe{method: http.MethodPatch, path: "domains/" + p.domain, body: object{"domain": invalid}, domains: in})
		for _, kind := range []string{"user", "group", "project"} {
			add("create_"+kind, probe{method: http.MethodPost, path: kind + "s", body: object{kind: object{"domain_id": p.domain}}, domains: in})
		}
		for _, q := range w.places {
			both := []string{p.domain, q.domain}
			add("check_user_in_group", probe{path: "groups/" + q.group + "/users/" + p.user.ID, domains: both})
			add("add_user_to_group", probe{method: http.MethodPut, path: "groups/" + q.group + "/users/" + p.user.ID, domains: both})
		}
		for project, domain := range map[string]string{
			w.places[own].project: w.places[own].domain, w.places[other].project: w.places[other].domain, w.children[own]: w.places[own].domain, w.places[other].domain: "",
		} {
			path, both := "projects/"+project+"/users/"+p.user.ID+"/roles", []string{p.domain, domain}
			add("list_grants", probe{path: path, domains: both, owner: project})
			for _, role := range []string{"member", "manager", "reader"} { // rules forbid some by name
				add("create_grant", probe{method: http.MethodPut, path: path + "/" + w.roles[role], domains: both, escalates: role != "member"})
			}
		}
	}
	add("create_project", probe{method: http.MethodPost, path: "projects", body: object{"project": object{"domain_id": nil}}, domains: []string{""}})
	return probes
}

// prefix is the prefix of operations.
const prefix = "identity:"

// send returns whether Keystone's policy allows a request, and the answer.
func (w *randomWorld) send(ctx context.Context, h holder, p probe) (bool, []byte) {
	GinkgoHelper()
	method := p.method
	if method == "" {
		method = http.MethodGet
	}
	options := &gophercloud.RequestOpts{
		OkCodes:          []int{http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusBadRequest, http.StatusNotFound, http.StatusForbidden, http.StatusConflict},
		KeepResponseBody: true,
	}
	if p.body != nil {
		options.JSONBody = p.body
	}
	if p.subject {
		options.MoreHeaders = map[string]string{"X-Subject-Token": h.Token()}
	}
	response, err := h.Request(ctx, method, h.Endpoint+strings.ReplaceAll(p.path, "SELF", h.user), options)
	Expect(err).NotTo(HaveOccurred(), p.path)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode != http.StatusForbidden, body
}

// most returns how far the requests go that the policy allows and Keystone's own rules deny, and the first of those that go farthest.
func (w *randomWorld) most(ctx context.Context, operation string) (most reach, where string) {
	for _, h := range w.holders {
		for n, p := range w.probes[prefix+operation] {
			if !h.tenant || w.former[fmt.Sprint(h.name, operation, n)] {
				continue
			}
			allowed, body := w.send(ctx, h, p)
			if !allowed {
				continue
			}
			if r := p.reach(h, body); r > most {
				most, where = r, fmt.Sprintf("%s: %s %s %v", h.name, p.method, p.path, p.body)
			}
			if most == far {
				return most, where
			}
		}
	}
	return most, where
}

// reach returns how far a request goes that the policy allows.
func (p probe) reach(h holder, body []byte) reach {
	domains := p.domains
	switch {
	case p.escalates:
		return far
	case h.system:
		return harmless
	case p.self, p.owner != "" && p.owner == h.project:
		if h.manages {
			return harmless
		}
		return near
	case p.listed != nil:
		domains = p.listed(body)
	case p.shared:
		if h.manages {
			return harmless
		}
		return far
	}
	most := harmless
	for _, domain := range domains {
		switch writes := p.method != ""; {
		case domain == "" && !writes, slices.Contains(h.homes, domain) && (!h.manages || writes && domain != h.domain):
			most = near
		case !slices.Contains(h.homes, domain):
			return far
		}
	}
	return most
}

// fragments are the checks that policies are made of. DOMAIN is an attribute with the domain of the object, and so on.
var (
	roleFragments = []string{
		"role:reader", "role:member", "role:manager", "role:admin", "role:service", "rule:admin_required", "rule:is_manager", "(role:manager or role:member)",
		"not role:admin", "role:auditor",
	}
	scopeFragments = []string{
		"domain_id:DOMAIN", "token.domain.id:DOMAIN", "project_domain_id:DOMAIN", "user_domain_id:DOMAIN", "token.project.domain.id:DOMAIN", "project_id:PROJECT",
		"user_id:USER", "system_scope:all", "not domain_id:None", "domain_id:None", "not project_id:None", "rule:same_domain", "None:ROLEDOMAIN",
		"'member':ROLENAME", "('member':ROLENAME or 'load-balancer_member':ROLENAME)", "not ('admin':ROLENAME or 'manager':ROLENAME)",
	}
)

// attributesOf are the attributes that Keystone fills in for an operation, by the place in a fragment.
var attributesOf = map[string]map[string][]string{
	"list_users":            {"DOMAIN": {"target.domain_id", "filter_attr.domain_id"}},
	"list_groups":           {"DOMAIN": {"target.group.domain_id", "filter_attr.domain_id"}},
	"list_projects":         {"DOMAIN": {"target.domain_id", "filter_attr.domain_id"}, "PROJECT": {"filter_attr.parent_id"}},
	"list_role_assignments": {"DOMAIN": {"target.domain_id", "filter_attr.scope.domain.id"}, "PROJECT": {"filter_attr.scope.project.id"}, "USER": {"filter_attr.user.id"}},
	"list_domains":          {},
	"list_roles":            {},
	"get_role":              {"ROLENAME": {"target.role.name"}},
	"get_user":              {"DOMAIN": {"target.user.domain_id"}, "USER": {"target.user.id", "user_id"}},
	"get_group":             {"DOMAIN": {"target.group.domain_id"}},
	"get_project":           {"DOMAIN": {"target.project.domain_id"}, "PROJECT": {"target.project.id", "project_id"}},
	"get_domain":            {"DOMAIN": {"target.domain.id", "domain_id"}},
	"list_users_in_group":   {"DOMAIN": {"target.group.domain_id"}},
	"list_groups_for_user":  {"DOMAIN": {"target.user.domain_id"}, "USER": {"user_id", "target.user.id"}},
	"list_user_projects":    {"DOMAIN": {"target.user.domain_id"}, "USER": {"user_id", "target.user.id"}},
	"update_user":           {"DOMAIN": {"target.user.domain_id"}, "USER": {"user_id", "target.user.id"}},
	"update_group":          {"DOMAIN": {"target.group.domain_id"}},
	"update_project":        {"DOMAIN": {"target.project.domain_id"}, "PROJECT": {"target.project.id"}},
	"update_domain":         {"DOMAIN": {"target.domain.id"}},
	"create_user":           {"DOMAIN": {"target.user.domain_id", "request_body.user.domain_id"}},
	"create_group":          {"DOMAIN": {"target.group.domain_id"}},
	"create_project":        {"DOMAIN": {"target.project.domain_id"}},
	"list_grants":           {"DOMAIN": {"target.user.domain_id", "target.project.domain_id"}, "PROJECT": {"target.project.id"}},
	"check_user_in_group":   {"DOMAIN": {"target.user.domain_id", "target.group.domain_id"}, "USER": {"target.user.id"}},
	"add_user_to_group":     {"DOMAIN": {"target.user.domain_id", "target.group.domain_id"}},
	"create_grant": {
		"DOMAIN": {"target.user.domain_id", "target.project.domain_id"}, "PROJECT": {"target.project.id"}, "ROLEDOMAIN": {"target.role.domain_id"}, "ROLENAME": {"target.role.name"},
	},
}

// policyWriter writes random policies.
type policyWriter struct{ *rand.Rand }

func (g policyWriter) pick(from []string) string { return from[g.IntN(len(from))] }

// scope returns a fragment with the attributes of an operation.
func (g policyWriter) scope(operation string) string {
	for {
		text := g.pick(scopeFragments)
		missing := false
		for _, place := range []string{"ROLEDOMAIN", "ROLENAME", "DOMAIN", "PROJECT", "USER"} {
			if !strings.Contains(text, place) {
				continue
			}
			attributes := attributesOf[operation][place]
			if len(attributes) == 0 {
				missing = true
				break
			}
			text = strings.ReplaceAll(text, place, "%("+g.pick(attributes)+")s")
		}
		if strings.Contains(text, "same_domain") && len(attributesOf[operation]["DOMAIN"]) == 0 {
			missing = true
		}
		if !missing {
			return text
		}
	}
}

// rule returns a rule for an operation.
func (g policyWriter) rule(operation string) string {
	alternatives := []string{"rule:admin_required"}
	if g.IntN(8) == 0 {
		alternatives = nil
	}
	for range 1 + g.IntN(2) {
		var parts []string
		if g.IntN(10) > 0 {
			parts = append(parts, g.pick(roleFragments))
		}
		for range g.IntN(4) {
			parts = append(parts, g.scope(operation))
		}
		switch {
		case len(parts) == 0:
		case len(parts) > 2 && g.IntN(4) == 0:
			alternatives = append(alternatives, "("+parts[0]+" and ("+strings.Join(parts[1:], " or ")+"))")
		default:
			alternatives = append(alternatives, "("+strings.Join(parts, " and ")+")")
		}
	}
	if len(alternatives) == 0 {
		return "role:admin"
	}
	return strings.Join(alternatives, " or ")
}

// policy returns a policy that overrides one operation, and the name of it.
func (g policyWriter) policy() (operation, policy string) {
	names := slices.Sorted(maps.Keys(attributesOf))
	operation = g.pick(names)
	same := "role:admin"
	if domains := attributesOf[operation]["DOMAIN"]; len(domains) > 0 {
		same = "domain_id:%(" + strings.Join(domains[:1+g.IntN(len(domains))], ")s and domain_id:%(") + ")s"
	}
	rule := g.rule(operation)
	policy = fmt.Sprintf("%q: %q\n", prefix+operation, rule)
	if strings.Contains(rule, "is_manager") {
		policy += fmt.Sprintf("%q: %q\n", "is_manager", "role:manager")
	}
	if strings.Contains(rule, "same_domain") {
		policy += fmt.Sprintf("%q: %q\n", "same_domain", same)
	}
	return operation, policy
}

var _ = Describe("The linter and Keystone", func() {
	It("agree on random policies", func(ctx SpecContext) {
		w := newRandomWorld(ctx)
		seed := uint64(volume.Of(11, int(GinkgoRandomSeed()))) // the same policies in each run of "make e2e"
		g := policyWriter{rand.New(rand.NewPCG(seed, 3))}
		var overridden, policies []string
		for range randomPolicies {
			operation, policy := g.policy()
			overridden, policies = append(overridden, operation), append(policies, policy)
		}
		for operation := range sets.New(overridden...) {
			for _, h := range w.holders {
				for n, p := range w.probes[prefix+operation] {
					w.former[fmt.Sprint(h.name, operation, n)], _ = w.send(ctx, h, p)
				}
			}
		}
		began := time.Now()
		var wrong []string
		count := map[string]int{}
		for i, policy := range policies {
			operation := overridden[i]
			Expect(keystone.SetPolicy(ctx, []byte(policy))).To(Succeed())
			most, where := w.most(ctx, operation)
			findings, err := oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: "policy.yaml", Data: []byte(policy)}}, oslopolicy.LintOptions{})
			Expect(err).NotTo(HaveOccurred())
			said := harmless
			var texts []string
			for _, f := range findings {
				switch {
				case f.Severity == oslopolicy.SeverityNote:
				case f.Code != oslopolicy.CodeBroaderThanDefault && f.Code != oslopolicy.CodeEscalation && f.Code != oslopolicy.CodeAlwaysAllows:
					count[f.Code]++
				default:
					texts = append(texts, string(f.Severity)+": "+f.Details())
					said = max(said, map[oslopolicy.Severity]reach{oslopolicy.SeverityWarning: near, oslopolicy.SeverityError: far}[f.Severity])
				}
			}
			count[[]string{"silent", "warnings", "errors"}[said]]++
			if said != most {
				wrong = append(wrong, fmt.Sprintf("%sthe linter says %q\nKeystone allows %s", policy, texts, where))
				GinkgoWriter.Println(wrong[len(wrong)-1])
			}
		}
		text := fmt.Sprintf("seed %d, %d policies in %s: %v", seed, randomPolicies, time.Since(began).Round(time.Second), count)
		AddReportEntry("random policies", text)
		GinkgoWriter.Println(text)
		Expect(wrong).To(BeEmpty(), func() string { return text + "\n" + strings.Join(wrong[:min(len(wrong), 30)], "\n\n") })
		for _, what := range []string{"silent", "warnings", "errors"} {
			Expect(count[what]).To(BeNumerically(">=", randomPolicies/20), what+" have to occur, or the comparison proves nothing")
		}
	}, SpecTimeout(time.Duration(volume.Of(25, 180))*time.Minute))
})
