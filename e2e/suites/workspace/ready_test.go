//go:build e2e

package workspace_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A controller with a service account sets up workspaces for others and works in them.
var _ = Describe("A service account's workspace", func() {
	DescribeTable("becomes Ready with warrantgate, and the service account has permissions in it",
		func(ctx SpecContext, where func(SpecContext) place, name string) {
			home := where(ctx)
			bot := home.ServiceAccount(ctx, name)
			suite.CreateWorkspace(ctx, bot, name+"-child")
			child := home.WaitReady(ctx, name+"-child")

			By("listing its API bindings and creating a namespace as the service account")
			expectAtHome(ctx, bot, child.Spec.Cluster)

			By("kcp acts in it under the service account's global name")
			settled := home.WaitSettled(ctx, name+"-child")
			Expect(settled.Annotations[kcptest.OwnerAnnotation]).To(MatchJSON(fmt.Sprintf(`{"username":%q}`, home.GlobalName(name))))

			By("an annotation names its creator, and an Event says that its owner was rewritten")
			Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, home.Cluster+":default:"+name))
			Eventually(ctx, home.Reasons).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten"}))
		},
		Entry("under a workspace", inNewPlace, "bot", SpecTimeout(specTimeout)),
		Entry("directly under root", inRoot, "rootbot", SpecTimeout(specTimeout)),
	)
})

func inNewPlace(ctx SpecContext) place { return newPlace(ctx, guarded) }

func inRoot(SpecContext) place { return root(guarded) }
