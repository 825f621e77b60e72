//go:build e2e

package workspace_test

import (
	"context"
	"encoding/json"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// place is a workspace that an administrator created for one spec.
type place struct{ suite.Place }

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	return place{suite.NewPlace(ctx, kcp)}
}

// root is the parent of all others. It is shared, so objects there need unique names.
func root() place {
	return place{suite.Place{Server: kcp, Path: "root", Cluster: "root"}}
}

// heldType creates a WorkspaceType with an initializer that is never removed. A workspace of this type never becomes Ready, so kcp never
// shortens its recorded owner to a name.
func (p place) heldType(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	return p.WorkspaceType(ctx, "held", tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true})
}

// expectStuck expects that a workspace is stuck in Initializing, and that kcp logs the given reason.
func (p place) expectStuck(ctx context.Context, name, reason string) {
	GinkgoHelper()
	cluster := p.WaitInitializing(ctx, name).Spec.Cluster
	Eventually(ctx, func() (string, error) {
		return p.Server.InitializationError(ctx, cluster)
	}).Should(ContainSubstring(reason))
	stuck := func(g Gomega) {
		ws, err := kcptest.GetWorkspace(ctx, p.Admin(), name)
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
	cluster := p.WaitInitializing(ctx, name).Spec.Cluster
	lc, err := kcptest.GetLogicalCluster(ctx, p.Server.ShardAdmin(cluster))
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
	suite.CreateWorkspace(ctx, p.Server.ShardAdmin(p.Path), name, append(options, kcptest.WithAnnotation(kcptest.OwnerAnnotation, string(annotation)))...)
}
