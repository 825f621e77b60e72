//go:build e2e

package suite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/internal/kcp"
)

// workspaceTimeout is far longer than a workspace takes to become Ready. The longest waits are for a shard that restarted.
const workspaceTimeout = 3 * time.Minute

var errNotYet = errors.New("not yet")

// Place is a workspace that an administrator created for a spec.
type Place struct {
	Server *kcptest.Server
	// Path is its path from root, Cluster the name of its logical cluster.
	Path, Cluster string
}

// NewPlace creates a workspace below root with what a parent of workspaces needs: their API, and the namespace for their Events. One of type
// universal has more, and takes kcp half as long again.
func NewPlace(ctx context.Context, server *kcptest.Server, options ...kcptest.WorkspaceOption) Place {
	GinkgoHelper()
	root, name := server.Admin("root"), "place-"+rand.String(6)
	ofType, err := kcptest.CreateWorkspaceType(ctx, root, "root", &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "place"},
		Spec: tenancyv1alpha1.WorkspaceTypeSpec{
			DefaultAPIBindings:        []tenancyv1alpha1.APIExportReference{{Path: "root", Export: tenancyv1alpha1.SchemeGroupVersion.Group}},
			DefaultChildWorkspaceType: &tenancyv1alpha1.WorkspaceTypeReference{Path: "root", Name: "universal"},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	ws := ReadyWorkspace(ctx, root, name, append(options, ofType)...)
	p := Place{Server: server, Path: "root:" + name, Cluster: ws.Spec.Cluster}
	Eventually(ctx, func() error { // kcp reports a workspace as Ready somewhat before it serves the bound APIs
		return p.Client().List(ctx, &tenancyv1alpha1.WorkspaceList{})
	}).Should(Succeed())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
	Expect(client.IgnoreAlreadyExists(p.Client().Create(ctx, namespace))).To(Succeed())
	return p
}

// Admin is an administrator of kcp in this workspace.
func (p Place) Admin() *rest.Config { return p.Server.Admin(p.Path) }

// Client acts as an administrator.
func (p Place) Client() client.Client {
	GinkgoHelper()
	return KCPClient(p.Admin())
}

// GlobalName is the global name of a service account of namespace default.
func (p Place) GlobalName(account string) string {
	return "system:kcp:serviceaccount:" + p.Cluster + ":default:" + account
}

// ServiceAccount creates a service account in namespace default that may create workspaces here.
func (p Place) ServiceAccount(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	config, err := kcptest.ServiceAccount(ctx, p.Admin(), metav1.NamespaceDefault, name)
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.ServiceAccountSubject(metav1.NamespaceDefault, name), kcptest.CreatorRules()...)).To(Succeed())
	return config
}

// User returns a user who may create workspaces here.
func (p Place) User(ctx context.Context, name string, groups ...string) *rest.Config {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User(name), kcptest.CreatorRules()...)).To(Succeed())
	return p.Server.User(p.Path, name, groups...)
}

// RequireGroups denies access to this workspace to users who are not in the groups. kcp observes it a moment later. Workspaces that are created
// here after that require the groups, too.
func (p Place) RequireGroups(ctx context.Context, groups string) {
	GinkgoHelper()
	shard := p.Server.ShardAdmin(p.Path)
	lc, err := kcptest.GetLogicalCluster(ctx, shard)
	Expect(err).NotTo(HaveOccurred())
	before := lc.DeepCopy()
	metav1.SetMetaDataAnnotation(&lc.ObjectMeta, kcp.RequiredGroupsAnnotation, groups)
	Expect(KCPClient(shard).Patch(ctx, lc, client.MergeFrom(before))).To(Succeed())
}

// Impersonated is a user that an administrator of kcp impersonates. kcp limits it to this workspace. The user may create workspaces here.
func (p Place) Impersonated(ctx context.Context, name string, groups ...string) *rest.Config {
	GinkgoHelper()
	p.User(ctx, name, groups...)
	config := p.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config
}

// WorkspaceType creates a WorkspaceType here, and waits until kcp observes it. All users who may create workspaces here may use it.
func (p Place) WorkspaceType(ctx context.Context, name string, spec tenancyv1alpha1.WorkspaceTypeSpec) kcptest.WorkspaceOption {
	GinkgoHelper()
	wt := &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	ofType, err := kcptest.CreateWorkspaceType(ctx, p.Admin(), p.Path, wt)
	Expect(err).NotTo(HaveOccurred())
	return ofType
}

