//go:build e2e

package workspace_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is right as it is costs nothing: kcp asks warrantgate about foreign owners only, and once.
var _ = Describe("The owner-rewrite webhook", func() {
	It("is not called for a person's workspace", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		alice := parent.person(ctx, "alice")
		before := rewriteCalls(ctx)
		create(ctx, alice, "child")
		child := waitReady(ctx, parent.admin(), "child")
		Expect(rewriteCalls(ctx)).To(Equal(before))
		Expect(parent.reasonsOf(ctx, child)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("is called once for a service account's workspace", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		bot := parent.serviceAccount(ctx, "bot")
		before := rewriteCalls(ctx)
		create(ctx, bot, "child")
		waitReady(ctx, parent.admin(), "child")
		Expect(rewriteCalls(ctx)).To(Equal(before + 1))
	}, SpecTimeout(specTimeout))

	It("is called once for a scoped person's workspace", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		alice := parent.impersonated(ctx, "alice")
		before := rewriteCalls(ctx)
		create(ctx, alice, "child")
		waitReady(ctx, parent.admin(), "child")
		Expect(rewriteCalls(ctx)).To(Equal(before + 1))
	}, SpecTimeout(specTimeout))

	It("is not called for a write that conflicts, as the scheduler's do when its cache is behind", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		ws := create(ctx, parent.impersonated(ctx, "alice"), "child", nowhere)
		before := rewriteCalls(ctx)
		patch := []byte(`{"metadata":{"resourceVersion":"1","annotations":{"internal.tenancy.kcp.io/cluster":"late"}}}`)
		err := newClient(guarded.ShardAdmin(parent.path)).Patch(ctx, ws, client.RawPatch(types.MergePatchType, patch))
		Expect(err).To(WithTransform(apierrors.IsConflict, BeTrue()))
		Expect(rewriteCalls(ctx)).To(Equal(before))
		Consistently(ctx, parent.reasonsOf).WithArguments(ws).Should(BeEmpty())
	}, SpecTimeout(specTimeout))
})

// rewriteCalls is how often warrantgate has been asked about a rewrite.
func rewriteCalls(ctx context.Context) float64 {
	GinkgoHelper()
	calls, err := gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": "owner-rewrite"})
	Expect(err).NotTo(HaveOccurred())
	return calls
}
