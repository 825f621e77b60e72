//go:build e2e

// Package openstack_test tests the gates on clusters and machines of Cluster API on OpenStack: clusters whose credentials have too many or
// too few roles, machines that name a server of another project, and their denials, Events, metrics and logs. Kubernetes, Keystone and
// Nova are real; package openstacktest makes both fail.
package openstack_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"warrantgate.dev/e2e/env/suite"
)

func TestOpenStack(t *testing.T) {
	suite.Run(t, "openstack", time.Minute, 50*time.Millisecond)
}

// timeout limits a spec, setupTimeout the start of a world.
const timeout, setupTimeout = 3 * time.Minute, 5 * time.Minute

// shared are the servers of all worlds.
var shared *servers

var _ = BeforeSuite(func(ctx SpecContext) {
	shared = startServers(ctx)
}, NodeTimeout(setupTimeout))

var _ = AfterSuite(endWorld, NodeTimeout(setupTimeout))
