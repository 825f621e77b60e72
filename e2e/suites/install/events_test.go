//go:build e2e

package install_test

import (
	"errors"
	"os/exec"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

var _ = Describe("warrantgate check events", func() {
	It("prints the clause that a workspace with required groups needs, and that it is enough", func(ctx SpecContext) {
		w := serve(ctx, "")
		install(ctx, w)
		const path = "root:grouped"
		suite.ReadyWorkspace(ctx, kcp.Admin("root"), "grouped")
		workspace := suite.Place{Server: kcp, Path: path}
		// check runs the command as a user, in root and in the workspace.
		check := func(name string, user *rest.Config) func() (string, int) {
			kubeconfig, err := kcp.KubeconfigFile(name, user)
			Expect(err).NotTo(HaveOccurred())
			return func() (string, int) {
				output, err := w.Run(ctx, "check", "events", "root", path, "--kubeconfig="+kubeconfig)
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					return output, exit.ExitCode()
				}
				Expect(err).NotTo(HaveOccurred())
				return output, 0
			}
		}
		plain := check("plain", kcp.User("root", kcptest.WarrantgateUser))
		grouped := check("grouped", kcp.User("root", kcptest.WarrantgateUser, "eventers"))
		stranger := check("stranger", kcp.User("root", "stranger"))
		ok := "root: ok\n" + path + ": ok\n"
		Eventually(func() string { output, _ := plain(); return output }).Should(Equal(ok))

		workspace.RequireGroups(ctx, "team-a,on-call")
		Eventually(func() int { _, code := plain(); return code }).Should(Equal(1))
		output, _ := plain()
		Expect(output).To(And(HavePrefix("root: ok\n"+path+": NOT PERMITTED\n  user \"warrantgate\" with the groups system:authenticated may write Events in root, and not here: "),
			ContainSubstring("first give it a group of its own: with a client certificate, O=warrantgate-events\n"), ContainSubstring(`');warrantgate-events"`)))
		output, code := grouped()
		Expect(code).To(Equal(1))
		Expect(output).To(And(ContainSubstring("    kubectl ws "+path+"\n    kubectl annotate logicalclusters cluster --overwrite "+
			`authorization.kcp.io/required-groups="$(kubectl get logicalclusters cluster -o jsonpath='{.metadata.annotations.authorization\.kcp\.io/required-groups}');eventers"`),
			Not(ContainSubstring("first give it"))))

		By("adding the clause with the printed commands")
		workspace.RequireGroups(ctx, "team-a,on-call;eventers")
		Eventually(func() string { output, _ := grouped(); return output }).Should(Equal(ok))
		_, code = plain()
		Expect(code).To(Equal(1))

		By("a user without any permission, and a workspace that cannot be read")
		output, code = stranger()
		Expect(code).To(Equal(1))
		Expect(strings.Count(output, "neither here nor in root; grant it with `warrantgate install kcp --shard-kubeconfig`")).To(Equal(2))
		output, err := w.Run(ctx, "check", "events", "../root", "--kubeconfig="+kcp.AdminKubeconfig())
		Expect(output).To(ContainSubstring("../root: UNKNOWN\n"))
		var exit *exec.ExitError
		Expect(errors.As(err, &exit)).To(BeTrue())
		Expect(exit.ExitCode()).To(Equal(2))
	}, SpecTimeout(specTimeout))

	It("finds a workspace that has no namespace for Events", func(ctx SpecContext) {
		w := serve(ctx, "")
		install(ctx, w)
		bare, err := kcptest.CreateWorkspaceType(ctx, kcp.Admin("root"), "root", &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})
		Expect(err).NotTo(HaveOccurred())
		suite.ReadyWorkspace(ctx, kcp.Admin("root"), "bare", bare)
		kubeconfig, err := kcp.KubeconfigFile("bare", kcp.User("root", kcptest.WarrantgateUser))
		Expect(err).NotTo(HaveOccurred())
		check := func() string {
			output, err := w.Run(ctx, "check", "events", "root:bare", "--kubeconfig="+kubeconfig)
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return err.Error()
			}
			return output
		}
		Eventually(check).Should(Equal("root:bare: NO NAMESPACE\n  Events would be in namespace \"default\", which a workspace has if its type extends universal; create it:\n" +
			"    kubectl ws root:bare\n    kubectl create namespace default\n"))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
		Expect(suite.KCPClient(kcp.Admin("root:bare")).Create(ctx, namespace)).To(Succeed())
		Eventually(check).Should(Equal("root:bare: ok\n"))
	}, SpecTimeout(specTimeout))
})
