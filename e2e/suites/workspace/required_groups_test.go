//go:build e2e

package workspace_test

import (
	"context"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	requiredGroupsAnnotation = "authorization.kcp.io/required-groups"
	// requiredGroups is "in team-a and on-call, or in operators".
	requiredGroups = "team-a,on-call;operators"
)

// An organization denies access to a subtree of workspaces to users who are not in certain groups. kcp copies that requirement to new
// workspaces in the subtree, and exempts service accounts, which are in no such group.
var _ = Describe("A workspace below one that requires groups", func() {
	It("becomes Ready with warrantgate, and the service account works in it", func(ctx SpecContext) {
		parent := newPlace(ctx)
		bot := parent.ServiceAccount(ctx, "bot")
		parent.requireGroups(ctx)
		suite.CreateWorkspace(ctx, bot, "child")
		child := parent.WaitReady(ctx, "child")
		Expect(child.Annotations).To(And(HaveKeyWithValue(requiredGroupsAnnotation, requiredGroups), HaveKey(kcptest.CreatedByAnnotation),
			Not(HaveKey("warrantgate.dev/rewritten-by"))), "the webhook rewrites the owner")

		expectAtHome(ctx, bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("becomes Ready also for a user in the groups whom an administrator impersonated", func(ctx SpecContext) {
		parent := newPlace(ctx)
		asBob := parent.Impersonated(ctx, "bob", "team-a", "on-call")
		parent.requireGroups(ctx)
		suite.CreateWorkspace(ctx, asBob, "child")
		child := parent.WaitReady(ctx, "child")

		expectAtHome(ctx, kcp.User("root", "bob", "team-a", "on-call"), child.Spec.Cluster)
		expectLockedOut(ctx, kcp.User("root", "bob", "team-a"), child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("has an owner without more permissions elsewhere than the service account", func(ctx SpecContext) {
		parent, third := newPlace(ctx), newPlace(ctx)
		bot := parent.ServiceAccount(ctx, "bot")
		for _, where := range []place{parent, third} { // the permissions of the groups
			for _, group := range []string{"team-a", "on-call", "operators"} {
				Expect(kcptest.Grant(ctx, where.Admin(), kcptest.Group(group), kcptest.AccessRule(),
					kcptest.Rule("*", []string{"*"}, []string{"*"}))).To(Succeed())
			}
			where.requireGroups(ctx)
		}
		suite.CreateWorkspace(ctx, bot, "child", parent.heldType(ctx))
		owner := parent.recordedOwner(ctx, "child")

		before := authenticationv1.UserInfo{
			Username: "system:serviceaccount:default:bot",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
			Extra:    scopedTo(parent.Cluster),
		}
		before.Extra["authentication.kcp.io/cluster-name"] = authenticationv1.ExtraValue{parent.Cluster}
		Expect(permissionsOf(ctx, third.Cluster, before)).To(BeEmpty())
		Expect(permissionsOf(ctx, third.Cluster, owner)).To(BeEmpty())
		Expect(permissionsOf(ctx, parent.Cluster, before)).To(ContainElements(permissionsOf(ctx, parent.Cluster, owner)))
		Expect(permissionsOf(ctx, "root", owner)).To(ConsistOf(permissionsOf(ctx, "root", before)))
	}, SpecTimeout(specTimeout))
})

// requireGroups requires the groups here, and returns once kcp denies access to a user who is in none.
func (p place) requireGroups(ctx context.Context) {
	GinkgoHelper()
	visitor := suite.KCPClient(p.User(ctx, "visitor")) // a user who has permissions, but is not in the groups
	Expect(visitor.List(ctx, &tenancyv1alpha1.WorkspaceList{})).To(Succeed())
	p.RequireGroups(ctx, requiredGroups)
	Eventually(ctx, func() error { return visitor.List(ctx, &tenancyv1alpha1.WorkspaceList{}) }).Should(beNotAllowed)
}