// ExtendingType creates a WorkspaceType that extends types of root.
func (p Place) ExtendingType(ctx context.Context, name string, extended ...tenancyv1alpha1.WorkspaceTypeName) kcptest.WorkspaceOption {
	GinkgoHelper()
	var spec tenancyv1alpha1.WorkspaceTypeSpec
	for _, of := range extended {
		spec.Extend.With = append(spec.Extend.With, tenancyv1alpha1.WorkspaceTypeReference{Path: "root", Name: of})
	}
	return p.WorkspaceType(ctx, name, spec)
}

// CreateWorkspace creates a workspace as a user, in the workspace of config.
func CreateWorkspace(ctx context.Context, config *rest.Config, name string, options ...kcptest.WorkspaceOption) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.CreateWorkspace(ctx, config, name, options...)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// ReadyWorkspace creates a workspace as a user, in the workspace of config, and waits until it is Ready.
func ReadyWorkspace(ctx context.Context, config *rest.Config, name string, options ...kcptest.WorkspaceOption) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	CreateWorkspace(ctx, config, name, options...)
	return WaitReady(ctx, config, name)
}

// WaitReady waits until a workspace is Ready.
func WaitReady(ctx context.Context, config *rest.Config, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	ws, err := kcptest.WaitReady(ctx, config, name)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// WaitReady waits until a workspace below this one is Ready.
func (p Place) WaitReady(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	return WaitReady(ctx, p.Admin(), name)
}

// WaitWorkspace waits until a workspace below this one is in a state.
func (p Place) WaitWorkspace(ctx context.Context, name string, state func(*tenancyv1alpha1.Workspace) bool) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	ws, err := kcptest.WaitWorkspace(ctx, p.Admin(), name, func(ws *tenancyv1alpha1.Workspace) error {
		if !state(ws) {
			return errNotYet
		}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// WaitInitializing waits until a workspace below this one has a logical cluster and is Initializing.
func (p Place) WaitInitializing(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	return p.WaitWorkspace(ctx, name, func(ws *tenancyv1alpha1.Workspace) bool {
		return ws.Spec.Cluster != "" && ws.Status.Phase == corev1alpha1.LogicalClusterPhaseInitializing
	})
}

// WaitSettled waits until a workspace below this one is Ready and kcp has shortened its recorded owner to its name.
func (p Place) WaitSettled(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	return p.WaitWorkspace(ctx, name, func(ws *tenancyv1alpha1.Workspace) bool {
		var owner map[string]any
		err := json.Unmarshal([]byte(ws.Annotations[kcptest.OwnerAnnotation]), &owner)
		return err == nil && len(owner) == 1 && ws.Status.Phase == corev1alpha1.LogicalClusterPhaseReady
	})
}

// Reasons lists types and reasons of the Events of a workspace below this one, each once: kcp evaluates the scheduler's update again after a
// conflict, and each evaluation has an Event.
func (p Place) Reasons(ctx context.Context, ws *tenancyv1alpha1.Workspace) ([]string, error) {
	events, err := kcptest.Events(ctx, p.Admin(), ws)
	reasons := make([]string, 0, len(events))
	for i := range events {
		reasons = append(reasons, events[i].Type+" "+events[i].Reason)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons), err
}

// DescribeWorkspace is the output of "kubectl describe workspace".
func DescribeWorkspace(config *rest.Config, name string) (string, error) {
	return KubectlDescribe(config, tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"), "", name)
}

// CreateNamespace creates a namespace in a workspace, for which a user needs the permission to write there.
func CreateNamespace(ctx context.Context, user *rest.Config, workspace string) error {
	GinkgoHelper()
	return KCPClient(kcptest.In(user, workspace)).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "work-"}})
}

// ExpectAtHome expects a user to be able to write in a workspace. kcp writes the ClusterRoleBinding workspace-admin shortly after a workspace is
// Ready, and observes it shortly after that.
func ExpectAtHome(ctx context.Context, user *rest.Config, workspace string) {
	GinkgoHelper()
	Eventually(ctx, func() error { return CreateNamespace(ctx, user, workspace) }).Should(Succeed())
}

// ExpectLockedOut expects that a user may not write in a workspace. kcp must already observe the permissions of another user there; see
// ExpectAtHome.
func ExpectLockedOut(ctx context.Context, user *rest.Config, workspace string) {
	GinkgoHelper()
	err := CreateNamespace(ctx, user, workspace)
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
}
