//go:build e2e

// Package machine_test tells what operators of Cluster API on CloudSigma meet: machines that name a server of somebody
// else, clusters that name a user whom their author may not act for, and what is refused, reported and recorded.
package machine_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestMachine(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "machine")
}

// shared is the world of all stories that need none of their own.
var shared *world

var _ = BeforeSuite(func(ctx SpecContext) {
	shared = newWorld(ctx, setup{})
}, NodeTimeout(3*time.Minute))
