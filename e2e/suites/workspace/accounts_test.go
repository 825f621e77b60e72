//go:build e2e

package workspace_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A platform's operator onboards customers with only the kubeconfig of a service account. The service account is in the workspace of the
// organizations, and creates organizations, and accounts in them.
var _ = Describe("An operator with the kubeconfig of a service account", func() {
	It("creates an organization and an account in it, and has permissions in both", func(ctx SpecContext) {
		orgs := newPlace(ctx)
		organization, account := orgs.ExtendingType(ctx, "organization", "universal"), orgs.ExtendingType(ctx, "account", "universal")
		operator := orgs.ServiceAccount(ctx, "operator")

		acme := suite.ReadyWorkspace(ctx, operator, "acme", organization)
		expectAtHome(ctx, operator, acme.Spec.Cluster)

		// kcp does not let a service account create Workspaces outside its home, even in a workspace that it administers.
		By("creating a service account in the organization, which creates the account")
		inAcme := kcptest.In(operator, orgs.Path+":acme")
		accounts, err := kcptest.ServiceAccount(ctx, inAcme, "default", "accounts")
		Expect(err).NotTo(HaveOccurred())
		Expect(kcptest.Grant(ctx, inAcme, kcptest.ServiceAccountSubject("default", "accounts"), kcptest.CreatorRules()...)).To(Succeed())
		Expect(kcptest.Grant(ctx, orgs.Admin(), kcptest.Group("system:authenticated"), kcptest.UseTypesRule(), kcptest.AccessRule())).To(Succeed())
		alpha := suite.ReadyWorkspace(ctx, accounts, "alpha", account)
		expectAtHome(ctx, accounts, alpha.Spec.Cluster)
	}, SpecTimeout(specTimeout))
})
