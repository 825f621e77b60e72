//go:build e2e

// Package provider_test tests a provider of Cluster API that exports its kinds on kcp. The gates evaluate machines and clusters in
// the workspaces that bind them, as on Kubernetes.
package provider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	specTimeout = 8 * time.Minute
	// awaitTimeout is far longer than kcp needs to observe a change.
	awaitTimeout = 3 * time.Minute
)

var (
	kcp      *kcptest.Server
	cloud    *cloudsigmatest.Cloud
	incident cloudsigmatest.Incident
	gate     *kcptest.Warrantgate
	// options are those of gate.
	options kcptest.WarrantgateOptions
	// provider is the workspace with the APIExport, as its administrator.
	provider *rest.Config
)

func TestProvider(t *testing.T) {
	suite.Run(t, "provider", awaitTimeout, 50*time.Millisecond)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cloud, err = cloudsigmatest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cloud.Stop)
	incident, err = cloud.Incident()
	Expect(err).NotTo(HaveOccurred())
	kcp = suite.KCP(ctx)

	makeWorkspace(ctx, "provider")
	provider = kcp.Admin("root:provider")
	exportKinds(ctx, provider)

	caFile, err := cloud.CAFile(kcp.Dir())
	Expect(err).NotTo(HaveOccurred())
	secretFile := filepath.Join(kcp.Dir(), "client-secret")
	Expect(os.WriteFile(secretFile, []byte(incident.Client.Secret), 0o600)).To(Succeed())
	options = kcptest.WarrantgateOptions{
		Configuration: fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
			"cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}\n", cloud.APITemplate(), cloud.ServiceProviderTemplate(), caFile),
		Args: []string{
			"--impersonation-enabled", "--oauth-url=" + cloud.OAuthURL(), "--client-id=" + incident.Client.ID, "--client-secret-file=" + secretFile,
		},
	}
	gate, err = kcptest.NewWarrantgate(ctx, kcp, options)
	Expect(err).NotTo(HaveOccurred())
	_, err = gate.InstallOnly(ctx) // the permission to write Events belongs to the gates on workspaces
	Expect(err).NotTo(HaveOccurred())
	installProvider(ctx, gate.ConfigFile())
	Expect(gate.Start(ctx)).To(Succeed())
	DeferCleanup(func() {
		Expect(cloud.Violations()).To(BeEmpty())
		Expect(gate.Stop()).To(Succeed())
	})
}, NodeTimeout(specTimeout))

// installProvider installs the gates in the provider's workspace, with a configuration file.
func installProvider(ctx context.Context, configFile string) {
	GinkgoHelper()
	output, err := gate.Run(ctx, slices.Concat(gate.InstallArgs(), []string{"install", "provider", "--config=" + configFile}, asAdministrator())...)
	Expect(err).NotTo(HaveOccurred(), output)
}

// asAdministrator are the flags of install and uninstall.
func asAdministrator() []string {
	GinkgoHelper()
	kubeconfig, err := kcp.KubeconfigFile("provider-admin", provider)
	Expect(err).NotTo(HaveOccurred())
	return []string{"--kubeconfig=" + kubeconfig, "--shard-kubeconfig=" + kcp.AdminKubeconfig(), "--shard-context=system:admin"}
}
