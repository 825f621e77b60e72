//go:build e2e

package install_test

import (
	"context"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// Every RBAC rule that install writes into the shards is necessary, too. These rules apply to every workspace of the shard.
var _ = Describe("of the RBAC rules in the shards", Ordered, func() {
	const stuck = "root:provider:stuck"
	var (
		w                        *kcptest.Warrantgate
		readingFile, writingFile string
		// tried are the rules that the specs removed.
		tried []string
	)
	BeforeAll(func(ctx SpecContext) {
		var err error
		readingFile, err = kcp.KubeconfigFile("shard-rules-reading", kcp.User("root", kcptest.WarrantgateUser))
		Expect(err).NotTo(HaveOccurred())
		writingFile, err = kcp.KubeconfigFile("shard-rules-writing", kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
		Expect(err).NotTo(HaveOccurred())
		w = serve(ctx, "")
		install(ctx, w, "--rewrite=Webhook") // most specs need a stuck workspace, and the policy would prevent that

		export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "shard-rules.example.io"}}
		Expect(suite.KCPClient(provider).Create(ctx, export)).To(Succeed())
		binding, err := kcptest.CreateWorkspaceType(ctx, provider, "root:provider", &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: "binding"},
			Spec:       tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: "root:provider", Export: export.Name}}},
		})
		Expect(err).NotTo(HaveOccurred())
		// In the name of its owner. kcp v0.33 denies it to those without the permission to bind the APIExport (kcp-dev/kcp#4311).
		suite.CreateWorkspace(ctx, kcp.ShardAdmin("root:provider"), "stuck", binding,
			kcptest.WithAnnotation(kcptest.OwnerAnnotation, `{"username":"alice","groups":["system:authenticated"]}`))
	}, NodeTimeout(specTimeout))

	without := func(ctx context.Context, role, resource, verb string) (restore func()) {
		GinkgoHelper()
		name, restore := removeRule(ctx, kcp.ShardAdmin("system:admin"), provider, role, resource, verb)
		tried = append(tried, name)
		return restore
	}
	// explained returns the output of explain for a workspace that is not Ready, with the permissions of serve. It must never report that
	// there is no problem.
	explained := func(ctx context.Context, path string) func() string {
		return func() string {
			GinkgoHelper()
			output, err := w.Run(ctx, "explain", "workspace", path, "--kubeconfig="+readingFile)
			Expect(err).To(HaveOccurred())
			return output
		}
	}

	DescribeTable("one is needed to explain why a workspace is stuck:", func(ctx SpecContext, role, resource, verb, want string) {
		reports := And(ContainSubstring("BindPermissionMissing"), Not(ContainSubstring("Undetermined")), Not(ContainSubstring("you lack")))
		Eventually(explained(ctx, stuck)).Should(reports)
		restore := without(ctx, role, resource, verb)
		Eventually(explained(ctx, stuck)).Should(ContainSubstring(want))
		restore()
		Eventually(explained(ctx, stuck)).Should(reports)
	},
		Entry("to enter the workspace", "warrantgate-events", "/", "access", `could not be read: you lack "get"`, SpecTimeout(specTimeout)),
		Entry("to read its LogicalCluster", "warrantgate-explain", "logicalclusters", "get",
			`you lack "get" on logicalclusters.core.kcp.io in `, SpecTimeout(specTimeout)),
		Entry("to read its type", "warrantgate-explain", "workspacetypes", "get",
			`you lack "get" on workspacetypes.tenancy.kcp.io in root:provider`, SpecTimeout(specTimeout)),
		Entry("to read the APIExports that it binds", "warrantgate-explain", "apiexports", "get",
			`you lack "get" on apiexports.apis.kcp.io in root:provider`, SpecTimeout(specTimeout)),
		Entry("to list its APIBindings", "warrantgate-explain", "apibindings", "list",
			`you lack "list" on apibindings.apis.kcp.io in `, SpecTimeout(specTimeout)),
		Entry("to check who may bind these APIExports", "warrantgate-explain", "subjectaccessreviews", "create",
			`you lack "create" on subjectaccessreviews.authorization.k8s.io in root:provider`, SpecTimeout(specTimeout)),
	)

	It("one is needed to write Events", func(ctx SpecContext) {
		again := func() func() string {
			GinkgoHelper()
			Expect(w.Stop()).To(Succeed())
			already := len(suite.Log(w))
			Expect(w.Start(ctx)).To(Succeed())
			return func() string { return suite.Log(w)[already:] }
		}
		Eventually(again()).Should(ContainSubstring("Events are on"))
		restore := without(ctx, "warrantgate-events", "events", "create")
		logged := again()
		Eventually(logged).Should(ContainSubstring("Events are off; gates and controllers work without them"))
		restore()
		Eventually(logged).Should(ContainSubstring("Events are on"))
	}, SpecTimeout(specTimeout))

	It("one is needed to report a workspace that waits for warrantgate", func(ctx SpecContext) {
		Expect(w.Stop()).To(Succeed())
		suite.CreateWorkspace(ctx, bot, "unscheduled")
		const reports, path = "check whether warrantgate runs: without it, kcp may not schedule workspaces with foreign owners", "root:provider:unscheduled"
		Eventually(explained(ctx, path)).Should(ContainSubstring(reports))
		restore := without(ctx, "warrantgate-explain", "workspaces", "get")
		Eventually(explained(ctx, path)).Should(ContainSubstring(`you lack "get" on workspaces.tenancy.kcp.io in root:provider`))
		restore()
		Eventually(explained(ctx, path)).Should(ContainSubstring(reports))
		Expect(w.Start(ctx)).To(Succeed())
		suite.WaitReady(ctx, provider, "unscheduled")
	}, SpecTimeout(specTimeout))

	It("one is needed to repair workspaces that were created while warrantgate was down, with failurePolicy Ignore", func(ctx SpecContext) {
		_, err := w.Install(ctx, "--rewrite=Webhook", "--failure-policy=Ignore")
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Stop()).To(Succeed())
		suite.CreateWorkspace(ctx, bot, "foreign")
		Eventually(func() (*tenancyv1alpha1.Workspace, error) { // kcp observes a webhook configuration a moment later, and retries
			return kcptest.GetWorkspace(ctx, provider, "foreign")
		}).ShouldNot(HaveField("Spec.Cluster", BeEmpty()))
		repair := func() error {
			_, err := w.Run(ctx, "repair", "--kubeconfig="+readingFile, "--logical-cluster-kubeconfig="+writingFile, "--after=0s", "--under=root:provider:foreign")
			return err
		}
		ws, err := kcptest.GetWorkspace(ctx, provider, "foreign")
		Expect(err).NotTo(HaveOccurred())
		lc := func() (*corev1alpha1.LogicalCluster, error) {
			return kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(ws.Spec.Cluster))
		}
		before, err := lc()
		Expect(err).NotTo(HaveOccurred())
		restore := without(ctx, "warrantgate-explain", "clusterrolebindings", "get")
		Eventually(repair).Should(MatchError(And(
			ContainSubstring("workspace-admin is read with the permissions of"), ContainSubstring("forbidden"), ContainSubstring("exit status 1"))))
		Expect(lc()).To(And(HaveField("Spec", before.Spec), HaveField("Annotations", before.Annotations)), "a repair that cannot be completed must not start")
		restore()
		Eventually(repair).Should(Succeed())
		suite.WaitReady(ctx, provider, "foreign")
		Expect(w.Start(ctx)).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("each is tested by one of these specs", func(ctx SpecContext) {
		_, all, err := kcptest.RulesPlanned(runInstall(ctx, w, "--dry-run"))
		Expect(err).NotTo(HaveOccurred())
		Expect(tried).To(ConsistOf(all))
	}, SpecTimeout(specTimeout))
})
