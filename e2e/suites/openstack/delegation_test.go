//go:build e2e

package openstack_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// A cluster may act with the roles that Keystone lets the tenant delegate without an administrator's permissions. So the specs delegate the
// same roles in Keystone itself: by a trust, as Magnum does.
var _ = Describe("The roles of credentials", Ordered, ContinueOnFailure, first, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "") }, NodeTimeout(setupTimeout))

	const created, unauthorized, forbidden, notFound = http.StatusCreated, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound
	// row is an identity, and the expected results.
	type row struct {
		// roles are the roles of the user on the project.
		roles []string
		// by is how the user gets a token. Default: by password, for the project.
		by func(ctx context.Context, s story) bearer
		// reason is the reason of the denial of a cluster with this identity, "" if it is admitted.
		reason string
		// held is Keystone's status when the identity delegates the roles above, needed is its status when the identity delegates
		// load-balancer_member.
		held, needed int
	}
	DescribeTable("are evaluated as by Keystone, except for roles that no cluster may have", func(ctx SpecContext, r row) {
		s := w.begin(ctx, r.roles...)
		b := byPassword(ctx, s)
		if r.by != nil {
			b = r.by(ctx, s)
		}
		s.writeSecret(ctx, credentials, b.entry)
		err := s.createCluster(ctx, clusterName, actsWith(credentials))
		if r.reason == "" {
			Expect(err).NotTo(HaveOccurred())
		} else {
			expectDenial(err, r.reason, identityRefPath)
		}
		held, needed := s.delegates(ctx, b, r.roles...), s.delegates(ctx, b, loadBalancer)
		Expect(held).To(Equal(r.held), "Keystone's status on a delegation of %v", r.roles)
		Expect(needed).To(Equal(r.needed), "Keystone's status on a delegation of the roles that a cluster needs")

		// An application credential delegates nothing, whatever its roles are; see cluster.delegation.through.
		if _, application := b.entry["application_credential_id"]; err == nil && !application {
			Expect(held).To(Equal(created), "the gate admits roles that Keystone does not delegate")
		}
		if slices.ContainsFunc(r.roles, func(role string) bool { return strings.EqualFold(role, "admin") }) && r.by == nil {
			Expect(held).To(Equal(created), "only the gate denies a delegation of admin")
		}
	},
		Entry("a member with load balancers", row{roles: []string{member, loadBalancer}, held: created, needed: created}, SpecTimeout(timeout)),
		Entry("a member without load balancers", row{
			roles: []string{member}, reason: "RoleMissing", held: created, needed: notFound,
		}, SpecTimeout(timeout)),
		Entry("without a role there", row{reason: "IdentityDenied", held: unauthorized, needed: unauthorized}, SpecTimeout(timeout)),
		Entry("an administrator", row{
			roles: []string{member, loadBalancer, "admin"}, reason: "RolePrivileged", held: created, needed: created,
		}, SpecTimeout(timeout)),
		Entry("a manager of a domain", row{
			roles: []string{member, loadBalancer, "manager"}, reason: "RoleNotDelegable", held: created, needed: created,
		}, SpecTimeout(timeout)),
		// The policies of the services treat it as the same role, and a trust delegates the held role. Only a request with the exact name is
		// denied.
		Entry("load balancers, in another case", row{
			roles: []string{member, "Load-Balancer_Member"}, held: created, needed: notFound,
		}, SpecTimeout(timeout)),
		Entry("a token without a scope", row{
			roles: []string{member, loadBalancer}, by: unscoped, reason: "IdentityUnscoped", held: created, needed: created,
		}, SpecTimeout(timeout)),
		Entry("a token for a domain", row{
			roles: []string{member, loadBalancer}, by: forDomain, reason: "IdentityDomainScoped", held: created, needed: created,
		}, SpecTimeout(timeout)),
		Entry("a token for the system", row{
			roles: []string{member, loadBalancer}, by: forSystem, reason: "IdentitySystemScoped", held: created, needed: created,
		}, SpecTimeout(timeout)),
		Entry("a trust", row{
			roles: []string{member, loadBalancer}, by: byTrust, reason: "IdentityOfTrust", held: forbidden, needed: forbidden,
		}, SpecTimeout(timeout)),
		Entry("an application credential, restricted", row{
			roles: []string{member, loadBalancer}, by: byCredential(false), held: forbidden, needed: forbidden,
		}, SpecTimeout(timeout)),
		Entry("an application credential, unrestricted", row{
			roles: []string{member, loadBalancer}, by: byCredential(true), held: forbidden, needed: forbidden,
		}, SpecTimeout(timeout)),
		Entry("an administrator's application credential", row{
			roles: []string{member, loadBalancer, "admin"}, by: byCredential(false), reason: "RolePrivileged", held: forbidden, needed: forbidden,
		}, SpecTimeout(timeout)),
		Entry("an administrator's application credential that is limited to the roles that a cluster needs", row{
			roles: []string{member, loadBalancer, "admin"}, by: byCredential(false, member, loadBalancer), held: forbidden, needed: forbidden,
		}, SpecTimeout(timeout)),
	)
})

