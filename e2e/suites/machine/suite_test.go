//go:build e2e

// Package machine_test tests the gates on machines, clusters and controller managers of Cluster API on CloudSigma: machines that name a
// server of another user, clusters that name a user that their author may not impersonate, and their denials, Events, metrics and logs.
package machine_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/suite"
)

func TestMachine(t *testing.T) {
	suite.Run(t, "machine", time.Minute, 50*time.Millisecond)
}

// auditLog is the audit log of the API server. It has the annotations that admission leaves on writes of machines.
var auditLog string

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	auditLog = filepath.Join(dir, "audit.log")
	policyFile := filepath.Join(dir, "audit-policy.yaml")
	Expect(os.WriteFile(policyFile, []byte(auditPolicy), 0o600)).To(Succeed())
	api = suite.KubeAPIServer(ctx, "--audit-policy-file="+policyFile, "--audit-log-path="+auditLog)
}, NodeTimeout(setupTimeout))

var _ = AfterSuite(endWorld, NodeTimeout(setupTimeout))
