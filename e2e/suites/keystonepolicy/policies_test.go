//go:build e2e

package keystonepolicy_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Policies, in the order of statuses.
const (
	// shipped overrides nothing.
	shipped = iota
	// broken gives managers the needed permissions, and removes those that the administrators of domains had.
	broken
	// mended restores them, except for the three lists.
	mended
	// sound is the override without findings of the linter. It has no administrators of domains.
	sound
)

// statuses are the status codes of Keystone under each of the policies.
type statuses [sound + 1]int

// The paths of the policies.
var files = [...]string{
	shipped: filepath.Join("testdata", "shipped.yaml"),
	broken:  filepath.Join("testdata", "broken.yaml"),
	mended:  filepath.Join("testdata", "mended.yaml"),
	sound:   filepath.Join("..", "oslopolicy", "testdata", "domain-manager.yaml"),
}

// enforce applies a policy in Keystone.
func enforce(ctx context.Context, file string) {
	GinkgoHelper()
	policy, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(keystone.SetPolicy(ctx, policy)).To(Succeed())
}
