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
	suite.Run(t, "machine", 30*time.Second, 50*time.Millisecond)
}

// shared is the world of all specs without their own.
var shared *world

var _ = BeforeSuite(func(ctx SpecContext) {
	shared = newWorld(ctx, setup{})
}, NodeTimeout(3*time.Minute))
