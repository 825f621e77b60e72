//go:build e2e

// Package install_test tests the commands of an administrator: install, uninstall, modes, permissions, and the records of verdicts
// in kcp. It has its own kcp, because each spec changes the webhook configurations of all workspaces.
package install_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
)

// auditPolicy records the audit annotations of writes of Workspaces.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch]
  resources: [{group: tenancy.kcp.io, resources: [workspaces]}]
- level: None
`

var (
	kcp      *kcptest.Server
	auditLog string
	// bot is a service account of root:provider that may create workspaces there.
	bot *rest.Config
	// provider is the workspace of the specs, as its administrator.
	provider *rest.Config
)

func TestInstall(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "install")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	binary, err := asset.Path(asset.KCP)
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	auditLog = filepath.Join(dir, "audit.log")
	policyFile := filepath.Join(dir, "audit-policy.yaml")
	Expect(os.WriteFile(policyFile, []byte(auditPolicy), 0o600)).To(Succeed())

	kcp, err = kcptest.Start(ctx, kcptest.Options{Binary: binary, Args: []string{
		"--audit-policy-file=" + policyFile, "--audit-log-path=" + auditLog,
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return kcp.Stop() })

	_, err = kcptest.CreateWorkspace(ctx, kcp.Admin("root"), "provider")
	Expect(err).NotTo(HaveOccurred())
	_, err = kcptest.WaitReady(ctx, kcp.Admin("root"), "provider")
	Expect(err).NotTo(HaveOccurred())
	provider = kcp.Admin("root:provider")
	bot, err = kcptest.ServiceAccount(ctx, provider, "default", "bot")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, provider, kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
	Expect(kcptest.Grant(ctx, provider, kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
}, NodeTimeout(3*time.Minute))

// serve starts a warrantgate with a configuration. kcp does not call it before install. At the end of the spec, it is uninstalled.
func serve(ctx context.Context, configuration string, args ...string) *kcptest.Warrantgate {
	GinkgoHelper()
	binary, err := asset.Path(asset.Warrantgate)
	Expect(err).NotTo(HaveOccurred())
	w, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Binary: binary, Configuration: configuration, Args: args})
	Expect(err).NotTo(HaveOccurred())
	Expect(w.Start(ctx)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // the story's own context has ended by then
		_, err := w.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Stop()).To(Succeed())
	}, NodeTimeout(time.Minute))
	return w
}

// install installs a warrantgate and waits until it has the permission to write Events.
func install(ctx context.Context, w *kcptest.Warrantgate, args ...string) {
	GinkgoHelper()
	_, err := w.Install(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	Eventually(logOf(w)).Should(ContainSubstring("Events are on"))
}

func newClient(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := kcptest.NewClient(config)
	Expect(err).NotTo(HaveOccurred())
	return c
}
