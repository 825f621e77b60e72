//go:build e2e

package workspace_test

import (
	"context"
	"fmt"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// forgedOwner is an owner that an attacker would choose.
const forgedOwner = `{"username":"root-boss","groups":["system:masters","system:kcp:admin"]}`

// The owner of a workspace may change the Workspace, but not its recorded owner. The denial has advice.
var _ = Describe("The recorded owner of a workspace", func() {
	DescribeTable("cannot be changed, and the denial names the user and the annotation, and gives advice",
		func(ctx SpecContext, key string, value any, running bool) {
			parent := newPlace(ctx, guarded)
			mallory := parent.user(ctx, "mallory")
			create(ctx, mallory, "child")
			child := waitSettled(ctx, parent.admin(), "child")
			if !running {
				stopGate()
			}

			err := annotate(ctx, mallory, "child", key, value)
			Expect(err).To(beNotAllowed)
			Expect(err).To(MatchError(And(
				ContainSubstring("mallory"), ContainSubstring(key), ContainSubstring(`workspace "child"`),
				ContainSubstring(parent.cluster),
			)))
			now, err := kcptest.GetWorkspace(ctx, parent.admin(), "child")
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Annotations).To(Equal(child.Annotations))
			if running {
				Eventually(ctx, describeWorkspace).WithArguments(parent.admin(), "child").Should(MatchRegexp(`(?m)^ +Warning +OwnerChangeDenied .*User "mallory" tried to change `))
			}
		},
		Entry("by changing it", kcptest.OwnerAnnotation, forgedOwner, true, SpecTimeout(specTimeout)),
		Entry("by removing it", kcptest.OwnerAnnotation, nil, true, SpecTimeout(specTimeout)),
		Entry("by changing its recorded creator", kcptest.CreatedByAnnotation, "alice", true, SpecTimeout(specTimeout)),
		Entry("by another annotation of warrantgate", "warrantgate.dev/skip", "true", true, SpecTimeout(specTimeout)),
		Entry("while warrantgate is down", kcptest.OwnerAnnotation, forgedOwner, false, SpecTimeout(specTimeout)),
	)

	It("has no Event about a dry run or a change of other fields", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		mallory := parent.user(ctx, "mallory")
		create(ctx, mallory, "child")
		child := waitSettled(ctx, parent.admin(), "child")
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kcptest.OwnerAnnotation, forgedOwner)
		Expect(suite.KCPClient(mallory).Patch(ctx, child.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.DryRunAll)).To(beNotAllowed)
		Expect(annotate(ctx, mallory, "child", "example.com/team", "red")).To(Succeed())
		Consistently(ctx, parent.reasonsOf).WithArguments(child).Should(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("has few Events about many forgeries of several users", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		create(ctx, parent.user(ctx, "alice"), "child")
		child := waitSettled(ctx, parent.admin(), "child")
		mallory, eve := suite.KCPClient(parent.user(ctx, "mallory")), suite.KCPClient(parent.user(ctx, "eve"))
		forge := func(c client.Client, i int) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q,"warrantgate.dev/a-%d":""}}}`, kcptest.OwnerAnnotation, forgedOwner, i)
			Expect(c.Patch(ctx, child.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(beNotAllowed)
		}
		for i := range 100 {
			forge(mallory, i)
		}
		forge(eve, 0)
		by := func(g Gomega) map[string]int32 {
			events, err := kcptest.Events(ctx, parent.admin(), child)
			g.Expect(err).NotTo(HaveOccurred())
			counts := map[string]int32{}
			for i := range events {
				user := strings.Fields(events[i].Message)[1]
				counts[user] += events[i].Count
				g.Expect(events[i].Message).To(HavePrefix("User " + user + " tried to change " + kcptest.OwnerAnnotation + ", warrantgate.dev/*: "))
			}
			return counts
		}
		want := map[string]int32{`"mallory"`: 5, `"eve"`: 1}
		Eventually(ctx, func(g Gomega) { g.Expect(by(g)).To(Equal(want)) }).Should(Succeed())
		Consistently(ctx, func(g Gomega) { g.Expect(by(g)).To(Equal(want)) }).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("does not prevent its owner from changing other fields", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		mallory := parent.user(ctx, "mallory")
		create(ctx, mallory, "child")
		Expect(annotate(ctx, mallory, "child", "example.com/team", "red")).To(Succeed())
	}, SpecTimeout(specTimeout))

	DescribeTable("cannot be created with annotations of warrantgate",
		func(ctx SpecContext, as func(SpecContext, place) *rest.Config) {
			parent := newPlace(ctx, guarded)
			_, err := kcptest.TryCreateWorkspace(ctx, as(ctx, parent), "child", kcptest.WithAnnotation(kcptest.CreatedByAnnotation, "alice"))
			Expect(err).To(beNotAllowed)
			Expect(err).To(MatchError(ContainSubstring(kcptest.CreatedByAnnotation)))
		},
		Entry("by a service account", func(ctx SpecContext, p place) *rest.Config { return p.serviceAccount(ctx, "bot") },
			SpecTimeout(specTimeout)),
		Entry("by a user", func(ctx SpecContext, p place) *rest.Config { return p.user(ctx, "mallory") },
			SpecTimeout(specTimeout)),
		Entry("by an administrator of kcp", func(_ SpecContext, p place) *rest.Config { return p.admin() },
			SpecTimeout(specTimeout)),
	)
})

// annotate patches one annotation of a workspace; nil removes it.
func annotate(ctx context.Context, config *rest.Config, name, key string, value any) error {
	GinkgoHelper()
	text := "null"
	if value != nil {
		text = fmt.Sprintf("%q", value)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, text)
	ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return suite.KCPClient(config).Patch(ctx, ws, client.RawPatch(types.MergePatchType, patch))
}

// stopGate stops warrantgate for the rest of the spec.
func stopGate() {
	GinkgoHelper()
	Expect(gate.Stop()).To(Succeed())
	DeferCleanup(gate.Start, NodeTimeout(startTimeout))
}
