//go:build e2e

package repair_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	bindingsInitializer = tenancyv1alpha1.WorkspaceAPIBindingsInitializer
	securityType        = "security"
)

// A platform team has its own initializer, which creates a namespace in each workspace of a type. kcp makes it act as the owner of the
// workspace, unless the type has initializerPermissions (KEP 0003, kcp v0.32 and later). The rows are those of the table in the README of
// the repair.
var _ = Describe("a service account's workspace of a type with the initializer of another provider", func() {
	mayMake := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"create"}}}
	}
	const asOwner = `User "system:serviceaccount:default:bot" cannot create resource "namespaces"`
	const explainedAsOwner = "%s has no initializerPermissions, so its controller acts as the owner, whose requests kcp denies"
	const explainedAsItself = "with the permissions in spec.initializerPermissions of %s and not as the owner"
	// row is a row of the table.
	type row struct {
		permissions []rbacv1.PolicyRule
		// bindings is whether the type has default API bindings.
		bindings bool
		// before and after are the initializers that the workspace waits for without and with the repair.
		before, after []string
		// denied is kcp's reason for denying the request of the initializer. explained is the output of the command explain about the
		// initializer.
		denied, explained string
	}
	DescribeTable("is stuck until the initializer has the permissions", func(ctx SpecContext, r row) {
		p := newPlace(ctx)
		wt := &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: securityType},
			Spec:       tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true, InitializerPermissions: r.permissions},
		}
		if r.bindings {
			wt.Spec.Extend.With = []tenancyv1alpha1.WorkspaceTypeReference{{Path: "root", Name: "universal"}}
		}
		ofType, err := kcptest.CreateWorkspaceType(ctx, p.Admin(), p.Path, wt)
		Expect(err).NotTo(HaveOccurred())
		if len(wt.Spec.InitializerPermissions) != len(r.permissions) {
			Expect(wt.Spec.InitializerPermissions).To(BeEmpty())
			return // this kcp does not store initializerPermissions, so no workspace can be initialized with them
		}
		security := p.runSecurity(ctx)
		suite.CreateWorkspace(ctx, p.bot, "child", ofType)

		p.expectWaiting(ctx, r.before)
		if r.denied != "" {
			Eventually(ctx, security.denial).Should(ContainSubstring(r.denied))
			explanation, _, _ := run(ctx, "explain", "workspace", p.Path+":child", "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")
			Expect(explanation).To(ContainSubstring(r.explained, p.Path+":"+securityType))
		}
		child, err := kcptest.GetWorkspace(ctx, p.Admin(), "child")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, adminsOf).WithArguments(child).Should(ConsistOf("system:serviceaccount:default:bot"), "the owner is a name that every user of the workspace can take")

		By("repairing it")
		serve(ctx, "Enforce")
		Eventually(ctx, adminsOf).WithArguments(child).Should(ConsistOf(p.GlobalName("bot")))
		p.expectWaiting(ctx, r.after)
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
	},
		Entry("without initializerPermissions, until it is repaired",
			row{before: []string{securityType}, denied: asOwner, explained: explainedAsOwner}, SpecTimeout(specTimeout)),
		Entry("without initializerPermissions and with default API bindings, until it is repaired",
			row{bindings: true, before: []string{securityType, "apibindings"}, denied: asOwner, explained: explainedAsOwner}, SpecTimeout(specTimeout)),
		Entry("with initializerPermissions and without default API bindings: not stuck, but its owner is a name that every user can take",
			row{permissions: mayMake("namespaces")}, SpecTimeout(specTimeout)),
		Entry("with initializerPermissions and default API bindings, until it is repaired",
			row{permissions: mayMake("namespaces"), bindings: true, before: []string{"apibindings"}}, SpecTimeout(specTimeout)),
		Entry("with incomplete initializerPermissions, which the repair does not change",
			row{
				permissions: mayMake("secrets"), before: []string{securityType}, after: []string{securityType},
				denied: "denied by initializerPermissions", explained: explainedAsItself,
			}, SpecTimeout(specTimeout)),
	)
})

