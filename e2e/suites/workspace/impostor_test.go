//go:build e2e

package workspace_test

import (
	"context"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
)

// Names of service accounts are unique only within a workspace. A user who may create service accounts in a new workspace must not become
// its administrator by giving a service account the name of the workspace's creator.
var _ = Describe("A service account of the creator's name inside the new workspace", func() {
	DescribeTable("has no permissions there with warrantgate, and the creator has",
		func(ctx SpecContext, ofType func(SpecContext, place) kcptest.WorkspaceOption) {
			home := newPlace(ctx, guarded)
			bot := home.serviceAccount(ctx, "bot")
			create(ctx, bot, "child", ofType(ctx, home))
			child := waitReady(ctx, home.admin(), "child")

			impostor, err := kcptest.ServiceAccount(ctx, guarded.Admin(child.Spec.Cluster), "default", "bot")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, func() error { return createNamespace(ctx, bot, child.Spec.Cluster, "work") }).Should(Succeed())
			expectLockedOut(ctx, impostor, child.Spec.Cluster)
		},
		Entry("in a workspace without APIs", SpecTimeout(specTimeout), func(ctx SpecContext, home place) kcptest.WorkspaceOption {
			return home.emptyType(ctx)
		}),
	)
})

// system:masters impersonates without a scope, and so a service account without a home: its name is valid in every workspace.
var _ = Describe("A workspace that system:masters creates as an impersonated service account", func() {
	It("is Ready, and its Event says that every service account of this name is its administrator", func(ctx SpecContext) {
		home := newPlace(ctx, guarded)
		home.serviceAccount(ctx, "bot")
		asBot := guarded.ShardAdmin(home.path)
		asBot.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:bot"}
		create(ctx, asBot, "child", home.emptyType(ctx))
		child := waitReady(ctx, home.admin(), "child")
		Eventually(ctx, func(g Gomega) {
			events, err := kcptest.Events(ctx, home.admin(), child)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events).To(ConsistOf(And(HaveField("Reason", "OwnerNotRewritten"), HaveField("Message", And(
				ContainSubstring("each one that is created in the workspace is its administrator"), Not(ContainSubstring("will fail")))))))
		}).Should(Succeed())

		impostor, err := kcptest.ServiceAccount(ctx, guarded.Admin(child.Spec.Cluster), "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error { return createNamespace(ctx, impostor, child.Spec.Cluster, "work") }).Should(Succeed())
	}, SpecTimeout(specTimeout))
})

// emptyType makes a type without default API bindings: its workspaces become Ready also without warrantgate.
func (p place) emptyType(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	return p.workspaceType(ctx, &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
}
