package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	delegation "warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

var policy = delegation.CredentialPolicy{
	Roles: delegation.RolePolicy{Required: []string{"load-balancer_member"}, Allowed: []string{"member", "reader"}, Denied: []string{"support"}},
}

// roles sets the roles of a token.
func roles(names ...string) func(object) {
	list := make([]object, 0, len(names))
	for i, name := range names {
		list = append(list, object{"id": fmt.Sprintf("r%d", i), "name": name})
	}
	return with("roles", list)
}

// delegable returns a token that a cluster may use.
func delegable() http.HandlerFunc { return aToken(roles("member", "load-balancer_member")) }

var ofApplicationCredential = with("application_credential", object{"id": "a1", "name": "capo", "restricted": true})

var unrestricted = with("application_credential", object{"id": "a1", "name": "capo", "restricted": false})

// aTrust changes a token to a token of a trust.
var aTrust = with("OS-TRUST:trust", object{
	"id": "t1", "impersonation": true, "trustee_user": object{"id": "u2"}, "trustor_user": object{"id": userID},
})

func TestDelegation(t *testing.T) {
	const (
		alice    = `user "alice" in project "team-a" has `
		instead  = "use an identity of the tenant that has only load-balancer_member, member, reader, or an application credential that is made with these roles only"
		power    = ", with an administrator's permissions, which no cluster may have; "
		excess   = ", which may not be delegated; "
		missing  = "missing: load-balancer_member; an administrator grants it"
		command  = ": openstack role add --user " + userID + " --project " + projectID + " load-balancer_member"
		anew     = "; then create a new application credential, because the roles of an existing one do not change"
		remedy   = "; name the project in clouds.yaml, or use an application credential of it"
		noDomain = ", and servers belong to projects" + remedy

		operators = " belongs to the operators of this OpenStack, and no cluster may act as them; use an identity of the tenant in the tenant's own project"
	)
	byUser := func(pattern delegation.PrincipalPattern) delegation.Operators {
		return delegation.Operators{Users: []delegation.PrincipalPattern{{ID: "another"}, pattern}}
	}
	byProject := func(pattern delegation.PrincipalPattern) delegation.Operators {
		return delegation.Operators{Projects: []delegation.PrincipalPattern{pattern}}
	}
	drop := with("project", nil)
	many := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("role-%02d", i))
		}
		return names
	}
	first := func(n int) string { return strings.Join(many(n), ", ") }
	for name, tc := range map[string]struct {
		roles  []string               // those of a tenant if nil
		token  []func(object)         // further changes of the token
		policy *delegation.RolePolicy // nil for the default policy of the tests
		// operators and denyUnrestricted are the other fields of the policy.
		operators        delegation.Operators
		denyUnrestricted bool
		reason           string // "" if the cluster may use the token
		want             string
	}{
		"the roles of a tenant":                            {roles: []string{"reader", "member", "load-balancer_member"}},
		"the roles of a tenant, as application credential": {roles: []string{"Load-Balancer_Member"}, token: []func(object){ofApplicationCredential}},
		"allowed roles":                                    {roles: []string{}, policy: &delegation.RolePolicy{}},
		"an administrator": {
			roles:  []string{"admin", "member", "load-balancer_member"},
			reason: openstack.RolePrivileged, want: alice + "the roles admin, load-balancer_member, member; too many: admin" + power + instead,
		},
		"an administrator in another case, by application credential": {
			roles: []string{"ADMIN", "load-balancer_member"}, token: []func(object){ofApplicationCredential},
			reason: openstack.RolePrivileged,
			want:   `application credential "capo" of ` + alice + "the roles ADMIN, load-balancer_member; too many: ADMIN" + power + instead,
		},
		"a role that is denied by name": {
			roles:  []string{"support", "load-balancer_member"},
			reason: openstack.RolePrivileged, want: alice + "the roles load-balancer_member, support; too many: support" + power + instead,
		},
		"another role": {
			roles:  []string{"manager", "load-balancer_member"},
			reason: openstack.RoleNotDelegable, want: alice + "the roles load-balancer_member, manager; too many: manager" + excess + instead,
		},
		"another role, with a policy without delegable roles": {
			roles: []string{"member"}, policy: &delegation.RolePolicy{},
			reason: openstack.RoleNotDelegable,
			want:   alice + "the roles member; too many: member" + excess + "no role may be delegated at all; the operator of warrantgate has to allow some",
		},
		"no load balancers": {
			roles:  []string{"member", "reader"},
			reason: openstack.RoleMissing, want: alice + "the roles member, reader; " + missing + command,
		},
		"no role": {roles: []string{}, reason: openstack.RoleMissing, want: alice + "no role; " + missing + command},
		"no load balancers, by application credential": {
			roles: []string{"member"}, token: []func(object){ofApplicationCredential},
			reason: openstack.RoleMissing, want: `application credential "capo" of ` + alice + "the roles member; " + missing + command + anew,
		},
		"all problems": {
			roles: []string{"admin", "manager"}, token: []func(object){ofApplicationCredential},
			reason: openstack.RolePrivileged,
			want: `application credential "capo" of ` + alice + "the roles admin, manager; too many: admin" + power + "too many: manager" + excess +
				instead + "; " + missing + command + anew,
		},
		"two roles are missing": {
			roles: []string{"member"}, policy: &delegation.RolePolicy{Required: []string{"b", "a"}, Allowed: []string{"member"}},
			reason: openstack.RoleMissing,
			want: alice + "the roles member; missing: a, b; an administrator grants it: openstack role add --user " + userID + " --project " + projectID +
				" a && openstack role add --user " + userID + " --project " + projectID + " b",
		},
		"a missing role that needs quotes in a shell": {
			roles: []string{}, policy: &delegation.RolePolicy{Required: []string{"a", "x;reboot"}},
			reason: openstack.RoleMissing, want: alice + `no role; missing: a, "x;reboot"; an administrator grants it`,
		},
		"a missing role with the form of an option, by application credential": {
			roles: []string{}, token: []func(object){ofApplicationCredential}, policy: &delegation.RolePolicy{Required: []string{"--all"}},
			reason: openstack.RoleMissing, want: `application credential "capo" of ` + alice + `no role; missing: "--all"; an administrator grants it` + anew,
		},
		"a user that needs quotes in a shell": {
			roles: []string{"member"}, token: []func(object){with("user", object{"id": "$(reboot)", "name": "alice", "domain": object{"id": "default", "name": "Default"}})},
			reason: openstack.RoleMissing, want: alice + "the roles member; " + missing,
		},
		"a role with a similar name": {
			roles:  []string{"load-balancer_member ", "a, b\x1b[31m"},
			reason: openstack.RoleNotDelegable,
			want: alice + `the roles "a, b\x1b[31m", "load-balancer_member "; too many: "a, b\x1b[31m", "load-balancer_member "` + excess + instead + "; " +
				missing + command,
		},
		"many roles": {
			roles:  append(many(12), "load-balancer_member"),
			reason: openstack.RoleNotDelegable,
			want: alice + "the roles load-balancer_member, " + first(9) + " and 3 more; too many: " + first(10) + " and 2 more" + excess +
				instead,
		},
		"many missing roles": {
			roles: []string{}, policy: &delegation.RolePolicy{Required: many(11)},
			reason: openstack.RoleMissing, want: alice + "no role; missing: " + first(10) + " and 1 more; an administrator grants it",
		},
		"long names": {
			roles: []string{strings.Repeat("r", 200)},
			token: []func(object){
				with("user", object{"id": userID, "name": strings.Repeat("u", 200)}),
				with("project", object{"id": projectID, "name": strings.Repeat("p", 200)}),
			},
			policy: &delegation.RolePolicy{Allowed: []string{"member"}}, reason: openstack.RoleNotDelegable,
			want: `user "` + strings.Repeat("u", 100) + `" in project "` + strings.Repeat("p", 100) + `" has the roles "` + strings.Repeat("r", 100) +
				`"; too many: "` + strings.Repeat("r", 100) + `"` + excess +
				"use an identity of the tenant that has only member, or an application credential that is made with these roles only",
		},
		"a user of an operator, with the roles of a tenant": {
			operators: byUser(delegation.PrincipalPattern{Name: "al*", Domain: "default"}),
			reason:    openstack.IdentityOfOperator, want: `user "alice" of domain "Default"` + operators,
		},
		"an administrator who is an operator": {
			roles: []string{"admin"}, operators: byUser(delegation.PrincipalPattern{ID: userID}),
			reason: openstack.IdentityOfOperator, want: `user "alice" of domain "Default"` + operators,
		},
		"a user of an operator, by application credential": {
			token:     []func(object){ofApplicationCredential},
			operators: byUser(delegation.PrincipalPattern{Name: "ALICE"}),
			reason:    openstack.IdentityOfOperator, want: `user "alice" of domain "Default"` + operators,
		},
		"a project of an operator": {
			operators: byProject(delegation.PrincipalPattern{ID: projectID}),
			reason:    openstack.IdentityOfOperator, want: `project "team-a" of domain "Tenants", for which user "alice" has a token,` + operators,
		},
		"a project of a domain of operators": {
			operators: byProject(delegation.PrincipalPattern{Domain: "d1"}),
			reason:    openstack.IdentityOfOperator, want: `project "team-a" of domain "Tenants", for which user "alice" has a token,` + operators,
		},
		"a user of the name of an operator of another domain": {
			operators: byUser(delegation.PrincipalPattern{Name: "alice", Domain: "Operators"}),
		},
		"a project of the name of an operator's user": {
			operators: byUser(delegation.PrincipalPattern{Name: "team-a"}),
		},
		"an unrestricted application credential": {token: []func(object){unrestricted}},
		"an unrestricted application credential, while unrestricted ones are denied": {
			token: []func(object){unrestricted}, denyUnrestricted: true,
			reason: openstack.ApplicationCredentialUnrestricted,
			want: `application credential "capo" of user "alice" in project "team-a" is unrestricted: it can create further application credentials of ` +
				"this user, which stay valid after it is deleted; use one that was created without --unrestricted",
		},
		"an unrestricted application credential with too few roles": {
			roles: []string{"member"}, token: []func(object){unrestricted}, denyUnrestricted: true,
			reason: openstack.RoleMissing, want: `application credential "capo" of ` + alice + "the roles member; " + missing + command + anew,
		},
		"a restricted application credential, while unrestricted ones are denied": {
			token: []func(object){ofApplicationCredential}, denyUnrestricted: true,
		},
		"a password, while unrestricted ones are denied": {denyUnrestricted: true},
		"a trust": {
			token:  []func(object){aTrust},
			reason: openstack.IdentityOfTrust, want: "the credentials are those of trust t1, with which a trustee acts for another user; use the tenant's own",
		},
		"an administrator's trust": {
			roles: []string{"admin"}, token: []func(object){aTrust},
			reason: openstack.IdentityOfTrust, want: "the credentials are those of trust t1, with which a trustee acts for another user; use the tenant's own",
		},
		"nothing": {
			token:  []func(object){drop, with("roles", nil), with("catalog", nil)},
			reason: openstack.IdentityUnscoped, want: "the credentials are for no project" + remedy,
		},
		"a domain": {
			token:  []func(object){drop, with("domain", object{"id": "d1", "name": "Tenants"})},
			reason: openstack.IdentityDomainScoped, want: `the credentials are for the domain "Tenants"` + noDomain,
		},
		"the system": {
			token:  []func(object){drop, with("system", object{"all": true})},
			reason: openstack.IdentitySystemScoped, want: "the credentials are for the system as a whole" + noDomain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			checked := policy
			if tc.policy != nil {
				checked.Roles = *tc.policy
			}
			checked.Operators, checked.DenyUnrestricted = tc.operators, tc.denyUnrestricted
			if tc.roles == nil {
				tc.roles = []string{"member", "load-balancer_member"}
			}
			api := newAPI(t, answers{authenticate: aToken(append([]func(object){roles(tc.roles...)}, tc.token...)...)})
			cloud := api.cloud(api.secret())
			for _, ask := range []func(context.Context, ownership.Identity, delegation.CredentialPolicy) (openstack.Token, error){
				cloud.Delegation, cloud.DelegationNow,
			} {
				token, err := ask(t.Context(), identity, checked)
				if token.UserID == "" {
					t.Error("there is no token, want that of Keystone, for the log")
				}
				if tc.reason != "" {
					expectFailure(t, err, failure{Reason: tc.reason, Text: where + tc.want})
				} else if err != nil {
					t.Errorf("error = %v", err)
				}
			}
			api.Expect(authenticate, authenticate)
		})
	}
}

