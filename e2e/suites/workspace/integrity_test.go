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
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// forgedOwner is an owner that an attacker would choose.
const forgedOwner = `{"username":"root-boss","groups":["system:masters","system:kcp:admin"]}`

// The owner of a workspace may change the Workspace, but not its recorded owner. The denial has advice.
var _ = Describe("The recorded owner of a workspace", Ordered, ContinueOnFailure, func() {
	var parent place
	var mallory *rest.Config

	BeforeAll(func(ctx SpecContext) {
		parent = newPlace(ctx)
		mallory = parent.User(ctx, "mallory")
		for _, name := range []string{"eventless", "forged"} {
			suite.CreateWorkspace(ctx, mallory, name)
		}
	}, NodeTimeout(specTimeout))

	It("has no Event about a dry run or a change of other fields", func(ctx SpecContext) {
		child := parent.WaitSettled(ctx, "eventless")
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kcptest.OwnerAnnotation, forgedOwner)
		Expect(suite.KCPClient(mallory).Patch(ctx, child.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.DryRunAll)).To(beNotAllowed)
		Expect(annotate(ctx, mallory, child.Name, "example.com/team", "red")).To(Succeed())
		parent.expectNoEvents(ctx, child)
	}, SpecTimeout(specTimeout))

	It("has few Events about many forgeries of several users", func(ctx SpecContext) {
		child := parent.WaitSettled(ctx, "forged")
		eve := suite.KCPClient(parent.User(ctx, "eve"))
		forge := func(c client.Client, i int) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q,"warrantgate.dev/a-%d":""}}}`, kcptest.OwnerAnnotation, forgedOwner, i)
			Expect(c.Patch(ctx, child.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(beNotAllowed)
		}
		for i := range 100 {
			forge(suite.KCPClient(mallory), i)
		}
		forge(eve, 0)
		by := func(g Gomega) map[string]int32 {
			events, err := kcptest.Events(ctx, parent.Admin(), child)
			g.Expect(err).NotTo(HaveOccurred())
			counts := map[string]int32{}
			for i := range events {
				user := strings.Fields(events[i].Message)[1]
				counts[user] += events[i].Count
				g.Expect(events[i].Message).To(HavePrefix("User " + user + " tried to change " + kcptest.OwnerAnnotation + ", warrantgate.dev/*: "))
			}
			return counts
		}
		// Events are written in the order of the attempts, so that of eve is the last.
		Eventually(ctx, func(g Gomega) { g.Expect(by(g)).To(HaveKey(`"eve"`)) }).Should(Succeed())
		Expect(by(Default)).To(Equal(map[string]int32{`"mallory"`: 5, `"eve"`: 1}))
	}, SpecTimeout(specTimeout))

	DescribeTable("cannot be created with an annotation of warrantgate: kcp v0.32 and later do not store it, and it is reported; before, it is denied",
		func(ctx SpecContext, as func(SpecContext, place) *rest.Config) {
			creator := as(ctx, parent)
			name := "claimed-" + rand.String(6)
			ws, err := kcptest.TryCreateWorkspace(ctx, creator, name, kcptest.WithAnnotation(kcptest.CreatedByAnnotation, "root:default:boss"),
				kcptest.WithAnnotation(kcptest.OwnerAnnotation, forgedOwner))
			if !suite.ByPolicy(kcp) {
				Expect(err).To(beNotAllowed)
				Expect(err).To(MatchError(And(ContainSubstring(kcptest.CreatedByAnnotation), ContainSubstring("out of the request"))))
				return
			}
			Expect(err).NotTo(HaveOccurred())
			Expect(ws.Annotations).NotTo(Or(HaveKey(kcptest.CreatedByAnnotation), HaveKeyWithValue(kcptest.OwnerAnnotation, ContainSubstring("root-boss"))))
			parent.expectNotRestored(ctx, name, kcptest.CreatedByAnnotation)
			ws = parent.WaitReady(ctx, name)
			Expect(ws.Annotations[kcptest.CreatedByAnnotation]).NotTo(ContainSubstring("boss"))
			lc, err := kcptest.GetLogicalCluster(ctx, parent.Server.ShardAdmin(ws.Spec.Cluster))
			Expect(err).NotTo(HaveOccurred())
			Expect(ownerOf(lc).Username).NotTo(Equal("root-boss"))
		},
		Entry("by a service account", func(ctx SpecContext, p place) *rest.Config { return p.ServiceAccount(ctx, "bot") },
			SpecTimeout(specTimeout)),
		Entry("by a user", func(SpecContext, place) *rest.Config { return mallory },
			SpecTimeout(specTimeout)),
		Entry("by an administrator of kcp", func(_ SpecContext, p place) *rest.Config { return p.Admin() },
			SpecTimeout(specTimeout)),
	)

	It("cannot be created with an annotation that warrantgate does not know", func(ctx SpecContext) {
		_, err := kcptest.TryCreateWorkspace(ctx, mallory, "unknown", kcptest.WithAnnotation("warrantgate.dev/skip", "true"))
		Expect(err).To(beNotAllowed)
		Expect(err).To(MatchError(And(ContainSubstring("warrantgate.dev/skip"), ContainSubstring("out of the request"))))
	}, SpecTimeout(specTimeout))
})

// expectNoEvents expects that no Event about a workspace was written or is about to be. Events are written in the order of their causes: a
// later forgery causes the only one.
func (p place) expectNoEvents(ctx context.Context, ws *tenancyv1alpha1.Workspace) {
	GinkgoHelper()
	Expect(annotate(ctx, p.User(ctx, "last"), ws.Name, kcptest.OwnerAnnotation, forgedOwner)).To(beNotAllowed)
	Eventually(ctx, kcptest.Events).WithArguments(p.Admin(), ws).ShouldNot(BeEmpty())
	Expect(kcptest.Events(ctx, p.Admin(), ws)).To(HaveExactElements(HaveField("Message", ContainSubstring(`User "last" tried to change`))))
}

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
