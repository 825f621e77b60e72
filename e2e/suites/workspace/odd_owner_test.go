//go:build e2e

package workspace_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/rand"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// Only system:masters can set the owner of a Workspace. kcp's scheduler accepts any such owner, and an Event shows why kcp cannot act as
// it.
var _ = Describe("A workspace with a malformed owner", Ordered, ContinueOnFailure, func() {
	var parent place
	var held kcptest.WorkspaceOption

	BeforeAll(func(ctx SpecContext) {
		parent = newPlace(ctx)
		held = parent.heldType(ctx)
	}, NodeTimeout(specTimeout))

	DescribeTable("is scheduled, keeps the owner, and has an Event with the reason",
		func(ctx SpecContext, owner, why string) {
			name := "odd-" + rand.String(6)
			options := []kcptest.WorkspaceOption{held}
			if owner != "" {
				options = append(options, kcptest.WithAnnotation(kcptest.OwnerAnnotation, owner))
			}
			ws := suite.CreateWorkspace(ctx, kcp.ShardAdmin(parent.Path), name, options...)
			parent.WaitInitializing(ctx, name)

			now, err := kcptest.GetWorkspace(ctx, parent.Admin(), name)
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Annotations[kcptest.OwnerAnnotation]).To(Equal(owner))
			Expect(now.Annotations).NotTo(HaveKey(kcptest.CreatedByAnnotation))
			Eventually(func(g Gomega) {
				events, err := kcptest.Events(ctx, parent.Admin(), ws)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(events).To(HaveExactElements(And(
					HaveField("Type", "Warning"), HaveField("Reason", "OwnerNotRewritten"), HaveField("Message", ContainSubstring(why)))))
			}).Should(Succeed())
		},
		Entry("none", "", "No owner is recorded", SpecTimeout(specTimeout)),
		Entry("not JSON", "bot", "The recorded owner cannot be read", SpecTimeout(specTimeout)),
		Entry("a service account without a home", `{"username":"system:serviceaccount:default:bot"}`, "does not name its home logical cluster", SpecTimeout(specTimeout)),
		Entry("a service account with two homes",
			`{"username":"system:serviceaccount:default:bot","extra":{"authentication.kcp.io/cluster-name":["a1","b2"]}}`,
			"names several home clusters (a1, b2)", SpecTimeout(specTimeout)),
	)
})
