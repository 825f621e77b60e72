//go:build e2e

package sharded_test

import (
	"context"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
)

// place is a workspace on one shard that an administrator created for one spec, with a service account in it that may create
// workspaces.
type place struct {
	path, cluster string
	bot           *rest.Config
}

func newPlace(ctx context.Context, shard string) place {
	GinkgoHelper()
	name := "place-" + rand.String(6)
	ws := create(ctx, kcp.Admin("root"), name, shard)
	ws = waitReady(ctx, kcp.Admin("root"), ws.Name)
	p := place{path: "root:" + name, cluster: ws.Spec.Cluster}
	var err error
	p.bot, err = kcptest.ServiceAccountOfAllShards(ctx, p.admin(), "default", "bot")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, p.admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
	return p
}

func (p place) admin() *rest.Config { return kcp.Admin(p.path) }

// expectAtHome expects a workspace that the service account created to become Ready on its shard, and the service account to be able
// to write in it.
func (p place) expectAtHome(ctx context.Context, name, shard string) {
	GinkgoHelper()
	ws := waitReady(ctx, p.admin(), name)
	Expect(ws.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, p.cluster+":default:bot"))
	p.expectWorking(ctx, ws, shard)
}

// expectWorking expects a workspace to be on a shard, and the service account to be able to write in it.
func (p place) expectWorking(ctx context.Context, ws *tenancyv1alpha1.Workspace, shard string) {
	GinkgoHelper()
	Expect(kcp.ShardOf(ctx, ws.Spec.Cluster)).To(Equal(shard))
	c, err := kcptest.NewClient(kcptest.In(p.bot, ws.Spec.Cluster))
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func() error {
		return c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-by-its-owner-"}})
	}).Should(Succeed())
}

// create creates a workspace on a shard, as the user of config and in its workspace.
func create(ctx context.Context, config *rest.Config, name, shard string, options ...kcptest.WorkspaceOption) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.CreateWorkspace(ctx, config, name, append(options, kcptest.OnShard(shard))...)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

func waitReady(ctx context.Context, admin *rest.Config, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ws, err := kcptest.WaitReady(ctx, admin, name)
	Expect(err).NotTo(HaveOccurred())
	return ws
}
