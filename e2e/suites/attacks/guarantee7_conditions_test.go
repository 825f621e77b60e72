//go:build e2e

package attacks_test

import (
	"encoding/json"
	"strconv"
	"time"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// Guarantee 7, for kcp itself: kcp evaluates the admission policy and the conditions of the webhooks for each write, and a tenant chooses
// how many annotations they compare.
var _ = Describe("the owner of a workspace who writes as many annotations as fit into a Workspace", func() {
	It("gets a denial at once, and keeps access to the Workspace", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker := suite.KCPClient(w.newOwner(ctx, "attacker").config)
		annotations := map[string]string{}
		for i := 10_000; i < 40_000; i++ {
			annotations[strconv.Itoa(i)] = ""
		}
		many, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		Expect(err).NotTo(HaveOccurred())
		tooMany := MatchError(ContainSubstring("tried to change one of more than 256 annotations"))
		child := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "child"}}
		Expect(attacker.Create(ctx, child)).To(Succeed())

		began := time.Now()
		Expect(attacker.Create(ctx, &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: annotations}})).To(tooMany)
		Expect(attacker.Patch(ctx, child, client.RawPatch(types.MergePatchType, many))).To(tooMany)
		AddReportEntry("two writes", time.Since(began).Round(time.Millisecond))
		Expect(attacker.Patch(ctx, child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`)))).To(Succeed())
		Expect(attacker.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed())
		Expect(child.Annotations).To(And(HaveKey("a"), HaveKey(kcptest.OwnerAnnotation)))
	}, SpecTimeout(startTimeout))
})
