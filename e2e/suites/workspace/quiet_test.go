//go:build e2e

package workspace_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// quietTime is how long a workspace is observed that nobody writes any more.
var quietTime = time.Duration(volume.Of(0, 10)) * time.Second

// quiet is the number of workspaces that need no rewrite.
var quiet = volume.Of(10, 100)

// Workspaces of other users are not affected: no call of the webhook, no change, and no write once a workspace is Ready.
var _ = Describe("warrantgate", func() {
	It("is not called for the workspaces of users and administrators, and does not change them", func(ctx SpecContext) {
		parent := newPlace(ctx)
		held := parent.heldType(ctx)
		calls := rewriteCalls(ctx)
		creators := []*rest.Config{
			parent.User(ctx, "alice"), parent.User(ctx, "https://issuer.example.com#carol", "team-a"), parent.Admin(),
		}
		recorded := map[string]string{}
		for i := range quiet {
			name := fmt.Sprintf("child-%d", i)
			recorded[name] = suite.CreateWorkspace(ctx, creators[i%len(creators)], name, held).Annotations[kcptest.OwnerAnnotation]
			Expect(recorded[name]).NotTo(BeEmpty())
		}
		for name, owner := range recorded {
			// Not within readyTimeout: on a busy machine, kcp may reach the last of many later.
			ws := parent.WaitInitializing(ctx, name)
			Expect(ws.Annotations[kcptest.OwnerAnnotation]).To(Equal(owner))
			Expect(ws.Annotations).NotTo(HaveKey(kcptest.CreatedByAnnotation))
		}
		Expect(rewriteCalls(ctx)).To(Equal(calls))
	}, SpecTimeout(manyWorkspaces))

	It("does not write a workspace, and neither does kcp, after it is Ready and kcp has shortened the owner", func(ctx SpecContext) {
		parent := newPlace(ctx)
		alice := parent.User(ctx, "alice")
		suite.CreateWorkspace(ctx, parent.ServiceAccount(ctx, "bot"), "child")
		parent.WaitReady(ctx, "child")
		Eventually(func(g Gomega) {
			ws, err := kcptest.GetWorkspace(ctx, parent.Admin(), "child")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ws.Annotations).To(HaveKeyWithValue(kcptest.OwnerAnnotation, fmt.Sprintf(`{"username":%q}`, parent.GlobalName("bot"))))
		}).Should(Succeed())
		version := func() (string, error) {
			ws, err := kcptest.GetWorkspace(ctx, parent.Admin(), "child")
			if err != nil {
				return "", err
			}
			return ws.ResourceVersion, nil
		}
		settled, calls := "", 0.0
		Eventually(func(g Gomega) { // the last of kcp's own writes may still be under way
			before, err := version()
			g.Expect(err).NotTo(HaveOccurred())
			g.Consistently(version, time.Second).Should(Equal(before))
			settled, calls = before, admissionCalls(ctx)
		}).Should(Succeed())
		By("waiting until a later workspace, for which kcp does not call warrantgate, is Ready and settled, too")
		suite.CreateWorkspace(ctx, alice, "later")
		parent.WaitSettled(ctx, "later")
		Consistently(version, quietTime).Should(Equal(settled))
		Expect(admissionCalls(ctx)).To(Equal(calls))
	}, SpecTimeout(specTimeout))
})

// admissionCalls is the number of all calls of warrantgate.
func admissionCalls(ctx SpecContext) float64 {
	GinkgoHelper()
	calls, err := gate.Metric(ctx, "warrantgate_admissions_total", nil)
	Expect(err).NotTo(HaveOccurred())
	return calls
}
