//go:build e2e

package readme_test

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const helmBesideKCP, helmForClusterAPI = "### Helm, next to kcp", "### Helm, for Cluster API"

var _ = Describe("The quick start with Helm", func() {
	DescribeTable("installs a release whose test passes", func(ctx SpecContext, heading, server, proof string, prepare func(context.Context, *cluster)) {
		c := newCluster(ctx)
		prepare(ctx, c)
		name := "warrantgate-test-" + server
		DeferCleanup(func() {
			if CurrentSpecReport().Failed() {
				AddReportEntry("log of Pod "+name, c.kubelet.Output(name))
			}
		})
		t := c.newTerminal(ctx)
		t.follow(section(readme, start)...)
		t.follow(section(readme, heading)...)
		Expect(c.kubelet.Output(name)).To(ContainSubstring(proof))
	},
		Entry("next to a kcp", helmBesideKCP, "kcp", "warrantgate rewrote the object\n", besideKCP, SpecTimeout(specTimeout)),
		Entry("for Cluster API", helmForClusterAPI, "kubernetes", "warrantgate denied the object: ", forClusterAPI, SpecTimeout(specTimeout)),
	)
})

// besideKCP starts a kcp and creates the Secrets that examples/kcp.yaml names.
func besideKCP(ctx context.Context, c *cluster) {
	GinkgoHelper()
	kcp := suite.KCP(ctx)
	admin, err := os.ReadFile(kcp.AdminKubeconfig())
	Expect(err).NotTo(HaveOccurred())
	c.createSecret(ctx, namespace, "kcp-admin", map[string][]byte{"kubeconfig": admin})
	warrantgate := kcp.User("root", kcptest.WarrantgateUser)
	c.createSecret(ctx, namespace, "warrantgate-kcp", map[string][]byte{"kubeconfig": kubeconfigOf("warrantgate", warrantgate)})
	writer := kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins)
	c.createSecret(ctx, namespace, "warrantgate-logical-cluster", map[string][]byte{"kubeconfig": kubeconfigOf("writer", writer)})
}

// forClusterAPI creates the Secret that examples/cloudsigma.yaml names. The test of the release does not call CloudSigma.
func forClusterAPI(ctx context.Context, c *cluster) {
	GinkgoHelper()
	c.createNamespace(ctx, "capcs-system")
	c.createSecret(ctx, "capcs-system", "cloudsigma-impersonation", map[string][]byte{
		"oauth-url": []byte("https://oauth.cloudsigma.com"), "client-id": []byte("warrantgate"), "client-secret": []byte("secret"),
	})
}
