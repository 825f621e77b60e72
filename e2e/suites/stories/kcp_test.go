//go:build e2e

package stories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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

// kcpWorld is a kcp with warrantgate.
type kcpWorld struct {
	server *kcptest.Server
	gate   *kcptest.Warrantgate
	// early is a workspace with the Workspace "stuck" of its service account, which is older than warrantgate.
	early place
}

func (w *kcpWorld) start(ctx context.Context) {
	GinkgoHelper()
	var err error
	w.server, err = kcptest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	w.early = newPlace(ctx)
	suite.CreateWorkspace(ctx, w.early.bot, "stuck")
	w.early.WaitInitializing(ctx, "stuck")
	writing, err := w.server.KubeconfigFile("writing", w.server.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
	Expect(err).NotTo(HaveOccurred())
	w.gate, err = kcptest.StartWarrantgate(ctx, w.server, kcptest.WarrantgateOptions{
		Configuration: "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\nrepair: {after: 1s}\n",
		Args:          []string{"--logical-cluster-kubeconfig=" + writing},
	})
	Expect(err).NotTo(HaveOccurred())
}

func (w *kcpWorld) stop() (err error) {
	if w.gate != nil {
		err = w.gate.Stop()
	}
	if w.server != nil {
		err = errors.Join(err, w.server.Stop())
	}
	return err
}

// place is a workspace with a service account "bot" that may create workspaces in it.
type place struct {
	suite.Place
	bot *rest.Config
}

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	p := suite.NewPlace(ctx, kcp.server)
	return place{Place: p, bot: p.ServiceAccount(ctx, "bot")}
}

// create creates the Workspace "child" as a user of this workspace.
func (p place) create(ctx context.Context, as *rest.Config, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	suite.CreateWorkspace(ctx, as, "child", options...)
}

// explain runs "warrantgate explain workspace" as an administrator.
func (p place) explain(ctx context.Context, name string) suite.Output {
	GinkgoHelper()
	return suite.Warrantgate(ctx, "explain", "workspace", p.Path+":"+name, "--kubeconfig="+p.Server.AdminKubeconfig(), "--context=root")
}

// annotate patches one annotation of the Workspace "child"; nil removes it.
func annotate(ctx context.Context, as *rest.Config, key string, value any) error {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, text))
	return suite.KCPClient(as).Patch(ctx, &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "child"}}, patch)
}
