//go:build e2e

// Package keystonepolicy_test tests which requests of domain managers a policy allows on a real Keystone. It compares them with the
// verdicts of "warrantgate check keystone-policy" and the findings of "warrantgate lint keystone-policy".
package keystonepolicy_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/suite"
)

const specTimeout = 5 * time.Minute

var keystone *keystonetest.Keystone

func TestKeystonePolicy(t *testing.T) {
	suite.Run(t, "Keystone policy", 2*time.Minute, 100*time.Millisecond)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	// The cache in memory has credentials as Keystone has changed them, without their content.
	keystone, err = keystonetest.Start(ctx, keystonetest.AdminProject, "[credential]\ncaching = false\n")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return keystone.Stop() })
}, NodeTimeout(specTimeout))

var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() {
		keystone.KeepDir()
		AddReportEntry("log of Keystone is kept", keystone.LogFile())
	}
})
