//go:build e2e

package install_test

import (
	"context"
	"errors"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// waitForWarranted matches the LogicalCluster of a workspace that the initializer has not initialized.
var waitForWarranted = HaveField("Status.Initializers", ContainElement(BeEquivalentTo("root:warranted")))

// Every RBAC rule that install writes into root is necessary: for each rule, a function works with all rules, and fails without this rule.
var _ = Describe("of the RBAC rules in root", Ordered, func() {
	var (
		w *kcptest.Warrantgate
		// readingFile and writingFile are the kubeconfigs of w.
		readingFile, writingFile string
		// extending is a type that extends warranted.
		extending kcptest.WorkspaceOption
		// tried are the rules that the specs removed.
		tried []string
	)
	BeforeAll(func(ctx SpecContext) {
		var err error
		readingFile, err = kcp.KubeconfigFile("rules-reading", kcp.User("root", kcptest.WarrantgateUser))
		Expect(err).NotTo(HaveOccurred())
		writingFile, err = kcp.KubeconfigFile("rules-writing", kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
		Expect(err).NotTo(HaveOccurred())
		w = serve(ctx, "", "--logical-cluster-kubeconfig="+writingFile)
		install(ctx, w)
		extending, err = kcptest.CreateWorkspaceType(ctx, provider, "root:provider", &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: "extending"},
			Spec: tenancyv1alpha1.WorkspaceTypeSpec{Extend: tenancyv1alpha1.WorkspaceTypeExtension{With: []tenancyv1alpha1.WorkspaceTypeReference{
				{Path: "root", Name: "universal"}, {Path: "root", Name: "warranted"},
			}}},
		})
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(specTimeout))

	// without removes the rule with a resource and a verb from a role, until the caller calls the returned function or the spec
	// ends.
	without := func(ctx context.Context, role, resource, verb string) (restore func()) {
		GinkgoHelper()
		name, restore := removeRule(ctx, kcp.Admin("root"), kcp.Admin("root"), role, resource, verb)
		tried = append(tried, name)
		return restore
	}

	// restart starts serve after the Lease of an earlier start was deleted, and returns its log.
	restart := func(ctx context.Context) (logged func() string) {
		GinkgoHelper()
		Expect(w.Stop()).To(Succeed())
		root := suite.UnstructuredClient(kcp.Admin("root"))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "warrantgate-repair"}}
		Expect(client.IgnoreNotFound(root.Delete(ctx, lease))).To(Succeed())
		already := len(suite.Log(w))
		Expect(w.Start(ctx)).To(Succeed())
		return func() string { return suite.Log(w)[already:] }
	}

	// waiting is the logical cluster of a workspace that serve could not initialize. kcp before v0.32 checks the Workspace itself with
	// exponential backoff.
	var waiting string
	initialized := func(ctx context.Context) (*corev1alpha1.LogicalCluster, error) {
		return kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(waiting))
	}

	// First, because the virtual workspace caches a denial for half a minute. Meanwhile, the other specs run.
	It("one is needed to initialize workspaces of the type warranted", func(ctx SpecContext) {
		create := func(name string) {
			GinkgoHelper()
			suite.CreateWorkspace(ctx, bot, name, extending)
		}
		create("initialized")
		suite.WaitReady(ctx, provider, "initialized")

		restore := without(ctx, "warrantgate-repair", "workspacetypes", "initialize")
		create("waiting")
		Eventually(restart(ctx)).Should(ContainSubstring(`User \"warrantgate\" cannot get resource \"logicalclusters\"`))
		ws, err := kcptest.WaitWorkspace(ctx, provider, "waiting", func(ws *tenancyv1alpha1.Workspace) error {
			if ws.Spec.Cluster == "" {
				return errors.New("it has no logical cluster yet")
			}
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
		waiting = ws.Spec.Cluster
		Expect(initialized(ctx)).To(waitForWarranted)
		restore()
	}, SpecTimeout(specTimeout))

	DescribeTable("one is needed to find stuck workspaces:", func(ctx SpecContext, resource, verb, want string) {
		repair := func() error {
			_, err := w.Run(ctx, "repair", "--kubeconfig="+readingFile, "--logical-cluster-kubeconfig="+writingFile, "--dry-run")
			return err
		}
		Expect(repair()).To(Succeed())
		restore := without(ctx, "warrantgate-repair", resource, verb)
		Eventually(repair).Should(MatchError(And(ContainSubstring(want), ContainSubstring("forbidden"), ContainSubstring("exit status 2"))))
		restore()
		Eventually(repair).Should(Succeed())
	},
		Entry("to read the shards", "apiexportendpointslices", "get", "find the shards (APIExportEndpointSlice tenancy.kcp.io in root): ", SpecTimeout(specTimeout)),
		Entry("to list the workspaces", "apiexports/content", "list", "the permissions list and watch on apiexports/content of tenancy.kcp.io in root", SpecTimeout(specTimeout)),
	)

	DescribeTable("one is needed for the Lease of the repair:", func(ctx SpecContext, verb string) {
		const leads = `"this replica holds the Lease"`
		Eventually(restart(ctx)).Should(ContainSubstring(leads))
		restore := without(ctx, "warrantgate-repair", "leases", verb)
		logged := restart(ctx)
		Eventually(logged).Should(ContainSubstring("cannot " + verb + ` resource \"leases\"`))
		Expect(logged()).NotTo(ContainSubstring(leads))
		restore()
		Eventually(logged).Should(ContainSubstring(leads))
	},
		Entry("to create the Lease", "create", SpecTimeout(specTimeout)),
		Entry("to read the Lease", "get", SpecTimeout(specTimeout)),
	)

	It("one is needed, by all users, to create workspaces of the type warranted", func(ctx SpecContext) {
		create := func() error {
			ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "usable-"}}
			extending(ws)
			return suite.KCPClient(bot).Create(ctx, ws, client.DryRunAll)
		}
		Expect(create()).To(Succeed())
		restore := without(ctx, "warrantgate-warranted", "workspacetypes", "use")
		Eventually(create).Should(MatchError(ContainSubstring("forbidden")))
		restore()
		Eventually(create).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("all are sufficient again: the workspace is initialized that was not without one of them", func(ctx SpecContext) {
		restart(ctx) // which retries at once
		Eventually(ctx, initialized).ShouldNot(waitForWarranted)
	}, SpecTimeout(specTimeout))

	It("each is tested by one of these specs", func(ctx SpecContext) {
		all, _, err := kcptest.RulesPlanned(runInstall(ctx, w, "--dry-run"))
		Expect(err).NotTo(HaveOccurred())
		Expect(tried).To(ConsistOf(all))
	}, SpecTimeout(specTimeout))
})

// removeRule removes a rule from a role, until the caller calls the returned function or the spec ends. See kcptest.RemoveRule.
func removeRule(ctx context.Context, holder, where *rest.Config, role, resource, verb string) (name string, restore func()) {
	GinkgoHelper()
	removed, err := kcptest.RemoveRule(ctx, kcptest.WarrantgateUser, holder, where, role, resource, verb)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(removed.Restore)
	return removed.Name, func() {
		GinkgoHelper()
		Expect(removed.Restore(ctx)).To(Succeed())
	}
}
