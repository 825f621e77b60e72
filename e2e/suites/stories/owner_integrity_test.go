//go:build e2e

package stories_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// forgedOwner is an owner that an attacker would choose.
const forgedOwner = `{"username":"root-boss","groups":["system:masters","system:kcp:admin"]}`

// Nobody can forge, change or remove the recorded owner, also while warrantgate is down. Mallory owns the workspace.
var _ = Describe("Owner integrity", func() {
	DescribeTable("denies a change, with user, annotation, workspace and advice",
		func(ctx SpecContext, key string, value any) {
			p := newPlace(ctx)
			mallory := p.User(ctx, "mallory")
			p.create(ctx, mallory)
			child := p.WaitSettled(ctx, "child")

			err := annotate(ctx, mallory, key, value)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(And(
				ContainSubstring("mallory"), ContainSubstring(key), ContainSubstring(`workspace "child"`), ContainSubstring(p.Cluster),
			)))
			now, err := kcptest.GetWorkspace(ctx, p.Admin(), "child")
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Annotations).To(Equal(child.Annotations))

			By("kubectl describe shows it")
			Eventually(suite.DescribeWorkspace).WithArguments(p.Admin(), "child").Should(MatchRegexp(`(?m)^ +Warning +OwnerChangeDenied .*User "mallory" tried to change `))
		},
		Entry("of the owner", kcptest.OwnerAnnotation, forgedOwner, SpecTimeout(specTimeout)),
		Entry("of the recorded creator", kcptest.CreatedByAnnotation, "alice", SpecTimeout(specTimeout)),
		Entry("of another annotation of warrantgate", "warrantgate.dev/skip", "true", SpecTimeout(specTimeout)),
	)

	It("denies a change while warrantgate is down", func(ctx SpecContext) {
		p := newPlace(ctx)
		mallory := p.User(ctx, "mallory")
		p.create(ctx, mallory)
		p.WaitSettled(ctx, "child")
		Expect(kcp.gate.Stop()).To(Succeed())
		DeferCleanup(kcp.gate.Start, NodeTimeout(startTimeout))
		err := annotate(ctx, mallory, kcptest.OwnerAnnotation, forgedOwner)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(specTimeout))

	It("keeps what an update leaves out", func(ctx SpecContext) {
		p := newPlace(ctx)
		p.create(ctx, p.bot)
		child := p.WaitSettled(ctx, "child")
		for _, key := range []string{kcptest.OwnerAnnotation, kcptest.CreatedByAnnotation} {
			Expect(annotate(ctx, p.bot, key, nil)).To(Succeed(), key)
		}
		now, err := kcptest.GetWorkspace(ctx, p.Admin(), "child")
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).To(Equal(child.Annotations))
	}, SpecTimeout(specTimeout))

	It("does not prevent an owner from changing other annotations", func(ctx SpecContext) {
		p := newPlace(ctx)
		carol := p.User(ctx, "carol")
		p.create(ctx, carol)
		Expect(annotate(ctx, carol, "example.com/team", "red")).To(Succeed())
	}, SpecTimeout(specTimeout))
})
