//go:build e2e

// Package readme_test runs the quick starts of the README in an empty directory, on real servers. The commands and their output are read
// from the README: there is no copy here.
package readme_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	// specTimeout limits a quick start, with the start of its servers, on a busy machine.
	specTimeout = 8 * time.Minute
	// readme is the README of the repository. start is its section about the quick starts.
	readme, start = "README.md", "## Quick start"
)

func TestReadme(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "The README", 2*time.Minute, 100*time.Millisecond)
}

// root is the directory of the repository.
func root() string {
	GinkgoHelper()
	dir, err := charttest.Root()
	Expect(err).NotTo(HaveOccurred())
	return dir
}

// file returns the content of a file of the repository.
func file(name string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root(), name))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// section returns the blocks of a section of a document of the repository.
func section(name, heading string) []block {
	GinkgoHelper()
	blocks, err := blocksOf(file(name), heading)
	Expect(err).NotTo(HaveOccurred(), name)
	return blocks
}
