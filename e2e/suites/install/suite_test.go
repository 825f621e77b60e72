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

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
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

const (
	specTimeout = 8 * time.Minute
	// awaitTimeout is far longer than kcp needs to observe a change.
	awaitTimeout = 3 * time.Minute
)

var (
	kcp      *kcptest.Server
	auditLog string
	// bot is a service account of root:provider that may create workspaces there.
	bot *rest.Config
	// provider is the workspace of the specs, as its administrator.
	provider *rest.Config
)

func TestInstall(t *testing.T) {
	suite.Run(t, "install", awaitTimeout, 50*time.Millisecond)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	auditLog = filepath.Join(dir, "audit.log")
	policyFile := filepath.Join(dir, "audit-policy.yaml")
	Expect(os.WriteFile(policyFile, []byte(auditPolicy), 0o600)).To(Succeed())

	kcp = suite.KCP(ctx, "--audit-policy-file="+policyFile, "--audit-log-path="+auditLog)

	suite.ReadyWorkspace(ctx, kcp.Admin("root"), "provider")
	provider = kcp.Admin("root:provider")
	var err error
	bot, err = kcptest.ServiceAccount(ctx, provider, "default", "bot")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, provider, kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
	Expect(kcptest.Grant(ctx, provider, kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
}, NodeTimeout(specTimeout))

// serve starts a warrantgate with a configuration. kcp does not call it before install. It is uninstalled at the end of the spec.
func serve(ctx context.Context, configuration string, args ...string) *kcptest.Warrantgate {
	GinkgoHelper()
	w, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Configuration: configuration, Args: args})
	Expect(err).NotTo(HaveOccurred())
	Expect(w.Start(ctx)).To(Succeed())
	suite.UninstallAtEnd(w, specTimeout) //nolint:contextcheck // the story's own context has ended by then
	return w
}

// install installs a warrantgate.
func install(ctx context.Context, w *kcptest.Warrantgate, args ...string) {
	GinkgoHelper()
	_, err := w.Install(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
}
