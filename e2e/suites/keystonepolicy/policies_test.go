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
	// sound is the override that the linter has nothing to say about. It knows no administrators of domains.
	sound
)

// statuses are the status codes of Keystone under each of the policies.
type statuses [sound + 1]int

// Where the policies are.
var files = [...]string{
	shipped: filepath.Join("testdata", "shipped.yaml"),
	broken:  filepath.Join("testdata", "broken.yaml"),
	mended:  filepath.Join("testdata", "mended.yaml"),
	sound:   filepath.Join("..", "oslopolicy", "testdata", "domain-manager.yaml"),
}

// enforce gives Keystone a policy.
func enforce(ctx context.Context, file string) {
	GinkgoHelper()
	policy, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(keystone.SetPolicy(ctx, policy)).To(Succeed())
}
