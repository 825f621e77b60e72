//go:build e2e

// Package release_test builds a release of the last commit, publishes it to a registry on this machine, and verifies it with the commands
// in the README of the chart. In a real kube-apiserver, it upgrades to this release from one of an earlier commit. "make e2e-release" runs
// it, because it needs tools that take minutes to build.
package release_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/suite"
)

func TestRelease(t *testing.T) {
	suite.Run(t, "release", 30*time.Second, 50*time.Millisecond)
}

const (
	// version is the version of the tag that the suite gives the last commit in a clone.
	version = "0.1.0"
	// buildTimeout limits goreleaser. It compiles for three platforms for which nothing is compiled elsewhere.
	buildTimeout = 15 * time.Minute
	// timeout limits a story.
	timeout = 2 * time.Minute
)

var (
	// sources is a clone of this repository.
	sources *clone
	// images is the registry.
	images *registry
	// snapshot is the version that was published before the tag: the last release, or else the commit before.
	snapshot string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	images = startRegistry(ctx)
	sources = newClone(ctx, images)
	current, earlier := sources.git(ctx, "rev-parse", "HEAD"), sources.before(ctx)
	sources.git(ctx, "checkout", "--quiet", earlier)
	sources.make(ctx)
	snapshot = sources.version()
	Expect(snapshot).To(MatchRegexp(`-dev\.g%s$`, sources.git(ctx, "rev-parse", "--short", earlier)))
	sources.publish(ctx)
	sources.git(ctx, "checkout", "--quiet", current)
	sources.git(ctx, "tag", "v"+version)
	sources.make(ctx)
	sources.publish(ctx)
}, NodeTimeout(buildTimeout))
