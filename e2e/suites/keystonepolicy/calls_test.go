//go:build e2e

package keystonepolicy_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// call is a request to an operation of Keystone.
type call struct {
	name string
	// can is the operation's name in policies.
	can string
	// of creates the request, and the attributes that Keystone gives the policy.
	of func(w *world, c caller) request
}

type request struct {
	method, path string
	body         object
	target       object
}

type object map[string]any

// send returns the status of a request.
func (c caller) send(ctx context.Context, r request) int {
	GinkgoHelper()
	options := &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent}}
	if r.body != nil {
		options.JSONBody = r.body
	}
	response, err := c.Request(ctx, r.method, c.ServiceURL(r.path), options)
	if denied, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return denied.Actual
	}
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	return response.StatusCode
}

// creates creates a user, project, group or domain.
func creates(kind, where string) call {
	return call{"create a " + kind + " in " + where, "identity:create_" + kind, func(w *world, _ caller) request {
		made := object{"name": rand.Text()}
		if domain := w.places[where].domain; domain != "" {
			made["domain_id"] = domain
		}
		body := object{kind: made}
		target := object{"request_body": body}
		if kind != "domain" {
			target["target"] = body
		}
		return request{http.MethodPost, kind + "s", body, target}
	}}
}

// lists requests users, projects or groups, of one domain or without a domain.
func lists(kind, where string) call {
	return call{"list the " + kind + "s of " + where, "identity:list_" + kind + "s", func(w *world, c caller) request {
		r := request{method: http.MethodGet, path: kind + "s", target: object{}}
		// Keystone gives the policy the domain of the token.
		scope := object{"domain_id": c.domain}
		switch {
		case c.domain == "":
		case kind == "group":
			r.target["target"] = object{"group": scope}
		default:
			r.target["target"] = scope
		}
		if domain := w.places[where].domain; domain != "" {
			r.path += "?domain_id=" + domain
			r.target["filter_attr"] = object{"domain_id": domain}
		}
		return r
	}}
}

// listsAll requests objects that are in no domain.
func listsAll(kind string) call {
	return call{"list all " + kind + "s", "identity:list_" + kind + "s", func(*world, caller) request {
		return request{method: http.MethodGet, path: kind + "s", target: object{}}
	}}
}

// reads requests a role.
func reads(role string) call {
	return call{"read the role " + role, "identity:get_role", func(w *world, _ caller) request {
		return request{method: http.MethodGet, path: "roles/" + w.roles[role], target: object{
			"role_id": w.roles[role], "target": object{"role": w.role(role)},
		}}
	}}
}

// grants gives a role to the user of one domain on the project of one domain.
func grants(role, whose, where string) call {
	return call{"grant " + role + " to a user of " + whose + " on a project of " + where, "identity:create_grant", func(w *world, _ caller) request {
		user, project := w.places[whose].user, w.places[where]
		return request{
			method: http.MethodPut,
			path:   "projects/" + project.project + "/users/" + user.ID + "/roles/" + w.roles[role],
			target: object{"project_id": project.project, "user_id": user.ID, "role_id": w.roles[role], "target": object{
				"role": w.role(role), "user": w.user(whose), "project": object{"id": project.project, "domain_id": project.domain},
			}},
		}
	}}
}

// adds puts the user of one domain into the group of one domain.
func adds(whose, where string) call {
	return call{"add a user of " + whose + " to a group of " + where, "identity:add_user_to_group", func(w *world, _ caller) request {
		user, group := w.places[whose].user, w.places[where]
		return request{
			method: http.MethodPut,
			path:   "groups/" + group.group + "/users/" + user.ID,
			target: object{"group_id": group.group, "user_id": user.ID, "target": object{
				"user": w.user(whose), "group": object{"id": group.group, "domain_id": group.domain},
			}},
		}
	}}
}

// trusts delegates the caller's role member to a user of another domain.
func trusts() call {
	return call{"create a trust", "identity:create_trust", func(w *world, c caller) request {
		body := object{"trust": object{
			"trustor_user_id": c.user, "trustee_user_id": w.places[other].user.ID, "project_id": c.project,
			"impersonation": true, "roles": []object{{"name": "member"}},
		}}
		return request{http.MethodPost, "OS-TRUST/trusts", body, object{"target": body, "request_body": body}}
	}}
}

// listsOwnProjects requests the projects of the caller, whose ID is in the path.
func listsOwnProjects() call {
	return call{"list the own projects", "identity:list_user_projects", func(_ *world, c caller) request {
		return request{method: http.MethodGet, path: "users/" + c.user + "/projects", target: object{
			"user_id": c.user, "target": object{"user": object{"id": c.user}},
		}}
	}}
}

func (w *world) role(name string) object {
	return object{"id": w.roles[name], "name": name, "domain_id": nil}
}

func (w *world) user(whose string) object {
	user := w.places[whose].user
	return object{"id": user.ID, "name": user.Name, "domain_id": user.DomainID}
}
