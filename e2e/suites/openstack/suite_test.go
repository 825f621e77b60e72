//go:build e2e

// Package openstack_test tells what operators of Cluster API on OpenStack meet: clusters whose credentials carry too much or
// too little, machines that name a server of another project, and what is refused, reported and recorded. Kubernetes and
// Keystone are real ones, Nova is package openstacktest.
package openstack_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestOpenStack(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "openstack")
}

// timeout is how long a story may take, setupTimeout how long the start of a world.
const timeout, setupTimeout = time.Minute, time.Minute

// shared are the servers of all worlds.
var shared *servers

var _ = BeforeSuite(func(ctx SpecContext) {
	shared = startServers(ctx)
}, NodeTimeout(2*time.Minute))
