//go:build e2e

package repair_test

import (
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	kcpapi "warrantgate.dev/internal/kcp"
)

// An administrator finds workspaces that have been stuck for weeks, and repairs them by one command.
var _ = Describe("warrantgate repair", func() {
	It("makes a service account's stuck workspace Ready, and the service account has permissions in it", func(ctx SpecContext) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)

		_, notes, _ := repair(ctx, "--under="+p.Path, "--after=1h")
		Expect(notes).To(ContainSubstring("run this command again in 1h0m0s, or with --after=0s"))
		out, notes, status := repair(ctx, "--under="+p.Path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(
			HaveField("Path", p.Path+":child"), HaveField("LogicalCluster", child.Spec.Cluster), HaveField("Phase", "Initializing"),
			HaveField("Outcome", "repaired"), HaveField("Reason", "ServiceAccountRewritten"), HaveField("Message", ContainSubstring(p.GlobalName("bot"))))))

		p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)

		By("running again, which finds no stuck workspaces")
		out, _, status = repair(ctx, "--under="+p.Path, "-o", "json")
		Expect(status).To(BeZero())
		Expect(lines(out)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("repairs a scoped user's workspace", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
		alice := p.Admin()
		alice.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
		child := p.stuck(ctx, alice)

		out, notes, status := repair(ctx, "--under="+p.Path+":child", "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(HaveField("Outcome", "repaired"), HaveField("Reason", "UserRewritten"))))
		p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, kcp.User("root", "alice"), child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("drops an administrator's warrant from the owner of a workspace that is not Ready, which serve in mode Warn reports", func(ctx SpecContext) {
		p := newPlace(ctx)
		held := p.WorkspaceType(ctx, "held", tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true})
		through, err := kcp.Through(ctx, kcp.Admin("root"), "tenancy.kcp.io", p.Cluster, "carol")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error {
			_, err := kcptest.TryCreateWorkspace(ctx, through, "child", held)
			return err
		}).Should(Succeed())
		child := p.WaitInitializing(ctx, "child")
		recorded := func() string {
			lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
			Expect(err).NotTo(HaveOccurred())
			return kcpapi.RecordedOwner(lc)
		}
		Expect(recorded()).To(ContainSubstring("system:kcp:admin"))

		serving := serve(ctx, "Warn")
		Eventually(ctx, kcptest.Describe).WithArguments(p.Admin(), "child").Should(MatchRegexp(
			`Warning PrivilegedOwner: The owner was not changed, because the repair only warns: .*1 warrant had an administrator's permissions`))
		Expect(serving.Stop()).To(Succeed())
		outcome := func(args ...string) []line {
			out, notes, status := repair(ctx, append(args, "--under="+p.Path, "-o", "json")...)
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
		asBot := p.Admin()
		asBot.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:bot"}
		child := p.stuck(ctx, asBot)

		By("naming the workspace by its logical cluster")
		out, notes, status := repair(ctx, "--under="+child.Spec.Cluster, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(HaveField("Outcome", "repaired"), HaveField("Reason", "ServiceAccountRewritten"))))
		p.WaitReady(ctx, "child")
		Expect(adminsOf(ctx, child)).To(ConsistOf(p.GlobalName("bot")))
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("repairs a Ready workspace whose owner is the name of a service account that every user of it can create", func(ctx SpecContext) {
		p := newPlace(ctx)
		plain := p.WorkspaceType(ctx, "plain", tenancyv1alpha1.WorkspaceTypeSpec{})
		suite.CreateWorkspace(ctx, p.bot, "child", plain)
		child := p.WaitReady(ctx, "child") // without APIs to bind, kcp never acts as the owner
		Eventually(ctx, adminsOf).WithArguments(child).Should(ConsistOf("system:serviceaccount:default:bot"))
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())

		if lc.Spec.CreatedBy == nil {
			By("reporting it after kcp has removed the owner's home")
			Eventually(ctx, func() []line { // kcp shortens the owner to its name some time after Ready
				out, _, _ := repair(ctx, "--under="+p.Path, "-o", "json", "--dry-run")
				return lines(out)
			}).Should(HaveExactElements(And(HaveField("Outcome", "not-correctable"), HaveField("Reason", "HomeUnknown"), HaveField("Phase", "Ready"))))
			before := atRest(ctx, p, child)
			_, notes, status := repair(ctx, "--under="+p.Path)
			Expect(status).To(Equal(1))
			Expect(notes).To(ContainSubstring("0 workspaces were repaired, 1 could not be"))
			Expect(versions(ctx, p, child)).To(Equal(before))
			return
		}
		out, notes, status := repair(ctx, "--under="+p.Path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(And(HaveField("Outcome", "repaired"), HaveField("Phase", "Ready"))))
		Expect(adminsOf(ctx, child)).To(ConsistOf(p.GlobalName("bot")))
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("reports a workspace that is stuck for another reason, and does not change it", func(ctx SpecContext) {
		p := newPlace(ctx)
		Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
		held := p.WorkspaceType(ctx, "held", tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true})
		suite.CreateWorkspace(ctx, kcp.User(p.Path, "alice"), "local", held)
		suite.CreateWorkspace(ctx, p.bot, "foreign", held)
		p.WaitInitializing(ctx, "local")
		p.WaitInitializing(ctx, "foreign")

		var found []line
		Eventually(ctx, func() []line {
			out, _, status := repair(ctx, "--under="+p.Path, "-o", "json", "--dry-run")
			Expect(status).To(BeZero())
			found = lines(out)
			return found
		}).Should(ContainElement(And(HaveField("Path", p.Path+":local"), HaveField("Outcome", "fine"),
			HaveField("Message", ContainSubstring("is stuck for another reason")))))
		Expect(found).To(ContainElement(And(HaveField("Path", p.Path+":foreign"), HaveField("Outcome", BeElementOf("waiting", "foreign")))))
	}, SpecTimeout(specTimeout))
})
