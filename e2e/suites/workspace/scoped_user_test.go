//go:build e2e

package workspace_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/e2e/env/kcptest"
)

// An administrator creates a workspace for a user by impersonation, as support staff and portals do. kcp limits the impersonated user to
// that one workspace, and so does warrantgate.
var _ = Describe("The workspace of a user that an administrator impersonated", func() {
	It("is stuck in Initializing without warrantgate", func(ctx SpecContext) {
		parent := newPlace(ctx, bare)
		create(ctx, parent.impersonated(ctx, "alice"), "child")
		parent.expectStuck(ctx, "child", deniedBindings("alice"))
	}, SpecTimeout(specTimeout))

	It("becomes Ready with warrantgate, and the user works in it", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		create(ctx, parent.impersonated(ctx, "alice"), "child")
		child := waitReady(ctx, parent.admin(), "child")

		expectAtHome(ctx, guarded.User("root", "alice"), child.Spec.Cluster)
		expectLockedOut(ctx, guarded.User("root", "bob"), child.Spec.Cluster)
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, "alice"))
		Eventually(ctx, parent.reasonsOf).WithArguments(child).Should(ContainElement("Normal OwnerRewritten"))
	}, SpecTimeout(specTimeout))

	It("has an owner without more permissions elsewhere than the administrator had as that user", func(ctx SpecContext) {
		parent, third := newPlace(ctx, guarded), newPlace(ctx, guarded)
		asAlice := parent.impersonated(ctx, "alice")
		third.user(ctx, "alice") // the administrator must get no access there by impersonating alice in parent
		create(ctx, asAlice, "child", parent.heldType(ctx))
		owner := parent.recordedOwner(ctx, "child")

		before := authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}, Extra: scopedTo(parent.cluster)}
		alice := authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
		Expect(permissionsOf(ctx, guarded, third.cluster, alice)).NotTo(BeEmpty(), "alice herself has permissions there")
		Expect(permissionsOf(ctx, guarded, third.cluster, before)).To(BeEmpty())
		Expect(permissionsOf(ctx, guarded, third.cluster, owner)).To(BeEmpty())
		Expect(permissionsOf(ctx, guarded, parent.cluster, owner)).To(ConsistOf(permissionsOf(ctx, guarded, parent.cluster, before)))
		Expect(permissionsOf(ctx, guarded, "root", owner)).To(ConsistOf(permissionsOf(ctx, guarded, "root", before)))
	}, SpecTimeout(specTimeout))
})

// scopedTo is the scope that kcp adds to a user that is valid in one cluster only.
func scopedTo(cluster string) map[string]authenticationv1.ExtraValue {
	return map[string]authenticationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:" + cluster}}
}
