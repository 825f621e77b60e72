//go:build e2e

package workspace_test

import (
	"context"
	"encoding/json"
	"slices"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// place is a workspace that an administrator created for one spec.
type place struct {
	server *kcptest.Server
	// path is its path from root.
	path string
	// cluster is the name of its logical cluster.
	cluster string
}

// newPlace creates a workspace under root, of type universal.
func newPlace(ctx context.Context, server *kcptest.Server) place {
	GinkgoHelper()
	name := "place-" + rand.String(6)
	_, err := kcptest.CreateWorkspace(ctx, server.Admin("root"), name)
	Expect(err).NotTo(HaveOccurred())
	ws := waitReady(ctx, server.Admin("root"), name)
	return place{server: server, path: "root:" + name, cluster: ws.Spec.Cluster}
}

// root is the parent of all others. It is shared, so objects there need unique names.
func root(server *kcptest.Server) place {
	return place{server: server, path: "root", cluster: "root"}
}

func (p place) admin() *rest.Config { return p.server.Admin(p.path) }

// client acts as an administrator.
func (p place) client() client.Client {
	GinkgoHelper()
	return suite.KCPClient(p.admin())
}

// globalName is the global name of a service account of this workspace.
func (p place) globalName(name string) string {
	return "system:kcp:serviceaccount:" + p.cluster + ":default:" + name
}

// serviceAccount creates a service account in namespace default that may create workspaces here.
func (p place) serviceAccount(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	config, err := kcptest.ServiceAccount(ctx, p.admin(), "default", name)
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, p.admin(), kcptest.ServiceAccountSubject("default", name), kcptest.CreatorRules()...)).To(Succeed())
	return config
}

// user returns a user who may create workspaces here.
func (p place) user(ctx context.Context, name string, groups ...string) *rest.Config {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, p.admin(), kcptest.User(name), kcptest.CreatorRules()...)).To(Succeed())
	return p.server.User(p.path, name, groups...)
}

// impersonated is a user that an administrator of kcp impersonates, which kcp limits to this workspace.
func (p place) impersonated(ctx context.Context, name string, groups ...string) *rest.Config {
	GinkgoHelper()
	p.user(ctx, name, groups...)
	config := p.admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config
}

// heldType creates a WorkspaceType with an initializer that is never removed. A workspace of this type never becomes Ready, so kcp never
// shortens its recorded owner to a name.
func (p place) heldType(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	return p.workspaceType(ctx, &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "held"},
		Spec:       tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true},
	})
}

// workspaceType creates a WorkspaceType here, and waits until kcp observes it. All users who may create workspaces here may use it.
func (p place) workspaceType(ctx context.Context, wt *tenancyv1alpha1.WorkspaceType) kcptest.WorkspaceOption {
	GinkgoHelper()
	ofType, err := kcptest.CreateWorkspaceType(ctx, p.admin(), p.path, wt)
	Expect(err).NotTo(HaveOccurred())
	return ofType
}

// extendingType creates a WorkspaceType that extends types of root.
func (p place) extendingType(ctx context.Context, name tenancyv1alpha1.WorkspaceTypeName, extended ...tenancyv1alpha1.WorkspaceTypeName) kcptest.WorkspaceOption {
	GinkgoHelper()
	wt := &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: string(name)}}
	for _, name := range extended {
		wt.Spec.Extend.With = append(wt.Spec.Extend.With, tenancyv1alpha1.WorkspaceTypeReference{Path: "root", Name: name})
	}
	return p.workspaceType(ctx, wt)
}

// create creates a workspace as the user of config, in its place.
func create(ctx context.Context, config *rest.Config, name string, options ...kcptest.WorkspaceOption) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.CreateWorkspace(ctx, config, name, options...)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

