//go:build e2e

package workspace_test

import (
	"context"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// system:masters impersonates without a scope, and so a service account without a home: its name is valid in every workspace.
var _ = Describe("A workspace that system:masters creates as an impersonated service account", func() {
	It("is Ready, and its Event says that every service account of this name is its administrator", func(ctx SpecContext) {
		home := newPlace(ctx)
		home.ServiceAccount(ctx, "bot")
		asBot := kcp.ShardAdmin(home.Path)
		asBot.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:bot"}
		suite.CreateWorkspace(ctx, asBot, "child", home.emptyType(ctx))
		child := home.WaitReady(ctx, "child")
		Eventually(ctx, func(g Gomega) {
			events, err := kcptest.Events(ctx, home.Admin(), child)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events).To(ConsistOf(And(HaveField("Reason", "OwnerNotRewritten"), HaveField("Message", And(
				ContainSubstring("each one that is created in the workspace is its administrator"), Not(ContainSubstring("will fail")))))))
		}).Should(Succeed())

		impostor, err := kcptest.ServiceAccount(ctx, kcp.Admin(child.Spec.Cluster), "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		suite.ExpectAtHome(ctx, impostor, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))
})

// emptyType makes a type without default API bindings: its workspaces become Ready also without warrantgate.
func (p place) emptyType(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	return p.WorkspaceType(ctx, "empty", tenancyv1alpha1.WorkspaceTypeSpec{})
}
