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
	// buildTimeout limits goreleaser. It compiles for three platforms without cached packages.
	buildTimeout = 30 * time.Minute
	// timeout limits a story.
	timeout = 2 * time.Minute
	// unusual is the subject of a commit that has none of the types of CONTRIBUTING.md.
	unusual = "Say hello"
)

var (
	// sources is a clone of this repository.
	sources *clone
	// version is the version of the tag that the suite gives the last commit in a clone. It is the version of the chart.
	version string
	// images is the registry.
	images *registry
	// page is the release page.
	page *releasePage
	// snapshot is the version that was published before the tag: the last release, or else the commit before.
	snapshot string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	images, page = startRegistry(ctx), startReleasePage()
	sources = newClone(ctx, images)
	current, earlier := sources.git(ctx, "rev-parse", "HEAD"), sources.before(ctx)
	sources.git(ctx, "checkout", "--quiet", earlier)
	sources.make(ctx)
	snapshot = sources.version()
	Expect(snapshot).To(MatchRegexp(`-dev\.g%s$`, sources.git(ctx, "rev-parse", "--short", earlier)))
	sources.publish(ctx)
	sources.git(ctx, "checkout", "--quiet", current)
	sources.git(ctx, "-c", "user.name=example", "-c", "user.email=example@example.com", "commit", "--quiet", "--allow-empty", "--message="+unusual)
	version = sources.chartVersion()
	// Of these two tags, goreleaser would choose the one of the candidate.
	sources.git(ctx, "tag", "v"+version+"-rc.1")
	sources.tag = "v" + version
	sources.git(ctx, "tag", sources.tag)
	sources.release(ctx)
}, NodeTimeout(buildTimeout))
