//go:build e2e

package workspace_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/kcptest"
)

// A platform's operator onboards customers with nothing but a service account's kubeconfig: it lives in a workspace of
// its own, has rights where the organizations are, and makes organizations and accounts in them.
var _ = Describe("An operator with the kubeconfig of a service account", func() {
	It("creates an organization and an account in it, and works in both", func(ctx SpecContext) {
		home, orgs := newPlace(ctx, guarded), newPlace(ctx, guarded)
		organization, account := orgs.extendingType(ctx, "organization", "universal"), orgs.extendingType(ctx, "account", "universal")
		operator := home.serviceAccount(ctx, "operator")
		Expect(kcptest.Grant(ctx, orgs.admin(), kcptest.User(home.globalName("operator")), kcptest.CreatorRules()...)).To(Succeed())

		inOrgs := kcptest.In(operator, orgs.path)
		create(ctx, inOrgs, "acme", organization)
		acme := waitReady(ctx, inOrgs, "acme")
		expectAtHome(ctx, operator, acme.Spec.Cluster)

		inAcme := kcptest.In(operator, orgs.path+":acme")
		create(ctx, inAcme, "alpha", account)
		alpha := waitReady(ctx, inAcme, "alpha")
		expectAtHome(ctx, operator, alpha.Spec.Cluster)
	}, SpecTimeout(specTimeout))
})