// delegationOf is a cloud with a fake clock, and a counter of its authentications.
type delegationOf struct {
	t     *testing.T
	cloud *openstack.Cloud
	count func(string) int
}

func newDelegation(t *testing.T, answer http.HandlerFunc) delegationOf {
	t.Helper()
	cloud, count := offline(t, answers{authenticate: answer})
	return delegationOf{t: t, cloud: cloud, count: count}
}

// expect calls Delegation, and checks the reason ("" for allowed) and the number of authentications since the start.
func (d delegationOf) expect(when, reason string, authentications int) {
	d.t.Helper()
	_, err := d.cloud.Delegation(d.t.Context(), identity, policy)
	got := ""
	if err != nil {
		got = failureOf(d.t, err).Reason
	}
	if diff := cmp.Diff([]any{reason, authentications}, []any{got, d.count(authenticate)}); diff != "" {
		d.t.Errorf("%s: reason and authentications (-want +got):\n%s", when, diff)
	}
}

func TestRolesTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelegation(t, cloudhttptest.InTurn(aToken(roles("member")), aToken(roles("admin")), delegable()))
		defer d.cloud.Stop()
		d.expect("at first", openstack.RoleMissing, 1)
		wait(9 * time.Second)
		d.expect("a rejection is cached for 9 s", openstack.RoleMissing, 1)
		wait(1)
		d.expect("and not for longer", openstack.RolePrivileged, 2)
		d.expect("the next is cached as long", openstack.RolePrivileged, 2)
		wait(9*time.Second + 1)
		d.expect("a role that was given is seen", "", 3)
		wait(5*time.Minute - 1)
		d.expect("an allowed identity is cached for 5 minutes", "", 3)
		wait(1)
		d.expect("and not for longer", "", 4)
	})
}

