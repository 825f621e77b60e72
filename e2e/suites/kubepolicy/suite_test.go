//go:build e2e

// Package kubepolicy_test tests the gate on policies for Keystone in ConfigMaps and Secrets: which policies it denies, with which message,
// where the author can read the message, and which requests do not reach the gate.
package kubepolicy_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"warrantgate.dev/e2e/env/suite"
)

func TestKubepolicy(t *testing.T) {
	suite.Run(t, "kubepolicy", 2*time.Minute, 50*time.Millisecond)
}

// timeout limits a spec.
const timeout = 5 * time.Minute

// shared is the world of all specs without their own.
var shared *world

var _ = BeforeSuite(func(ctx SpecContext) {
	shared = newWorld(ctx)
	shared.serve(ctx, "Enforce")
}, NodeTimeout(timeout))
