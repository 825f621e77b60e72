//go:build e2e

// Package release_test makes a release of the last commit, publishes it to a registry on this machine, verifies it as the README of
// the chart says, and upgrades to it what was pulled of an earlier commit, in a real kube-apiserver. "make e2e-release" runs it,
// because it needs tools that take minutes to build.
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
	// version is that of the tag that the suite gives the last commit in a clone.
	version = "0.1.0"
	// buildTimeout is how long goreleaser may take. It compiles for three platforms that nothing else is compiled for.
	buildTimeout = 15 * time.Minute
	// timeout is how long a story may take.
	timeout = 2 * time.Minute
)

var (
	// sources is a clone of this repository.
	sources *clone
	// images is the registry.
	images *registry
	// snapshot is the version of what was published before the tag: the last release, or else the commit before.
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