// bearer is an identity that authenticates: with a clouds.yaml, and directly.
type bearer struct {
	entry entry
	login func(ctx context.Context) (*gophercloud.ServiceClient, error)
}

func byPassword(_ context.Context, s story) bearer {
	return bearer{entry: s.password(s.user), login: func(ctx context.Context) (*gophercloud.ServiceClient, error) {
		return s.asUser(ctx, tokens.Scope{ProjectID: s.project})
	}}
}

func unscoped(_ context.Context, s story) bearer {
	return bearer{
		entry: s.password(s.user).with("project_id", ""),
		login: func(ctx context.Context) (*gophercloud.ServiceClient, error) { return s.asUser(ctx, tokens.Scope{}) },
	}
}

func forDomain(ctx context.Context, s story) bearer {
	GinkgoHelper()
	Expect(s.keystone.Assign(ctx, member, roles.AssignOpts{UserID: s.user.ID, DomainID: s.domainID})).To(Succeed())
	return bearer{
		entry: s.password(s.user).with("project_id", "").with("domain_id", s.domainID),
		login: func(ctx context.Context) (*gophercloud.ServiceClient, error) {
			return s.asUser(ctx, tokens.Scope{DomainID: s.domainID})
		},
	}
}

func forSystem(ctx context.Context, s story) bearer {
	GinkgoHelper()
	Expect(s.keystone.Assign(ctx, reader, roles.AssignOpts{UserID: s.user.ID, System: true})).To(Succeed())
	return bearer{
		entry: s.password(s.user).with("project_id", "").with("system_scope", "all"),
		login: func(ctx context.Context) (*gophercloud.ServiceClient, error) {
			return s.asUser(ctx, tokens.Scope{System: true})
		},
	}
}

// byTrust acts as the user by a trust that the user has created.
func byTrust(ctx context.Context, s story) bearer {
	GinkgoHelper()
	trust, err := s.keystone.CreateTrust(ctx, s.user, s.trustee, s.project, member, loadBalancer)
	Expect(err).NotTo(HaveOccurred())
	return bearer{
		entry: s.password(s.trustee).with("project_id", "").with("trust_id", trust.ID),
		login: func(ctx context.Context) (*gophercloud.ServiceClient, error) {
			return s.keystone.Login(ctx, s.trustee, tokens.Scope{TrustID: trust.ID})
		},
	}
}

// byCredential is an application credential with some of the user's roles, none for all.
func byCredential(unrestricted bool, roleNames ...string) func(ctx context.Context, s story) bearer {
	return func(ctx context.Context, s story) bearer {
		GinkgoHelper()
		options := applicationcredentials.CreateOpts{Unrestricted: unrestricted}
		for _, role := range roleNames {
			options.Roles = append(options.Roles, applicationcredentials.Role{Name: role})
		}
		made := s.credential(ctx, options)
		return bearer{entry: entryOf(made), login: func(ctx context.Context) (*gophercloud.ServiceClient, error) {
			return s.keystone.LoginWith(ctx, made)
		}}
	}
}

// delegates is the status of Keystone when the bearer delegates roles of the story's user.
func (s story) delegates(ctx context.Context, b bearer, roleNames ...string) int {
	GinkgoHelper()
	client, err := b.login(ctx)
	if err == nil {
		options := trusts.CreateOpts{Impersonation: true, TrustorUserID: s.user.ID, TrusteeUserID: s.trustee.ID, ProjectID: s.project}
		for _, role := range roleNames {
			options.Roles = append(options.Roles, trusts.Role{Name: role})
		}
		_, err = trusts.Create(ctx, client, options).Extract()
	}
	var answered gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answered) {
		return answered.Actual
	}
	Expect(err).NotTo(HaveOccurred())
	return http.StatusCreated
}
