//go:build e2e

package repair_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// place is a workspace that an administrator created for one spec, with a service account in it that may create workspaces.
type place struct {
	suite.Place
	bot *rest.Config
}

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	p := suite.NewPlace(ctx, kcp)
	return place{Place: p, bot: p.ServiceAccount(ctx, "bot")}
}

// extending creates a WorkspaceType that extends warranted.
func (p place) extending(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	return p.ExtendingType(ctx, "extending", "universal", "warranted")
}

// adminsOf are the users that kcp has made administrators of a workspace.
func adminsOf(ctx context.Context, ws *tenancyv1alpha1.Workspace) ([]string, error) {
	c, err := kcptest.NewClient(kcp.ShardAdmin(ws.Spec.Cluster))
	if err != nil {
		return nil, err
	}
	var binding rbacv1.ClusterRoleBinding
	if err := c.Get(ctx, client.ObjectKey{Name: "workspace-admin"}, &binding); err != nil {
		return nil, err
	}
	var users []string
	for _, subject := range binding.Subjects {
		users = append(users, subject.Name)
	}
	return users, nil
}

// stuck creates a workspace "child" as a user and waits until kcp has tried and failed to act as its owner.
func (p place) stuck(ctx context.Context, as *rest.Config) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	suite.CreateWorkspace(ctx, as, "child")
	return p.waitDenied(ctx, "child")
}

// waitDenied waits until kcp has tried and failed to act as the owner of a workspace.
func (p place) waitDenied(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws := p.WaitInitializing(ctx, name)
	Eventually(ctx, func() (string, error) {
		return kcp.InitializationError(ctx, ws.Spec.Cluster)
	}).Should(Or(ContainSubstring("forbidden"), ContainSubstring("no permission to bind")))
	return ws
}

// waitScheduled waits until a workspace has a logical cluster. It may be Ready by then, if something repairs it.
func (p place) waitScheduled(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, kcptest.GetWorkspace).WithArguments(p.Admin(), name).ShouldNot(HaveField("Spec.Cluster", BeEmpty()))
}

// line is one workspace in the output of "warrantgate repair -o json".
type line struct {
	Path, LogicalCluster, Phase, Outcome, Reason, Message string
}

func lines(output string) []line {
	GinkgoHelper()
	var all []line
	for text := range strings.Lines(output) {
		var l line
		decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
		decoder.DisallowUnknownFields()
		Expect(decoder.Decode(&l)).To(Succeed(), text)
		all = append(all, l)
	}
	return all
}

// versions are the resource versions of a workspace and its logical cluster, which change with every write.
func versions(ctx context.Context, p place, ws *tenancyv1alpha1.Workspace) []string {
	GinkgoHelper()
	now, err := kcptest.GetWorkspace(ctx, p.Admin(), ws.Name)
	Expect(err).NotTo(HaveOccurred())
	lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(ws.Spec.Cluster))
	Expect(err).NotTo(HaveOccurred())
	return []string{now.ResourceVersion, lc.ResourceVersion}
}

// atRest waits until kcp no longer writes a stuck workspace, and returns its resource versions.
func atRest(ctx context.Context, p place, ws *tenancyv1alpha1.Workspace) []string {
	GinkgoHelper()
	var before []string
	Eventually(ctx, func() bool {
		now := versions(ctx, p, ws)
		same := slices.Equal(before, now)
		before = now
		return same
	}).WithPolling(stuckTime).Should(BeTrue())
	return before
}
