//go:build e2e

package workspace_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
)

// A controller with a service account sets up workspaces for others and works in them.
var _ = Describe("A service account's workspace", func() {
	DescribeTable("becomes Ready with warrantgate, and the service account has permissions in it",
		func(ctx SpecContext, where func(SpecContext) place, name string) {
			home := where(ctx)
			bot := home.serviceAccount(ctx, name)
			create(ctx, bot, name+"-child")
			child := waitReady(ctx, home.admin(), name+"-child")

			By("listing its API bindings and creating a namespace as the service account")
			expectAtHome(ctx, bot, child.Spec.Cluster)

			By("kcp acts in it under the service account's global name")
			settled := waitSettled(ctx, home.admin(), name+"-child")
			Expect(settled.Annotations[kcptest.OwnerAnnotation]).To(MatchJSON(fmt.Sprintf(`{"username":%q}`, home.globalName(name))))

			By("an annotation names its creator, and an Event says that its owner was rewritten")
			Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, home.cluster+":default:"+name))
			Eventually(ctx, home.reasonsOf).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten"}))
		},
		Entry("under a workspace", inNewPlace, "bot", SpecTimeout(specTimeout)),
		Entry("directly under root", inRoot, "rootbot", SpecTimeout(specTimeout)),
	)
})

func inNewPlace(ctx SpecContext) place { return newPlace(ctx, guarded) }

func inRoot(SpecContext) place { return root(guarded) }
