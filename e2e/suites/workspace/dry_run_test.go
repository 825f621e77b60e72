//go:build e2e

package workspace_test

import (
	"fmt"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A dry run has the same answer, and no side effects.
var _ = Describe("A dry run of scheduling a service account's workspace", func() {
	It("shows the new owner, and writes no Event", func(ctx SpecContext) {
		parent := newPlace(ctx)
		bot := parent.ServiceAccount(ctx, "bot")
		ws := suite.CreateWorkspace(ctx, bot, "child", nowhere)

		wantCalls := rewriteCalls(ctx)
		if !suite.ByPolicy(kcp) {
			wantCalls++
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"internal.tenancy.kcp.io/cluster":%q}}}`, "trial")
		Expect(suite.KCPClient(kcp.ShardAdmin(parent.Path)).Patch(ctx, ws,
			client.RawPatch(types.MergePatchType, patch), client.DryRunAll)).To(Succeed())
		Expect(rewriteCalls(ctx)).To(Equal(wantCalls))
		Expect(ws.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, parent.Cluster+":default:bot"))
		Expect(ws.Annotations[kcptest.OwnerAnnotation]).To(ContainSubstring(parent.GlobalName("bot")))

		stored, err := kcptest.GetWorkspace(ctx, parent.Admin(), "child")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Annotations).NotTo(HaveKey(kcptest.CreatedByAnnotation))
		parent.expectNoEvents(ctx, stored)
	}, SpecTimeout(specTimeout))
})

// nowhere keeps a workspace from being scheduled: no shard has this label.
func nowhere(ws *tenancyv1alpha1.Workspace) {
	ws.Spec.Location = &tenancyv1alpha1.WorkspaceLocation{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"shard": "nowhere"}},
	}
}
