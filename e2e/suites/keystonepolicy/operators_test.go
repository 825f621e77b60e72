//go:build e2e

package keystonepolicy_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// The override of the operators before and after their decision D-064, and the live policy that it refers to.
var (
	operatorsLive   = filepath.Join("testdata", "operators", "live.json")
	operatorsBefore = filepath.Join("testdata", "operators", "before.yaml")
	operatorsAfter  = filepath.Join("testdata", "operators", "after.yaml")
)

// enforceOverLive applies the live policy as Keystone's policy file and an override in policy.d, as the operators deploy them.
func enforceOverLive(ctx context.Context, override string) {
	GinkgoHelper()
	live, err := os.ReadFile(operatorsLive)
	Expect(err).NotTo(HaveOccurred())
	rules, err := os.ReadFile(override)
	Expect(err).NotTo(HaveOccurred())
	Expect(keystone.SetPolicy(ctx, live, rules)).To(Succeed())
}

var _ = Describe("The override of the operators", func() {
	It("lets the administrator of a domain create a trustee only after their decision", func(ctx SpecContext) {
		w := newWorld(ctx)
		projectsOfUser := call{"list the projects of a user", "identity:list_user_projects", func(w *world, _ caller) request {
			return request{method: http.MethodGet, path: "users/" + w.places[own].user.ID + "/projects"}
		}}
		want, got := map[string]int{}, map[string]int{}
		for n, override := range []string{operatorsBefore, operatorsAfter} {
			enforceOverLive(ctx, override)
			for _, row := range []struct {
				who  string
				what call
				want [2]int
			}{
				{domainAdmin, creates("user", own), [2]int{403, 201}},
				{domainAdmin, creates("project", own), [2]int{403, 201}},
				{domainAdmin, creates("group", own), [2]int{403, 201}},
				{domainAdmin, adds(own, own), [2]int{403, 204}},
				{domainAdmin, creates("user", other), [2]int{403, 403}},
				// The policy denies these to the administrator of the domain, because the rule that it refers to never matches.
				{domainAdmin, lists("user", nowhere), [2]int{200, 403}},
				{domainAdmin, lists("project", nowhere), [2]int{200, 403}},
				{domainAdmin, lists("group", nowhere), [2]int{200, 403}},
				// The eighth rule with the mistake, which the decision does not name.
				{domainAdmin, projectsOfUser, [2]int{403, 403}},
				{manager, creates("user", own), [2]int{201, 201}},
				{cloudAdmin, creates("user", own), [2]int{201, 201}},
			} {
				c, name := w.callers[row.who], override+", "+row.who+": "+row.what.name
				want[name], got[name] = row.want[n], c.send(ctx, row.what.of(w, c))
			}
		}
		Expect(cmp.Diff(want, got)).To(BeEmpty(), "statuses of Keystone (-want +got)")
	}, SpecTimeout(specTimeout))

	It("passes the acceptance matrix on Keystone as in check", func(ctx SpecContext) {
		code, out, errText := run(ctx, "check", "keystone-policy", operatorsAfter, "--base", operatorsLive, "--cases", "domain-manager")
		Expect(code).To(Equal(0), out+errText)

		document, err := os.ReadFile(filepath.Join("..", "..", "..", "cmd", "warrantgate", "policies", "cases", "domain-manager.yaml"))
		Expect(err).NotTo(HaveOccurred())
		var table struct{ Cases []checkCase }
		Expect(yaml.UnmarshalStrict(document, &table)).To(Succeed())
		Expect(out).To(HaveSuffix(fmt.Sprintf("%d cases, 0 failed\n", len(table.Cases))))

		w := newWorld(ctx)
		home := w.places[own]
		for _, role := range []string{"member", "reader"} {
			w.callers["role="+role+",domain=acme"] = newCaller(ctx, newUser(ctx, home), role, tokens.Scope{DomainID: home.domain})
		}
		w.callers["role=manager,domain=acme"] = w.callers[manager]
		w.callers["role=manager,project=acme-project,project-domain=acme"] = w.callers[projectManager]
		w.callers["role=admin,project=admin,project-domain=default,admin-project=true"] = w.callers[cloudAdmin]
		enforceOverLive(ctx, operatorsAfter)
		want, got := map[string]string{}, map[string]string{}
		for _, c := range table.Cases {
			Expect(w.callers).To(HaveKey(c.As), c.Name)
			want[c.Name] = c.Expect
			r := w.acceptance(ctx, c)
			switch status := w.callers[c.As].send(ctx, r); status {
			case http.StatusOK, http.StatusCreated, http.StatusNoContent:
				got[c.Name] = "PASS"
			case http.StatusForbidden:
				got[c.Name] = "DENY"
			default:
				got[c.Name] = fmt.Sprintf("%s %s responds with %d", r.method, r.path, status)
			}
		}
		Expect(want).To(HaveLen(len(table.Cases)), "cases have the same name")
		Expect(cmp.Diff(want, got)).To(BeEmpty(), "statuses of Keystone (-want +got)")
	}, SpecTimeout(specTimeout))
})

