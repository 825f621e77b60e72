//go:build e2e

package workspace_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A correct owner causes no call: kcp calls warrantgate only for foreign owners, and once.
var _ = Describe("The owner-rewrite webhook", func() {
	It("is called once for the workspace of a scoped user", func(ctx SpecContext) {
		parent := newPlace(ctx)
		creator := parent.Impersonated(ctx, "alice")
		before := rewriteCalls(ctx)
		suite.CreateWorkspace(ctx, creator, "child")
		child := parent.WaitReady(ctx, "child")
		Expect(child.Annotations).To(And(HaveKeyWithValue(kcptest.CreatedByAnnotation, "alice"), Not(HaveKey("warrantgate.dev/rewritten-by"))))
		expectAtHome(ctx, kcp.User("root", "alice"), child.Spec.Cluster)
		Expect(rewriteCalls(ctx) - before).To(And(BeNumerically(">=", 1), BeNumerically("<=", parent.placements("child"))))
	}, SpecTimeout(specTimeout))

	DescribeTable("is called for a service account only before kcp v0.32, which has no admission policy that rewrites the owner", func(
		ctx SpecContext, as func(SpecContext, place) *rest.Config,
	) {
		parent := newPlace(ctx)
		creator := as(ctx, parent)
		byPolicy := suite.ByPolicy(kcp)
		before := rewriteCalls(ctx)
		suite.CreateWorkspace(ctx, creator, "child")
		child := parent.WaitReady(ctx, "child")
		Eventually(ctx, parent.Reasons).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten"}))
		if byPolicy {
			Expect(rewriteCalls(ctx)).To(Equal(before))
			Expect(child.Annotations).To(HaveKeyWithValue("warrantgate.dev/rewritten-by", "policy"))
			return
		}
		Expect(rewriteCalls(ctx) - before).To(And(BeNumerically(">=", 1), BeNumerically("<=", parent.placements("child"))))
		Expect(child.Annotations).NotTo(HaveKey("warrantgate.dev/rewritten-by"))
	},
		Entry("with its token", func(ctx SpecContext, p place) *rest.Config { return p.ServiceAccount(ctx, "bot") }, SpecTimeout(specTimeout)),
		Entry("impersonated by a GitOps tool", func(ctx SpecContext, p place) *rest.Config {
			p.ServiceAccount(ctx, "bot")
			return p.gitOps(ctx)
		}, SpecTimeout(specTimeout)),
	)
})

// rewriteCalls is the number of calls of warrantgate for a rewrite.
func rewriteCalls(ctx context.Context) float64 {
	GinkgoHelper()
	calls, err := gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": "owner-rewrite"})
	Expect(err).NotTo(HaveOccurred())
	return calls
}

// placements is the number of times that kcp's scheduler tried to place a workspace: once, and once more when its cache was outdated. That
// second write conflicts with the first. kcp itself can evaluate that write with an outdated cache too, and then calls warrantgate before
// it detects the conflict. The request does not show this.
func (p place) placements(name string) int {
	GinkgoHelper()
	key := fmt.Sprintf(`key="%s|%s"`, p.Cluster, name)
	placements := 0
	for line := range strings.Lines(suite.Log(p.Server)) {
		if strings.Contains(line, `"patching *v1alpha1.Workspace"`) && strings.Contains(line, key) &&
			strings.Contains(line, "internal.tenancy.kcp.io/cluster") {
			placements++
		}
	}
	AddReportEntry("placements", placements)
	return placements
}
