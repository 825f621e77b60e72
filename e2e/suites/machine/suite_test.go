//go:build e2e

// Package machine_test tests the gates on machines, clusters and controller managers of Cluster API on CloudSigma: machines that name a
// server of another user, clusters that name a user that their author may not impersonate, and their denials, Events, metrics and logs.
package machine_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"warrantgate.dev/e2e/env/suite"
)

func TestMachine(t *testing.T) {
	suite.Run(t, "machine", time.Minute, 50*time.Millisecond)
}

var _ = BeforeSuite(func(ctx SpecContext) { api = suite.KubeAPIServer(ctx) }, NodeTimeout(setupTimeout))

var _ = AfterSuite(endWorld, NodeTimeout(setupTimeout))