// acceptance sends the request of a case of the acceptance matrix, on objects of its own.
func (w *world) acceptance(ctx context.Context, c checkCase) request {
	GinkgoHelper()
	domainOf := func(attribute string) string {
		return map[any]string{"acme": w.places[own].domain, "other": w.places[other].domain}[c.Target[attribute]]
	}
	userDomain, groupDomain := domainOf("target.user.domain_id"), domainOf("target.group.domain_id")
	projectDomain := domainOf("target.project.domain_id")
	var user, group, project string
	if userDomain != "" {
		made, err := keystone.CreateUser(ctx, userDomain, rand.Text())
		Expect(err).NotTo(HaveOccurred())
		user = made.ID
	}
	if groupDomain != "" {
		made, err := groups.Create(ctx, keystone.Admin(), groups.CreateOpts{DomainID: groupDomain, Name: rand.Text()}).Extract()
		Expect(err).NotTo(HaveOccurred())
		group = made.ID
	}
	if projectDomain != "" {
		made, err := keystone.CreateProject(ctx, projectDomain, rand.Text())
		Expect(err).NotTo(HaveOccurred())
		project = made
	}
	name, _ := c.Target["target.role.name"].(string)
	role := w.roles[name]
	verb, kind, _ := strings.Cut(strings.TrimPrefix(c.Can, "identity:"), "_")
	ids := map[string]string{"user": user, "group": group, "project": project, "domain": domainOf("target.domain.id")}
	if kind == "role" && verb != "create" { // other cases need the first one
		made, err := roles.Create(ctx, keystone.Admin(), roles.CreateOpts{Name: rand.Text()}).Extract()
		Expect(err).NotTo(HaveOccurred())
		ids[kind] = made.ID
	}
	method := map[string]string{
		"create": http.MethodPost, "get": http.MethodGet, "list": http.MethodGet, "update": http.MethodPatch, "delete": http.MethodDelete,
		"check": http.MethodHead, "revoke": http.MethodDelete, "remove": http.MethodDelete, "add": http.MethodPut,
	}[verb]
	switch kind {
	case "grant", "grants":
		path, to := "projects/"+project, roles.AssignOpts{UserID: user, GroupID: group, ProjectID: project}
		if domain := ids["domain"]; domain != "" {
			path, to = "domains/"+domain, roles.AssignOpts{UserID: user, GroupID: group, DomainID: domain}
		}
		if user != "" {
			path += "/users/" + user + "/roles"
		} else {
			path += "/groups/" + group + "/roles"
		}
		switch verb {
		case "create":
			method = http.MethodPut
		case "check", "revoke":
			Expect(keystone.Assign(ctx, name, to)).To(Succeed())
		case "list":
			return request{method: method, path: path}
		}
		return request{method: method, path: path + "/" + role}
	case "user_to_group", "user_from_group", "user_in_group":
		if verb != "add" {
			Expect(users.AddToGroup(ctx, keystone.Admin(), group, user).ExtractErr()).To(Succeed())
		}
		return request{method: method, path: "groups/" + group + "/users/" + user}
	case "users_in_group":
		return request{method: method, path: "groups/" + group + "/users"}
	case "groups_for_user":
		return request{method: method, path: "users/" + user + "/groups"}
	case "user_projects":
		return request{method: method, path: "users/" + user + "/projects"}
	case "system_grant_for_user":
		return request{method: http.MethodPut, path: "system/users/" + user + "/roles/" + role}
	case "implied_role":
		return request{method: http.MethodPut, path: "roles/" + w.roles["member"] + "/implies/" + w.roles["admin"]}
	}
	switch verb {
	case "create":
		made := object{"name": rand.Text()}
		if domain := domainOf("target." + kind + ".domain_id"); domain != "" {
			made["domain_id"] = domain
		}
		return request{method: method, path: kind + "s", body: object{kind: made}}
	case "list":
		return request{method: method, path: kind}
	}
	r := request{method: method, path: kind + "s/" + ids[kind]}
	if verb == "update" {
		r.body = object{kind: object{"description": "changed"}}
	}
	return r
}
