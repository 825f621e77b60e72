//go:build e2e

package sharded_test

import (
	"context"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// place is a workspace on one shard that an administrator created for one spec, with a service account in it that may create
// workspaces.
type place struct {
	suite.Place
	bot *rest.Config
}

func newPlace(ctx context.Context, shard string) place {
	GinkgoHelper()
	p := place{Place: suite.NewPlace(ctx, kcp.Server, kcptest.OnShard(shard))}
	var err error
	p.bot, err = kcptest.ServiceAccountOfAllShards(ctx, p.Admin(), "default", "bot")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
	return p
}

// expectAtHome expects a workspace that the service account created to become Ready on its shard, and the service account to be able
// to write in it.
func (p place) expectAtHome(ctx context.Context, name, shard string) {
	GinkgoHelper()
	ws := p.WaitReady(ctx, name)
	Expect(ws.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, p.Cluster+":default:bot"))
	p.expectWorking(ctx, ws, shard)
}

// expectWorking expects a workspace to be on a shard, and the service account to be able to write in it.
func (p place) expectWorking(ctx context.Context, ws *tenancyv1alpha1.Workspace, shard string) {
	GinkgoHelper()
	Expect(kcp.ShardOf(ctx, ws.Spec.Cluster)).To(Equal(shard))
	suite.ExpectAtHome(ctx, p.bot, ws.Spec.Cluster)
}

// create creates a workspace on a shard, as the user of config and in its workspace.
func create(ctx context.Context, config *rest.Config, name, shard string, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	suite.CreateWorkspace(ctx, config, name, append(options, kcptest.OnShard(shard))...)
}
