//go:build e2e

package policies_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// manyAlone is the number of service accounts that create a workspace each, forgedAlone the number of those that are forged meanwhile.
var manyAlone, forgedAlone = volume.Of(20, 200), volume.Of(10, 100)

// Only kcp runs, and an administrator has applied one file. e2e/suites/sharded does the same on several shards.
var _ = Describe("With the policies alone", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		if byPolicy {
			applyPolicies(ctx, kcp)
		}
	}, NodeTimeout(startTimeout))

	// hasPolicies is false on a kcp without such policies. It then expects that install and check report this.
	hasPolicies := func(ctx SpecContext) bool {
		GinkgoHelper()
		if byPolicy {
			return true
		}
		output, code := run(ctx, kcp, "install", "kcp", "--policies-only")
		Expect(code).To(Equal(2), output)
		Expect(output).To(ContainSubstring("kcp has these policies from v0.32 on; register the webhooks instead, with --url"))
		output, code = run(ctx, kcp, "check", "admission", "kcp", "--policies-only")
		Expect(code).To(Equal(1), output)
		Expect(output).To(ContainSubstring("warrantgate-owner-rewrite: NOT ACTIVE"))
		return false
	}

	It("the workspaces of many service accounts become Ready, each owned by its creator, and no owner is forged in many attacks", func(ctx SpecContext) {
		if !hasPolicies(ctx) {
			return
		}
		h := newHome(ctx, kcp)
		Expect(kcptest.Grant(ctx, h.Admin(), kcptest.User("mallory"), append(kcptest.CreatorRules(),
			rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}})...)).To(Succeed())
		children := h.many(ctx, "child", manyAlone, ignored, func(i int) bool { return i < forgedAlone })
		h.expectOwned(ctx, children)
		met, total := 0, 0.0
		for i, c := range children {
			total += c.took.Seconds()
			if c.met > 0 {
				met++
			}
			Expect(c.ws.Annotations).To(HaveKeyWithValue("warrantgate.dev/rewritten-by", "policy"))
			if i%10 == 0 {
				h.expectImpostorLockedOut(ctx, c)
			}
		}
		Expect(met).To(Equal(forgedAlone), "a forgery must have reached every workspace")
		AddReportEntry("seconds to Ready, on average", total/float64(manyAlone))
	}, SpecTimeout(manyTimeout))

	It("check reports each policy that is missing, while the others act", func(ctx SpecContext) {
		if !hasPolicies(ctx) {
			return
		}
		root := suite.KCPClient(kcp.Admin("root"))
		for _, missing := range []struct {
			policy client.Object
			says   string
		}{
			{&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate-owner-rewrite"}}, "NOT ACTIVE"},
			{&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate-restore"}}, "NOT ACTIVE"},
			{&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate-owner-integrity"}}, "NOT DENIED"},
		} {
			Expect(root.Delete(ctx, missing.policy)).To(Succeed())
			Eventually(ctx, func(g Gomega) {
				output, code := run(ctx, kcp, "check", "admission", "kcp", "--policies-only")
				g.Expect(code).To(Equal(1), output)
				g.Expect(output).To(ContainSubstring(missing.policy.GetName() + ": " + missing.says))
				g.Expect(strings.Count(output, ": ok\n")).To(Equal(2), output)
			}).Should(Succeed())
			applyPolicies(ctx, kcp)
		}
	}, SpecTimeout(specTimeout))

	It("uninstall removes them", func(ctx SpecContext) {
		if !hasPolicies(ctx) {
			return
		}
		output, code := run(ctx, kcp, "uninstall", "kcp")
		Expect(code).To(Equal(0), output)
		Expect(output).To(And(ContainSubstring(`MutatingAdmissionPolicy "warrantgate-owner-rewrite" deleted`),
			ContainSubstring(`ValidatingAdmissionPolicy "warrantgate-owner-integrity" deleted`)))
		Eventually(ctx, func() int {
			_, code := run(ctx, kcp, "check", "admission", "kcp", "--policies-only")
			return code
		}).Should(Equal(1))
	}, SpecTimeout(specTimeout))
})
