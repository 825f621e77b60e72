//go:build e2e

package repair_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

// place is a workspace that an administrator created for one spec, with a service account in it that may create workspaces.
type place struct {
	path, cluster string
	bot           *rest.Config
}

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	name := "place-" + rand.String(6)
	_, err := kcptest.CreateWorkspace(ctx, kcp.Admin("root"), name)
	Expect(err).NotTo(HaveOccurred())
	ws := waitReady(ctx, kcp.Admin("root"), name)
	p := place{path: "root:" + name, cluster: ws.Spec.Cluster}
	p.bot, err = kcptest.ServiceAccount(ctx, p.admin(), "default", "bot")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, p.admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
	return p
}

func (p place) admin() *rest.Config { return kcp.Admin(p.path) }

func (p place) globalName() string { return "system:kcp:serviceaccount:" + p.cluster + ":default:bot" }

// workspaceType creates a WorkspaceType here, and waits until kcp observes it.
func (p place) workspaceType(ctx context.Context, wt *tenancyv1alpha1.WorkspaceType) kcptest.WorkspaceOption {
	GinkgoHelper()
	ofType, err := kcptest.CreateWorkspaceType(ctx, p.admin(), p.path, wt)
	Expect(err).NotTo(HaveOccurred())
	return ofType
}

// extending creates a WorkspaceType that extends warranted.
func (p place) extending(ctx context.Context) kcptest.WorkspaceOption {
	GinkgoHelper()
	return p.workspaceType(ctx, &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "extending"},
		Spec: tenancyv1alpha1.WorkspaceTypeSpec{Extend: tenancyv1alpha1.WorkspaceTypeExtension{With: []tenancyv1alpha1.WorkspaceTypeReference{
			{Path: "root", Name: "universal"}, {Path: "root", Name: "warranted"},
		}}},
	})
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
	_, err := kcptest.CreateWorkspace(ctx, as, "child")
	Expect(err).NotTo(HaveOccurred())
	return p.waitDenied(ctx, "child")
}

// waitDenied waits until kcp has tried and failed to act as the owner of a workspace.
func (p place) waitDenied(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws := p.waitInitializing(ctx, name)
	Eventually(ctx, func() (string, error) {
		return kcp.InitializationError(ctx, ws.Spec.Cluster)
	}).Should(Or(ContainSubstring("forbidden"), ContainSubstring("no permission to bind")))
	return ws
}

func (p place) waitInitializing(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	var ws *tenancyv1alpha1.Workspace
	Eventually(ctx, func(g Gomega) {
		var err error
		ws, err = kcptest.GetWorkspace(ctx, p.admin(), name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ws.Spec.Cluster).NotTo(BeEmpty())
		g.Expect(ws.Status.Phase).To(Equal(corev1alpha1.LogicalClusterPhaseInitializing))
	}).Should(Succeed())
	return ws
}

// waitScheduled waits until a workspace has a logical cluster. It may be Ready by then, if something repairs it.
func (p place) waitScheduled(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, kcptest.GetWorkspace).WithArguments(p.admin(), name).ShouldNot(HaveField("Spec.Cluster", BeEmpty()))
}

func waitReady(ctx context.Context, admin *rest.Config, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	ws, err := kcptest.WaitReady(ctx, admin, name)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// expectAtHome expects a user to be able to work in a workspace.
func expectAtHome(ctx context.Context, user *rest.Config, cluster string) {
	GinkgoHelper()
	c, err := kcptest.NewClient(kcptest.In(user, cluster))
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func() error {
		return c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-by-its-owner-"}})
	}).Should(Succeed())
}

// removeRule removes the rule on a resource from a role that install created, until restore is called or the spec ends.
func removeRule(ctx context.Context, place, role, resource string) (restore func(context.Context)) {
	GinkgoHelper()
	admin, err := kcptest.NewClient(kcp.ShardAdmin(place))
	Expect(err).NotTo(HaveOccurred())
	// kcp may write the role too.
	change := func(ctx context.Context, to func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			object := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}}
			if err := admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			object.Rules = to(object.Rules)
			return admin.Update(ctx, object)
		})).To(Succeed())
	}
	var original []rbacv1.PolicyRule
	var removed rbacv1.PolicyRule
	restore = func(ctx context.Context) {
		GinkgoHelper()
		change(ctx, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return original })
		Eventually(ctx, may).WithArguments(ctx, removed).Should(BeTrue())
	}
	change(ctx, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		at := slices.IndexFunc(rules, func(rule rbacv1.PolicyRule) bool { return slices.Equal(rule.Resources, []string{resource}) })
		Expect(at).NotTo(Equal(-1), "%s has no rule on %s alone", role, resource)
		original, removed = slices.Clone(rules), rules[at]
		return slices.Delete(slices.Clone(rules), at, at+1)
	})
	DeferCleanup(restore)
	Eventually(ctx, may).WithArguments(ctx, removed).Should(BeFalse())
	return restore
}

// may reports whether a rule is allowed for the account that warrantgate serves as.
func may(ctx context.Context, rule rbacv1.PolicyRule) (bool, error) {
	root, err := kcptest.NewClient(kcp.Admin("root"))
	if err != nil {
		return false, err
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: account, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: rule.Verbs[0], Group: rule.APIGroups[0], Version: "*", Resource: resource, Subresource: subresource,
			Name: strings.Join(rule.ResourceNames, ""),
		},
	}}
	err = root.Create(ctx, review)
	return review.Status.Allowed, err
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
	now, err := kcptest.GetWorkspace(ctx, p.admin(), ws.Name)
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
