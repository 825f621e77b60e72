//go:build e2e

// Package kubepolicy_test tells what people meet who keep a policy for Keystone in a ConfigMap or a Secret: what is refused
// and why, where it can be read, and what nobody is asked about.
package kubepolicy_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestKubepolicy(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "kubepolicy")
}

// timeout is how long a story may take.
const timeout = time.Minute

// shared is the world of all stories that need none of their own.
var shared *world

var _ = BeforeSuite(func(ctx SpecContext) {
	shared = newWorld(ctx)
	shared.serve(ctx, "Enforce")
}, NodeTimeout(3*time.Minute))
