//go:build e2e

package sharded_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// manyByPolicy is the number of workspaces that service accounts of one shard create on one shard.
var manyByPolicy = volume.Of(3, 13)

// Policies in root apply to the Workspaces of all shards.
var _ = Describe("On several shards, with the policies alone", func() {
	It("the workspaces of many service accounts become Ready on each shard, each owned by its creator", func(ctx SpecContext) {
		_, err := gate.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			_, err := gate.Install(ctx)
			Expect(err).NotTo(HaveOccurred())
		}, NodeTimeout(startTimeout))
		installed := asAdmin(ctx, "install", "kcp", "--policies-only")
		if byPolicy, err := kcp.HasMutatingPolicies(); !byPolicy {
			Expect(err).NotTo(HaveOccurred())
			Expect(installed.Status).To(Equal(2), installed.Stderr)
			return
		}
		Expect(installed.Status).To(BeZero(), installed.Stderr)
		Eventually(ctx, asAdmin).WithArguments("check", "admission", "kcp", "--policies-only").Should(HaveField("Status", 0))

		for _, own := range kcp.Shards() {
			home := newPlace(ctx, own)
			Expect(kcptest.Grant(ctx, home.Admin(), kcptest.Group("system:serviceaccounts"), kcptest.CreatorRules()...)).To(Succeed())
			bots := map[string]*rest.Config{}
			for _, on := range kcp.Shards() {
				for i := range manyByPolicy {
					name := fmt.Sprintf("on-%s-%d", on, i)
					bots[name], err = kcptest.ServiceAccountOfAllShards(ctx, home.Admin(), "default", name)
					Expect(err).NotTo(HaveOccurred())
					create(ctx, bots[name], name, on)
				}
			}
			for _, on := range kcp.Shards() {
				for i := range manyByPolicy {
					name := fmt.Sprintf("on-%s-%d", on, i)
					home.expectOwnedByPolicy(ctx, name, on, bots[name])
				}
			}
		}
	}, SpecTimeout(specTimeout))
})

// expectOwnedByPolicy expects that a policy has rewritten the owner of a workspace, that the service account of the same name has permissions
// in it, and that another one has none.
func (p place) expectOwnedByPolicy(ctx context.Context, name, shard string, owner *rest.Config) {
	GinkgoHelper()
	ws := p.WaitReady(ctx, name)
	Expect(ws.Annotations).To(And(HaveKeyWithValue("warrantgate.dev/rewritten-by", "policy"),
		HaveKeyWithValue(kcptest.CreatedByAnnotation, p.Cluster+":default:"+name)))
	lc, err := kcptest.GetLogicalCluster(ctx, kcp.Admin(ws.Spec.Cluster))
	Expect(err).NotTo(HaveOccurred())
	Expect(lc.Spec.CreatedBy.Username).To(Equal("system:kcp:serviceaccount:" + p.Cluster + ":default:" + name))
	other := suite.KCPClient(kcptest.In(p.bot, ws.Spec.Cluster))
	place{Place: p.Place, bot: owner}.expectWorking(ctx, ws, shard)
	Expect(other.List(ctx, &corev1.NamespaceList{})).To(WithTransform(apierrors.IsForbidden, BeTrue()), name)
}
