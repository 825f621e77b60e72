//go:build e2e

package readme_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// workspaces is the page of the gates on workspaces. The others are its sections with commands.
const (
	workspaces        = "webhooks/workspace/README.md"
	workspacePolicies = "### Admission policies only"
	workspaceWebhooks = "### With webhooks"
)

// selfSigned writes a certificate for localhost, which is its own CA.
const selfSigned = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout tls.key -out tls.crt 2>&1 && cp tls.crt ca.crt"

var _ = Describe("The page of the gates on workspaces", func() {
	It("installs the policies, then the webhooks, on a kcp that runs", func(ctx SpecContext) {
		kcp := suite.KCP(ctx)
		admin, err := os.ReadFile(kcp.AdminKubeconfig())
		Expect(err).NotTo(HaveOccurred())
		t := newKCPTerminal(ctx)
		t.follow(section(readme, start)...)
		dir, _ := t.run("pwd", false)
		for name, content := range map[string][]byte{
			"admin.kubeconfig": admin, "warrantgate.kubeconfig": kubeconfigOf("warrantgate", kcp.User("root", kcptest.WarrantgateUser)),
		} {
			Expect(os.WriteFile(filepath.Join(strings.TrimSpace(dir), name), content, 0o600)).To(Succeed())
		}
		t.run(selfSigned, false)

		if suite.ByPolicy(kcp) {
			t.execute(section(workspaces, workspacePolicies)...)
		}
		t.execute(section(workspaces, workspaceWebhooks)...)
		printed, _ := t.run("warrantgate check admission kcp --kubeconfig=admin.kubeconfig --context=root --wait=30s", false)
		Expect(printed).To(ContainSubstring("warrantgate rewrote the object"), "%s", t.logs())

		By("restoring a workspace from what the page leaves of it")
		_, restore, _ := strings.Cut(file(workspaces), "```sh\n")
		restore, _, _ = strings.Cut(restore, "```")
		t.run(`export KUBECONFIG=$PWD/admin.kubeconfig
			echo '{"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "kept"}}' | kubectl create --filename=-
			kubectl wait workspace/kept --for=jsonpath='{.status.phase}'=Ready --timeout=3m`, false)
		t.run("{ "+strings.ReplaceAll(strings.TrimSpace(restore), "NAME", "kept")+"\n} >backup.json", false)
		printed, _ = t.run(`kubectl delete workspace/kept && kubectl create --filename=backup.json
			kubectl wait workspace/kept --for=jsonpath='{.status.phase}'=Ready --timeout=3m`, false)
		Expect(printed).To(HaveSuffix("workspace.tenancy.kcp.io/kept condition met\n"))
	}, SpecTimeout(specTimeout))
})

// execute runs blocks of a document that shows no output of them, and expects them to succeed.
func (t *terminal) execute(blocks ...block) {
	GinkgoHelper()
	t.each(blocks, func(b block) {
		printed, status := t.run(b.commands, false)
		Expect(status).To(BeZero(), "output of\n%s\n%s%s", b.commands, printed, t.logs())
	})
}
