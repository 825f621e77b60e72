//go:build e2e

// Package repair_test tests the repair of workspaces that are stuck in Initializing because they were created while no warrantgate ran.
//
// The webhooks are off in this suite, except in the spec of an outage: a workspace that becomes Ready was repaired.
package repair_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	startTimeout = 5 * time.Minute
	specTimeout  = 8 * time.Minute
	// repairTimeout is far longer than a workspace takes to become Ready once its owner is valid.
	repairTimeout = 3 * time.Minute
	pollInterval  = 100 * time.Millisecond
	// stuckTime is how long kcp must not write a workspace that counts as at rest, and how long nothing must happen to it.
	stuckTime = 2 * time.Second
)

// withoutGates is a configuration with the repair only.
const withoutGates = `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
workspace:
  ownerRewrite: {mode: "Off"}
  ownerIntegrity: {mode: "Off"}
`

var (
	kcp *kcptest.Server
	// account is the user that install granted permissions to, and reading is its kubeconfig. writing is the kubeconfig of a user in the
	// group that may write LogicalClusters.
	account          string
	reading, writing string
)

func TestRepair(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultConsistentlyDuration(stuckTime)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	suite.Run(t, "Repair", repairTimeout, pollInterval)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	kcp = suite.KCP(ctx)
	var config *rest.Config
	var err error
	account, config = readingAccount(ctx)
	reading, err = kcp.KubeconfigFile("reading", config)
	Expect(err).NotTo(HaveOccurred())
	writing, err = kcp.KubeconfigFile("writing", kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))
	Expect(err).NotTo(HaveOccurred())
	w, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Configuration: withoutGates})
	Expect(err).NotTo(HaveOccurred())
	_, err = w.InstallOnly(ctx, "--user="+account)
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(startTimeout))

// readingAccount is a service account of root, by its global name. kcp v0.30 does not let service accounts read Workspaces through a
// virtual workspace; there it is a user with a certificate.
func readingAccount(ctx context.Context) (string, *rest.Config) {
	GinkgoHelper()
	admitted, err := kcp.AdmitsServiceAccounts()
	Expect(err).NotTo(HaveOccurred())
	if !admitted {
		return kcptest.WarrantgateUser, kcp.User("root", kcptest.WarrantgateUser)
	}
	config, err := kcptest.ServiceAccount(ctx, kcp.Admin("root"), "warrantgate", "warrantgate")
	Expect(err).NotTo(HaveOccurred())
	return "system:kcp:serviceaccount:root:warrantgate:warrantgate", config
}

var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() {
		kcp.KeepDir()
		AddReportEntry("log of kcp is kept", kcp.LogFile())
	}
})

// repair runs "warrantgate repair" as the two users, and returns its two outputs and its exit status.
func repair(ctx context.Context, args ...string) (out, notes string, status int) {
	GinkgoHelper()
	return run(ctx, append([]string{
		"repair", "--kubeconfig=" + reading, "--logical-cluster-kubeconfig=" + writing, "--after=0s",
	}, args...)...)
}

func run(ctx context.Context, args ...string) (out, notes string, status int) {
	GinkgoHelper()
	printed := suite.Warrantgate(ctx, args...)
	return printed.Stdout, printed.Stderr, printed.Status
}
