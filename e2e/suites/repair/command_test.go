//go:build e2e

package repair_test

import (
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	kcpapi "warrantgate.dev/internal/kcp"
)

// An administrator finds workspaces that have been stuck for weeks, and repairs them by one command.
var _ = Describe("warrantgate repair", func() {
	It("makes a service account's stuck workspace Ready, and the service account has permissions in it", func(ctx SpecContext) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)

		out, notes, status := repair(ctx, "--under="+p.path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(
			HaveField("Path", p.path+":child"), HaveField("LogicalCluster", child.Spec.Cluster), HaveField("Phase", "Initializing"),
			HaveField("Outcome", "repaired"), HaveField("Reason", "ServiceAccountRewritten"), HaveField("Message", ContainSubstring(p.globalName())))))

		waitReady(ctx, p.admin(), "child")
		expectAtHome(ctx, p.bot, child.Spec.Cluster)

		By("running again, which finds no stuck workspaces")
		out, _, status = repair(ctx, "--under="+p.path, "-o", "json")
		Expect(status).To(BeZero())
		Expect(lines(out)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("repairs a scoped user's workspace", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Grant(ctx, p.admin(), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
		alice := p.admin()
		alice.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
		child := p.stuck(ctx, alice)

		out, notes, status := repair(ctx, "--under="+p.path+":child", "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(HaveField("Outcome", "repaired"), HaveField("Reason", "UserRewritten"))))
		waitReady(ctx, p.admin(), "child")
		expectAtHome(ctx, kcp.User("root", "alice"), child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("drops an administrator's warrant from the owner of a workspace that is not Ready, which serve in mode Warn reports", func(ctx SpecContext) {
		p := newPlace(ctx)
		held := p.workspaceType(ctx, &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: "held"}, Spec: tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true},
		})
		through, err := kcp.Through(ctx, kcp.Admin("root"), "tenancy.kcp.io", p.cluster, "carol")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error {
			_, err := kcptest.TryCreateWorkspace(ctx, through, "child", held)
			return err
		}).Should(Succeed())
		child := p.waitInitializing(ctx, "child")
		recorded := func() string {
			lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
			Expect(err).NotTo(HaveOccurred())
			return kcpapi.RecordedOwner(lc)
		}
		Expect(recorded()).To(ContainSubstring("system:kcp:admin"))

		serving := serve(ctx, "Warn")
		Eventually(ctx, kcptest.Describe).WithArguments(p.admin(), "child").Should(MatchRegexp(
			`Warning PrivilegedOwner: The owner was not changed, because the repair only warns: .*1 warrant had an administrator's permissions`))
		Expect(serving.Stop()).To(Succeed())
		outcome := func(args ...string) []line {
			out, notes, status := repair(ctx, append(args, "--under="+p.path, "-o", "json")...)
			Expect(status).To(BeZero(), notes)
			return lines(out)
		}
		Expect(outcome("--dry-run")).To(HaveExactElements(HaveField("Outcome", "foreign")))
		Expect(recorded()).To(ContainSubstring("system:kcp:admin"))
		Expect(outcome()).To(HaveExactElements(And(HaveField("Outcome", "repaired"), HaveField("Reason", "InScope"),
			HaveField("Message", ContainSubstring("not passed on to the owner: 1 warrant had an administrator's permissions")))))
		Expect(recorded()).To(And(ContainSubstring("carol"), Not(ContainSubstring("warrant"))))
		Expect(outcome()).To(HaveExactElements(HaveField("Outcome", "fine")))
	}, SpecTimeout(specTimeout))

	It("repairs the workspace of a service account that a GitOps tool impersonated", func(ctx SpecContext) {
		p := newPlace(ctx)
		asBot := p.admin()
		asBot.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:bot"}
		child := p.stuck(ctx, asBot)

		out, notes, status := repair(ctx, "--under="+p.path+":child", "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(HaveField("Outcome", "repaired"), HaveField("Reason", "ServiceAccountRewritten"))))
		waitReady(ctx, p.admin(), "child")
		Expect(adminsOf(ctx, child)).To(ConsistOf(p.globalName()))
		expectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("repairs a Ready workspace whose owner is the name of a service account that every user of it can create", func(ctx SpecContext) {
		p := newPlace(ctx)
		plain := p.workspaceType(ctx, &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: "plain"}})
		_, err := kcptest.CreateWorkspace(ctx, p.bot, "child", plain)
		Expect(err).NotTo(HaveOccurred())
		child := waitReady(ctx, p.admin(), "child") // without APIs to bind, kcp never acts as the owner
		Eventually(ctx, adminsOf).WithArguments(child).Should(ConsistOf("system:serviceaccount:default:bot"))
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())

		if lc.Spec.CreatedBy == nil {
			By("reporting it after kcp has removed the owner's home")
			Eventually(ctx, func() []line { // kcp shortens the owner to its name some time after Ready
				out, _, _ := repair(ctx, "--under="+p.path, "-o", "json", "--dry-run")
				return lines(out)
			}).Should(HaveExactElements(And(HaveField("Outcome", "not-correctable"), HaveField("Reason", "HomeUnknown"), HaveField("Phase", "Ready"))))
			before := atRest(ctx, p, child)
			_, notes, status := repair(ctx, "--under="+p.path)
			Expect(status).To(Equal(1))
			Expect(notes).To(ContainSubstring("0 workspaces were repaired, 1 could not be"))
			Expect(versions(ctx, p, child)).To(Equal(before))
			return
		}
		out, notes, status := repair(ctx, "--under="+p.path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(HaveField("Outcome", "repaired"), HaveField("Phase", "Ready"))))
		Expect(adminsOf(ctx, child)).To(ConsistOf(p.globalName()))
		expectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("writes nothing in a dry run, and prints the writes that it would make", func(ctx SpecContext) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)
		before := atRest(ctx, p, child)

		out, notes, status := repair(ctx, "--under="+p.path, "--dry-run")
		Expect(status).To(BeZero(), notes)
		Expect(out).To(MatchRegexp(`(?m)^WORKSPACE +PHASE +OUTCOME +MESSAGE\n%s:child +Initializing +foreign +service account "system:serviceaccount:default:bot"`, p.path))
		Expect(versions(ctx, p, child)).To(Equal(before))
	}, SpecTimeout(specTimeout))

	It("reports a workspace that is stuck for another reason, and does not change it", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Grant(ctx, p.admin(), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
		held := p.workspaceType(ctx, &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: "held"}, Spec: tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true},
		})
		_, err := kcptest.CreateWorkspace(ctx, kcp.User(p.path, "alice"), "local", held)
		Expect(err).NotTo(HaveOccurred())
		_, err = kcptest.CreateWorkspace(ctx, p.bot, "foreign", held)
		Expect(err).NotTo(HaveOccurred())
		p.waitInitializing(ctx, "local")
		p.waitInitializing(ctx, "foreign")

		var found []line
		Eventually(ctx, func() []line {
			out, _, status := repair(ctx, "--under="+p.path, "-o", "json", "--dry-run")
			Expect(status).To(BeZero())
			found = lines(out)
			return found
		}).Should(ContainElement(And(HaveField("Path", p.path+":local"), HaveField("Outcome", "fine"),
			HaveField("Message", ContainSubstring("is stuck for another reason")))))
		Expect(found).To(ContainElement(And(HaveField("Path", p.path+":foreign"), HaveField("Outcome", BeElementOf("waiting", "foreign")))))
	}, SpecTimeout(specTimeout))

	It("names the permission that its account has lost, or the group of its certificate, and writes nothing", func(ctx SpecContext) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)
		before := atRest(ctx, p, child)
		// The status is 1 if a workspace could not be repaired, and 2 if the workspaces could not be found.
		expectFailure := func(wantStatus int, want string, args ...string) {
			GinkgoHelper()
			out, notes, status := repair(ctx, append(args, "-o=json", "--under="+p.path)...)
			Expect(status).To(Equal(wantStatus), notes)
			Expect(out + notes).To(And(ContainSubstring(want), ContainSubstring("forbidden")))
			Expect(versions(ctx, p, child)).To(Equal(before), "a repair that cannot be completed must not start")
		}
		for _, lost := range []struct {
			permission, place, role, resource string
			status                            int
			want                              string
		}{
			{"to read the shards", "root", "warrantgate-repair", "apiexportendpointslices", 2,
				"find the shards (APIExportEndpointSlice tenancy.kcp.io in root)"},
			{"to list workspaces", "root", "warrantgate-repair", "apiexports/content", 2,
				"the permissions list and watch on apiexports/content of tenancy.kcp.io in root"},
			{"to read the owner of a workspace", "system:admin", "warrantgate-explain", "clusterrolebindings", 1,
				"workspace-admin is read with the permissions of `warrantgate install kcp --shard-kubeconfig`"},
		} {
			By("without the permission " + lost.permission)
			restore := removeRule(ctx, lost.place, lost.role, lost.resource)
			expectFailure(lost.status, lost.want)
			restore(ctx)
		}

		By("without the group")
		unset, err := kcp.KubeconfigFile("nobody", kcp.User("root", "nobody"))
		Expect(err).NotTo(HaveOccurred())
		expectFailure(1, "as the group system:kcp:external-logical-cluster-admin", "--logical-cluster-kubeconfig="+unset)
	}, SpecTimeout(specTimeout))
})