// expectWaiting expects the workspace "child" to wait for initializers and for no others, or to be Ready if there are none.
func (p place) expectWaiting(ctx context.Context, names []string) {
	GinkgoHelper()
	if len(names) == 0 {
		p.WaitReady(ctx, "child")
		return
	}
	var want []corev1alpha1.LogicalClusterInitializer
	for _, name := range names {
		if name == securityType {
			want = append(want, p.securityInitializer())
		} else {
			want = append(want, bindingsInitializer)
		}
	}
	waiting := func(g Gomega) {
		ws, err := kcptest.GetWorkspace(ctx, p.Admin(), "child")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ws.Status.Phase).To(Equal(corev1alpha1.LogicalClusterPhaseInitializing))
		g.Expect(ws.Status.Initializers).To(ConsistOf(want))
	}
	Eventually(ctx, waiting).Should(Succeed())
	Consistently(ctx, waiting).Should(Succeed())
}

func (p place) securityInitializer() corev1alpha1.LogicalClusterInitializer {
	return corev1alpha1.LogicalClusterInitializer(p.Cluster + ":" + securityType)
}

// initializingURL is the URL of the virtual workspace with the workspaces that wait for the initializer of a WorkspaceType.
func (p place) initializingURL(ctx context.Context, ofType string) (url string) {
	GinkgoHelper()
	admin := suite.KCPClient(p.Admin())
	Eventually(ctx, func(g Gomega) {
		wt := &tenancyv1alpha1.WorkspaceType{}
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: ofType}, wt)).To(Succeed())
		for _, endpoint := range wt.Status.VirtualWorkspaces {
			if strings.Contains(endpoint.URL, "/initializingworkspaces/") {
				url = endpoint.URL
			}
		}
		g.Expect(url).NotTo(BeEmpty())
	}).Should(Succeed())
	return url
}

// security is the controller of the platform team. Its user may initialize the workspaces of its type, and has no other permission.
type security struct {
	initializer corev1alpha1.LogicalClusterInitializer
	url         string
	config      *rest.Config
	last        atomic.Pointer[string]
}

// runSecurity runs the controller until the spec ends.
func (p place) runSecurity(ctx context.Context) *security {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User(securityType), kcptest.AccessRule(),
		kcptest.Rule("tenancy.kcp.io", []string{"workspacetypes"}, []string{"get", "initialize"}))).To(Succeed())
	s := &security{initializer: p.securityInitializer(), config: kcp.User(p.Path, securityType), url: p.initializingURL(ctx, securityType)}
	suite.InBackground(ctx, func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := s.initializeAll(ctx); err != nil && ctx.Err() == nil {
				text := err.Error()
				s.last.Store(&text)
			}
		}, 2*pollInterval)
		return nil
	})
	return s
}

// denial is the last error of the controller.
func (s *security) denial() string {
	if last := s.last.Load(); last != nil {
		return *last
	}
	return ""
}

func (s *security) initializeAll(ctx context.Context) error {
	all, err := s.at(logicalcluster.Wildcard)
	if err != nil {
		return err
	}
	waiting := &corev1alpha1.LogicalClusterList{}
	if err := all.List(ctx, waiting); err != nil {
		return err
	}
	var errs []error
	for i := range waiting.Items {
		errs = append(errs, s.initialize(ctx, &waiting.Items[i]))
	}
	return errors.Join(errs...)
}

// initialize creates a namespace in a workspace, and then removes its initializer.
func (s *security) initialize(ctx context.Context, lc *corev1alpha1.LogicalCluster) error {
	c, err := s.at(logicalcluster.From(lc).Path())
	if err != nil {
		return err
	}
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: securityType}}); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	before := lc.DeepCopy()
	lc.Status.Initializers = initialization.EnsureInitializerAbsent(s.initializer, lc.Status.Initializers)
	return c.Status().Patch(ctx, lc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// at is a client for a logical cluster, through the virtual workspace of the initializer.
func (s *security) at(cluster logicalcluster.Path) (client.Client, error) {
	config := rest.CopyConfig(s.config)
	config.Host = s.url + cluster.RequestPath()
	return kcptest.NewClient(config)
}