func waitReady(ctx context.Context, admin *rest.Config, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.WaitReady(within(ctx, readyTimeout), admin, name)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// waitSettled waits until kcp has shortened the recorded owner of a Ready workspace to its name, and returns the workspace.
func waitSettled(ctx context.Context, admin *rest.Config, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.WaitWorkspace(within(ctx, readyTimeout), admin, name, func(ws *tenancyv1alpha1.Workspace) error {
		var owner map[string]any
		if err := json.Unmarshal([]byte(ws.Annotations[kcptest.OwnerAnnotation]), &owner); err != nil {
			return err
		}
		if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseReady || len(owner) != 1 {
			return errNotYet
		}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// waitInitializing waits until the workspace has a logical cluster, and returns its name.
func (p place) waitInitializing(ctx context.Context, name string) string {
	GinkgoHelper()
	ws, err := kcptest.WaitWorkspace(within(ctx, readyTimeout), p.admin(), name, isInitializing)
	Expect(err).NotTo(HaveOccurred())
	return ws.Spec.Cluster
}

func isInitializing(ws *tenancyv1alpha1.Workspace) error {
	if ws.Spec.Cluster == "" || ws.Status.Phase != corev1alpha1.LogicalClusterPhaseInitializing {
		return errNotYet
	}
	return nil
}

// expectStuck expects that a workspace is stuck in Initializing, and that kcp logs the given reason.
func (p place) expectStuck(ctx context.Context, name, reason string) {
	GinkgoHelper()
	cluster := p.waitInitializing(ctx, name)
	Eventually(ctx, func() (string, error) {
		return p.server.InitializationError(ctx, cluster)
	}).Should(ContainSubstring(reason))
	stuck := func(g Gomega) {
		ws, err := kcptest.GetWorkspace(ctx, p.admin(), name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ws.Status.Phase).To(Equal(corev1alpha1.LogicalClusterPhaseInitializing))
		g.Expect(conditionsOf(ws)).To(ContainElement(
			"WorkspaceInitialized=False InitializerExists: Initializers still exist: [system:apibindings]"))
	}
	Eventually(ctx, stuck).Should(Succeed())
	Consistently(ctx, stuck).Should(Succeed())
}

// deniedBindings is the error of kcp for an owner that has no permission in the new workspace.
func deniedBindings(user string) string {
	return `apibindings.apis.kcp.io is forbidden: User "` + user + `" cannot create resource "apibindings" ` +
		`in API group "apis.kcp.io" at the cluster scope: access denied`
}

func conditionsOf(ws *tenancyv1alpha1.Workspace) []string {
	texts := make([]string, 0, len(ws.Status.Conditions))
	for i := range ws.Status.Conditions {
		c := &ws.Status.Conditions[i]
		texts = append(texts, string(c.Type)+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return texts
}

// recordedOwner is the owner that kcp acts as in a new workspace, from its LogicalCluster.
func (p place) recordedOwner(ctx context.Context, name string) authenticationv1.UserInfo {
	GinkgoHelper()
	cluster := p.waitInitializing(ctx, name)
	lc, err := kcptest.GetLogicalCluster(ctx, p.server.ShardAdmin(cluster))
	Expect(err).NotTo(HaveOccurred())
	return ownerOf(lc)
}

// ownerOf reads the owner as kcp does: spec.createdBy or, before v0.32, the annotation.
func ownerOf(lc *corev1alpha1.LogicalCluster) authenticationv1.UserInfo {
	GinkgoHelper()
	if by := lc.Spec.CreatedBy; by != nil {
		return authenticationv1.UserInfo{Username: by.Username, UID: by.UID, Groups: by.Groups, Extra: by.Extra}
	}
	var owner authenticationv1.UserInfo
	Expect(json.Unmarshal([]byte(lc.Annotations[kcptest.OwnerAnnotation]), &owner)).To(Succeed())
	return owner
}

// createAs creates a workspace with any owner, which only system:masters can.
func (p place) createAs(ctx context.Context, owner authenticationv1.UserInfo, name string, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	annotation, err := json.Marshal(owner)
	Expect(err).NotTo(HaveOccurred())
	create(ctx, p.server.ShardAdmin(p.path), name, append(options, kcptest.WithAnnotation(kcptest.OwnerAnnotation, string(annotation)))...)
}

// reasonsOf lists types and reasons of the Events of a workspace, each once: kcp may call the webhook twice, see placements.
func (p place) reasonsOf(ctx context.Context, ws *tenancyv1alpha1.Workspace) []string {
	GinkgoHelper()
	events, err := kcptest.Events(ctx, p.admin(), ws)
	Expect(err).NotTo(HaveOccurred())
	reasons := make([]string, 0, len(events))
	for i := range events {
		reasons = append(reasons, events[i].Type+" "+events[i].Reason)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}
