//go:build e2e

// Package keystonepolicy_test tells what policies for the managers of domains allow on a real Keystone, and holds the verdicts
// of "warrantgate check keystone-policy" and the findings of "warrantgate lint keystone-policy" against it.
package keystonepolicy_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/keystonetest"
)

const specTimeout = time.Minute

var (
	keystone *keystonetest.Keystone
	// binary is the warrantgate that is asked.
	binary string
)

func TestKeystonePolicy(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Keystone policy")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	binary, err = asset.Path(asset.Warrantgate)
	Expect(err).NotTo(HaveOccurred())
	keystone, err = keystonetest.Start(ctx, keystonetest.Options{ExtraConf: keystonetest.AdminProject})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return keystone.Stop() })
}, NodeTimeout(2*time.Minute))

var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() {
		keystone.KeepDir()
		AddReportEntry("log of Keystone is kept", keystone.LogFile())
	}
})
