//go:build e2e

package install_test

import (
	"context"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// install registers the gates, and then sees them work, or fails.
var _ = Describe("install", func() {
	asAdmin := func(ctx context.Context, args ...string) suite.Output {
		GinkgoHelper()
		return suite.Warrantgate(ctx, append(args, "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")...)
	}
	// failing is the output of "install kcp", which must fail.
	failing := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		printed := asAdmin(ctx, append([]string{"install", "kcp"}, args...)...)
		Expect(printed.Status).To(Equal(1), printed.Stderr)
		Expect(printed.Stdout + printed.Stderr).To(And(ContainSubstring("the gates are installed, but did not work within "), Not(ContainSubstring("The gates work."))))
		return printed.Stderr
	}
	// prepare returns a warrantgate that does not run, and is uninstalled at the end.
	prepare := func(ctx context.Context, configuration string) *kcptest.Warrantgate {
		GinkgoHelper()
		w, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Configuration: configuration})
		Expect(err).NotTo(HaveOccurred())
		suite.UninstallAtEnd(w, specTimeout)
		return w
	}
	const unreached, unknownPath = "the API server cannot reach warrantgate: ", "the API server got the answer 404: "

	It("fails while nothing listens, and succeeds once serve does", func(ctx SpecContext) {
		w := prepare(ctx, "")
		Expect(failing(ctx, w.InstallArgs()...)).To(And(ContainSubstring("owner-rewrite.warrantgate.dev: "+unreached), ContainSubstring("within 30s")))
		checked := asAdmin(ctx, "check", "admission", "kcp")
		Expect(checked.Status).To(Equal(1))
		Expect(checked.Stdout).To(And(ContainSubstring(unreached), Not(ContainSubstring("--webhook-path-file"))))

		Expect(w.Start(ctx)).To(Succeed())
		Expect(runInstall(ctx, w)).To(ContainSubstring("The gates work."))
		checked = asAdmin(ctx, "check", "admission", "kcp")
		Expect(checked.Status).To(BeZero())
		Expect(checked.Stdout).To(And(ContainSubstring("warrantgate-owner-integrity: ok\n"), ContainSubstring("owner-rewrite.warrantgate.dev: ok\n")))
	}, SpecTimeout(specTimeout))

	It("fails without the token of the path, and names its flag, as check does", func(ctx SpecContext) {
		w := prepare(ctx, "")
		Expect(w.Start(ctx)).To(Succeed())
		without := slices.DeleteFunc(w.InstallArgs(), func(arg string) bool { return strings.HasPrefix(arg, "--webhook-path-file=") })
		names := And(ContainSubstring(unknownPath), ContainSubstring("run install again, with --webhook-path-file"), Not(ContainSubstring(unreached)))
		Expect(failing(ctx, append(without, "--wait=10s")...)).To(names)
		checked := asAdmin(ctx, "check", "admission", "kcp")
		Expect(checked.Status).To(Equal(1))
		Expect(checked.Stdout).To(names)
	}, SpecTimeout(specTimeout))

	It("fails if serve does not rewrite owners, or admits requests without it", func(ctx SpecContext) {
		w := prepare(ctx, "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\nworkspace: {ownerRewrite: {mode: \"Off\"}}\n")
		Expect(w.Start(ctx)).To(Succeed())
		const notRewritten = `webhook "owner-rewrite.warrantgate.dev" did not rewrite the object`
		Expect(failing(ctx, append(w.InstallArgs(), "--rewrite=Webhook", "--wait=10s")...)).To(And(
			ContainSubstring(notRewritten), Not(ContainSubstring("owner-integrity"))))
		Expect(w.Stop()).To(Succeed())
		Expect(failing(ctx, append(w.InstallArgs(), "--rewrite=Webhook", "--failure-policy=Ignore", "--wait=10s")...)).To(ContainSubstring(notRewritten))
	}, SpecTimeout(specTimeout))

	It("succeeds as system:masters, which the gates exempt", func(ctx SpecContext) {
		w := serve(ctx, "")
		printed := suite.Warrantgate(ctx, append([]string{"install", "kcp", "--kubeconfig=" + kcp.AdminKubeconfig(), "--context=system:admin"}, w.InstallArgs()...)...)
		Expect(printed.Status).To(BeZero(), printed.Stderr)
	}, SpecTimeout(specTimeout))
})

var _ = Describe("uninstall without the kubeconfigs of the shards", func() {
	It("prints the command that removes the roles on the shards", func(ctx SpecContext) {
		before := inventory(ctx)
		w := serve(ctx, "")
		install(ctx, w)
		installed := contents(ctx)
		planned := suite.Warrantgate(ctx, "uninstall", "kcp", "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root", "--dry-run",
			"--shard-kubeconfig="+kcp.AdminKubeconfig(), "--shard-context=system:admin")
		Expect(planned.Status).To(BeZero(), planned.Stderr)
		Expect(planned.Stdout).To(And(
			ContainSubstring("root: MutatingWebhookConfiguration \"warrantgate\" deleted (dry run)\n"),
			ContainSubstring(": ClusterRole \"warrantgate-events\" deleted (dry run)\n"), Not(ContainSubstring("deleted\n"))))
		Expect(contents(ctx)).To(Equal(installed))

		printed := suite.Warrantgate(ctx, "uninstall", "kcp", "--kubeconfig="+kcp.AdminKubeconfig(), "--context=root")
		Expect(printed.Status).To(BeZero(), printed.Stderr)
		Expect(printed.Stderr).To(ContainSubstring("stay there: warrantgate-events, warrantgate-explain, in the logical cluster system:admin"))
		Expect(inventory(ctx)).To(ContainElement("ClusterRole/warrantgate-events"))

		command := regexp.MustCompile("`warrantgate ([^`]*)`").FindStringSubmatch(printed.Stderr)
		Expect(command).NotTo(BeNil())
		removed := suite.Warrantgate(ctx, strings.Fields(command[1])...)
		Expect(removed.Status).To(BeZero(), removed.Stderr)
		Expect(removed.Stderr).To(BeEmpty())
		Expect(inventory(ctx)).To(Equal(before))
	}, SpecTimeout(specTimeout))
})