func TestDenialByCachedRolesIsRepeatedWithANewToken(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   failure
	}{
		"and Keystone fails": {answer: reply(http.StatusBadGateway, ""), want: keystoneFails},
		"and Keystone rejects": {
			answer: failed(http.StatusUnauthorized, "error"),
			want: failure{
				Reason: openstack.IdentityDenied,
				Text: where + `Keystone at https://cloud.example:443/identity rejects user "alice" (401, request req-401): the credentials are wrong, ` +
					`expired or revoked, or have no role on project "` + projectID + `"; renew them in the Secret`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDelegation(t, cloudhttptest.InTurn(aToken(roles("member")), tc.answer))
				defer d.cloud.Stop()
				d.expect("at first", openstack.RoleMissing, 1)
				wait(10 * time.Second)
				_, err := d.cloud.Delegation(t.Context(), identity, policy)
				expectFailure(t, err, tc.want)
			})
		})
	}
}

// TestConcurrentDenialsByCachedRolesCauseOneAuthentication tests a burst of calls while the authentication is in flight.
func TestConcurrentDenialsByCachedRolesCauseOneAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelegation(t, cloudhttptest.InTurn(aToken(roles("member")), func(w http.ResponseWriter, r *http.Request) {
			wait(2 * time.Second)
			aToken(roles("member"))(w, r)
		}))
		defer d.cloud.Stop()
		d.expect("at first", openstack.RoleMissing, 1)
		wait(10 * time.Second)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				wait(time.Duration(i) * 100 * time.Millisecond)
				if _, err := d.cloud.Delegation(t.Context(), identity, policy); failureOf(t, err).Reason != openstack.RoleMissing {
					t.Errorf("Delegation() error = %v", err)
				}
			})
		}
		all.Wait()
		d.expect("in the end", openstack.RoleMissing, 2)
	})
}

func TestDelegationNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelegation(t, cloudhttptest.InTurn(delegable(), aToken(roles("admin")), reply(http.StatusBadGateway, "")))
		defer d.cloud.Stop()
		d.expect("at first", "", 1)
		wait(1) // otherwise both authentications would have the same time
		if _, err := d.cloud.DelegationNow(t.Context(), identity, policy); failureOf(t, err).Reason != openstack.RolePrivileged {
			t.Errorf("DelegationNow() error = %v, want %s", err, openstack.RolePrivileged)
		}
		d.expect("what was found now is remembered", openstack.RolePrivileged, 2)
		wait(1)
		_, err := d.cloud.DelegationNow(t.Context(), identity, policy)
		expectFailure(t, err, keystoneFails)
		d.expect("a failure changes nothing", openstack.RolePrivileged, 3)
	})
}
