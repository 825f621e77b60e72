//go:build e2e

package repair_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// printed matches a command that explain prints.
var printed = regexp.MustCompile("`((?:kubectl )?warrantgate repair [^`]*)`")

// An administrator of "kcp start", whose kubeconfig has the current context root, explains a stuck workspace, and runs what explain prints.
var _ = Describe("the command that warrantgate explain prints", func() {
	// shell runs a command with the kubeconfig that kcp has written, and with the program as warrantgate and as a plugin of kubectl in PATH.
	shell := func(ctx context.Context, command string) string {
		GinkgoHelper()
		dir := GinkgoT().TempDir()
		for _, name := range []string{"warrantgate", "kubectl-warrantgate"} {
			Expect(os.Symlink(suite.Binary(asset.Warrantgate), filepath.Join(dir, name))).To(Succeed())
		}
		sh := exec.CommandContext(ctx, "sh", "-c", command)
		sh.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+kcp.AdminKubeconfig())
		output, _ := sh.CombinedOutput()
		return string(output)
	}
	DescribeTable("repairs the workspace at once", func(ctx SpecContext, explain string) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)
		explained := shell(ctx, explain+" "+p.Path+":child")
		Expect(explained).To(ContainSubstring("OwnerForeign"))
		command := printed.FindStringSubmatch(explained)
		Expect(command).NotTo(BeNil(), explained)
		Expect(command[1]).To(HavePrefix(regexp.MustCompile("^(kubectl )?warrantgate ").FindString(explain)))

		before := atRest(ctx, p, child)
		dryRun := shell(ctx, command[1]+" --dry-run")
		Expect(dryRun).To(MatchRegexp(`(?m)^WORKSPACE +PHASE +OUTCOME +MESSAGE\n%s:child +Initializing +foreign +service account "system:serviceaccount:default:bot"`, p.Path))
		Expect(versions(ctx, p, child)).To(Equal(before))
		output := shell(ctx, command[1])
		Expect(output).To(MatchRegexp(p.Path + ":child +Initializing +repaired "))
		p.WaitReady(ctx, "child")
		suite.ExpectAtHome(ctx, p.bot, child.Spec.Cluster)
	},
		Entry("with the kubeconfig of the environment", "warrantgate explain workspace", SpecTimeout(specTimeout)),
		Entry("with a kubeconfig and its current context", `warrantgate explain workspace --kubeconfig="$KUBECONFIG"`, SpecTimeout(specTimeout)),
		Entry("as a plugin of kubectl", `kubectl warrantgate explain workspace --kubeconfig="$KUBECONFIG" --context=root`, SpecTimeout(specTimeout)),
	)
})

var _ = Describe("warrantgate repair --dry-run", func() {
	It("fails as the repair does if the user may not write owners", func(ctx SpecContext) {
		p := newPlace(ctx)
		child := p.stuck(ctx, p.bot)
		before := atRest(ctx, p, child)
		stranger, err := kcp.KubeconfigFile("stranger", kcp.User("root", "stranger"))
		Expect(err).NotTo(HaveOccurred())
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		writers := []string{stranger}
		if lc.Spec.CreatedBy != nil { // before v0.32, an administrator may write it
			writers = append(writers, kcp.AdminKubeconfig())
		}
		for _, writer := range writers {
			tried, tryNotes, tryStatus := repair(ctx, "--under="+p.Path, "-o", "json", "--logical-cluster-kubeconfig="+writer, "--dry-run")
			out, notes, status := repair(ctx, "--under="+p.Path, "-o", "json", "--logical-cluster-kubeconfig="+writer)
			Expect([]int{tryStatus, status}).To(HaveEach(1), tryNotes+notes)
			// A user who may not read the path of a workspace gets the failures of all workspaces, of other specs too.
			failed := And(HaveField("LogicalCluster", child.Spec.Cluster), HaveField("Outcome", "failed"),
				HaveField("Message", ContainSubstring("system:kcp:external-logical-cluster-admin")))
			Expect(lines(tried)).To(ContainElement(failed))
			Expect(lines(out)).To(ContainElement(failed))
		}
		Expect(versions(ctx, p, child)).To(Equal(before))
	}, SpecTimeout(specTimeout))

	It("reports that it would retrigger a workspace that lacks nothing any more, which the repair then does", func(ctx SpecContext) {
		p := newLacking(ctx, ofCarol)
		before := atRest(ctx, p.place, p.child) // kcp tries again once it has observed the WorkspaceType
		By("finding nothing to write before the permission is granted")
		out, notes, status := repair(ctx, "--under="+p.Path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(HaveExactElements(HaveField("Outcome", "fine")))
		Expect(versions(ctx, p.place, p.child)).To(Equal(before))
		p.grant(ctx, "carol")
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(p.child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		if lc.Spec.CreatedBy == nil { // kcp v0.30 may try again by itself, before a dry run or the repair does
			_, notes, status := repair(ctx, "--under="+p.Path, "-o", "json")
			Expect(status).To(BeZero(), notes)
			p.WaitReady(ctx, "child")
			return
		}
		var tried string
		Eventually(ctx, func() []line { // kcp observes the permission with a delay
			out, notes, status := repair(ctx, "--under="+p.Path, "-o", "json", "--dry-run")
			Expect(status).To(BeZero(), notes)
			tried = out
			return lines(out)
		}).Should(HaveExactElements(And(HaveField("Outcome", "retriggered"), HaveField("Phase", string(corev1alpha1.LogicalClusterPhaseInitializing)))))
		Expect(versions(ctx, p.place, p.child)).To(Equal(before))
		out, notes, status = repair(ctx, "--under="+p.Path, "-o", "json")
		Expect(status).To(BeZero(), notes)
		Expect(lines(out)).To(Equal(lines(tried)))
		p.WaitReady(ctx, "child")
	}, SpecTimeout(specTimeout))
})

var _ = Describe("a workspace that does not exist", func() {
	It("is an error of repair and of explain", func(ctx SpecContext) {
		for _, path := range []string{"root:nowhere", "root:nowhere:child", "2bcdefghijklmnop"} {
			for _, args := range [][]string{{"--dry-run"}, nil} {
				out, notes, status := repair(ctx, append(args, "--under="+path, "-o", "json")...)
				Expect(status).To(Equal(2), path)
				Expect(out).To(BeEmpty())
				Expect(notes).To(Or(ContainSubstring("there is no workspace"), ContainSubstring(path+" could not be read")))
			}
			_, _, status := run(ctx, "explain", "workspace", path, "--kubeconfig="+kcp.AdminKubeconfig())
			Expect(status).To(Equal(2), path)
		}
		_, notes, status := repair(ctx, "--under=../root")
		Expect(status).To(Equal(2))
		Expect(notes).To(ContainSubstring(`--under: "../root" is not the path of a workspace`))
	}, SpecTimeout(specTimeout))
})
