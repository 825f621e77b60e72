//go:build e2e

package workspace_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A controller with a service account of root sets up workspaces for others and works in them. The suite stories has one of another workspace.
var _ = Describe("A service account's workspace directly under root", func() {
	It("becomes Ready with warrantgate, and the service account has permissions in it", func(ctx SpecContext) {
		home := root()
		bot := home.ServiceAccount(ctx, "rootbot")
		suite.CreateWorkspace(ctx, bot, "rootbot-child")
		child := home.WaitReady(ctx, "rootbot-child")

		By("listing its API bindings and creating a namespace as the service account")
		expectAtHome(ctx, bot, child.Spec.Cluster)

		By("kcp acts in it under the service account's global name")
		settled := home.WaitSettled(ctx, "rootbot-child")
		Expect(settled.Annotations[kcptest.OwnerAnnotation]).To(MatchJSON(fmt.Sprintf(`{"username":%q}`, home.GlobalName("rootbot"))))

		By("an annotation names its creator, and an Event says that its owner was rewritten")
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, home.Cluster+":default:rootbot"))
		Eventually(ctx, home.Reasons).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten"}))
	}, SpecTimeout(specTimeout))
})
