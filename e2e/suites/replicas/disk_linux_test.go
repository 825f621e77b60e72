//go:build e2e

package replicas_test

import (
	"errors"
	"io/fs"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// mountSmall mounts a file system of a few pages, and returns whether that succeeded: it needs root.
func mountSmall(dir string) bool {
	GinkgoHelper()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")
	if errors.Is(err, fs.ErrPermission) {
		return false
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(syscall.Unmount, dir, syscall.MNT_DETACH)
	return true
}
