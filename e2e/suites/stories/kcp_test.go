//go:build e2e

package stories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"
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

func (w *kcpWorld) start(ctx context.Context) (err error) {
	if w.server, err = kcptest.Start(ctx, kcptest.Options{}); err != nil {
		return err
	}
	if w.early, err = startPlace(ctx, w.server); err != nil {
		return err
	}
	if _, err = kcptest.CreateWorkspace(ctx, w.early.bot, "stuck"); err != nil {
		return err
	}
	if _, err = kcptest.WaitWorkspace(ctx, w.early.admin(), "stuck", isInitializing); err != nil {
		return err
	}
	writing, err := w.server.KubeconfigFile("writing", w.server.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
	if err != nil {
		return err
	}
	w.gate, err = kcptest.StartWarrantgate(ctx, w.server, kcptest.WarrantgateOptions{
		Configuration: "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\nrepair: {after: 1s}\n",
		Args:          []string{"--logical-cluster-kubeconfig=" + writing},
	})
	return err
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
	server        *kcptest.Server
	path, cluster string
	bot           *rest.Config
}

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	p, err := startPlace(within(ctx), kcp.server)
	Expect(err).NotTo(HaveOccurred())
	return p
}

func startPlace(ctx context.Context, server *kcptest.Server) (place, error) {
	name := "place-" + rand.String(6)
	p := place{server: server, path: "root:" + name}
	if _, err := kcptest.CreateWorkspace(ctx, server.Admin("root"), name); err != nil {
		return p, err
	}
	ws, err := kcptest.WaitReady(ctx, server.Admin("root"), name)
	if err != nil {
		return p, err
	}
	p.cluster = ws.Spec.Cluster
	if p.bot, err = kcptest.ServiceAccount(ctx, p.admin(), "default", "bot"); err != nil {
		return p, err
	}
	return p, kcptest.Grant(ctx, p.admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)
}

func (p place) admin() *rest.Config { return p.server.Admin(p.path) }

// botName is the global name of the service account.
func (p place) botName() string { return "system:kcp:serviceaccount:" + p.cluster + ":default:bot" }

// user returns a user who may create workspaces here.
func (p place) user(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	Expect(kcptest.Grant(within(ctx), p.admin(), kcptest.User(name), kcptest.CreatorRules()...)).To(Succeed())
	return p.server.User(p.path, name)
}

// workspaceType creates a WorkspaceType here.
func (p place) workspaceType(ctx context.Context, name string, spec tenancyv1alpha1.WorkspaceTypeSpec) kcptest.WorkspaceOption {
	GinkgoHelper()
	ofType, err := kcptest.CreateWorkspaceType(within(ctx), p.admin(), p.path, &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	Expect(err).NotTo(HaveOccurred())
	return ofType
}

// create creates the Workspace "child" as a user of this workspace.
func (p place) create(ctx context.Context, as *rest.Config, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	_, err := kcptest.CreateWorkspace(ctx, as, "child", options...)
	Expect(err).NotTo(HaveOccurred())
}

func (p place) waitReady(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.WaitReady(within(ctx), p.admin(), name)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// waitSettled waits until kcp has shortened the recorded owner of the Ready workspace "child" to its name.
func (p place) waitSettled(ctx context.Context) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.WaitWorkspace(within(ctx), p.admin(), "child", func(ws *tenancyv1alpha1.Workspace) error {
		var owner map[string]any
		if err := json.Unmarshal([]byte(ws.Annotations[kcptest.OwnerAnnotation]), &owner); err != nil {
			return err
		}
		if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseReady || len(owner) != 1 {
			return errors.New("not settled")
		}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
	return ws
}

func isInitializing(ws *tenancyv1alpha1.Workspace) error {
	if ws.Spec.Cluster == "" || ws.Status.Phase != corev1alpha1.LogicalClusterPhaseInitializing {
		return errors.New("not Initializing")
	}
	return nil
}

// describe is the output of "kubectl describe workspace".
func (p place) describe(name string) (string, error) {
	describer, _ := describe.GenericDescriberFor(&meta.RESTMapping{
		Resource:         tenancyv1alpha1.SchemeGroupVersion.WithResource("workspaces"),
		GroupVersionKind: tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"),
		Scope:            meta.RESTScopeRoot,
	}, p.admin())
	return describer.Describe("", name, describe.DescriberSettings{ShowEvents: true, ChunkSize: 100})
}

// explain runs "warrantgate explain workspace" as an administrator.
func (p place) explain(ctx context.Context, name string) suite.Output {
	GinkgoHelper()
	return suite.Warrantgate(ctx, "explain", "workspace", p.path+":"+name, "--kubeconfig="+p.server.AdminKubeconfig(), "--context=root")
}

// annotate patches one annotation of the Workspace "child"; nil removes it.
func annotate(ctx context.Context, as *rest.Config, key string, value any) error {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, text))
	return suite.KCPClient(as).Patch(ctx, &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "child"}}, patch)
}

// createNamespace tries to work in a workspace.
func createNamespace(ctx context.Context, as *rest.Config, cluster string) error {
	GinkgoHelper()
	return suite.KCPClient(kcptest.In(as, cluster)).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "work-"}})
}

// expectAtHome expects a user to be able to work in a workspace, once kcp has observed its permissions.
func expectAtHome(ctx context.Context, as *rest.Config, cluster string) {
	GinkgoHelper()
	Eventually(ctx, createNamespace).WithArguments(as, cluster).Should(Succeed())
}

// expectLockedOut expects a user to have no access to a workspace in which somebody else already works.
func expectLockedOut(ctx context.Context, as *rest.Config, cluster string) {
	GinkgoHelper()
	err := createNamespace(ctx, as, cluster)
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
}
