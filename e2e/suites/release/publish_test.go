//go:build e2e

package release_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Publishing a release", func() {
	It("uploads all files, the krew manifest among them, for the named tag of several", func() {
		var names []string
		for name, content := range page.uploaded() {
			names = append(names, name)
			switch name {
			case krewManifest:
				Expect(content).To(Equal(sources.read("krew/"+krewManifest)), name)
			case "kcp-policies.yaml":
				Expect(content).To(Equal(sources.read(name)), name)
			}
		}
		Expect(names).To(ConsistOf(append(checked(), "checksums.txt", "checksums.txt.sigstore.json", krewManifest)))
		Expect(page.release()).To(Equal(publishedRelease{Tag: "v" + version, Body: sources.read("CHANGELOG.md") + "\n"}))
	})

	It("ends before an upload if a program differs from the published one", func(ctx SpecContext) {
		DeferCleanup(sources.make)
		before := page.uploaded()
		published := GinkgoT().TempDir()
		Expect(os.CopyFS(published, os.DirFS(sources.dist("")))).To(Succeed())
		program, err := filepath.Glob(filepath.Join(published, "warrantgate_linux_amd64*", "warrantgate"))
		Expect(err).NotTo(HaveOccurred())
		Expect(program).To(HaveLen(1))
		Expect(os.Chmod(program[0], 0o700)).To(Succeed())
		Expect(os.WriteFile(program[0], []byte("another"), 0o700)).To(Succeed())
		Expect(sources.attemptMake(ctx, []string{"PUBLISHED=" + published}, "release").err).To(MatchError(ContainSubstring("differ")))
		Expect(page.uploaded()).To(Equal(before))
	}, SpecTimeout(buildTimeout))

	It("rejects a tag with another version than the chart's", func(ctx SpecContext) {
		Expect(sources.attemptMake(ctx, nil, "tagged").err).NotTo(HaveOccurred())
		Expect(sources.attemptMake(ctx, nil, "tagged", "TAG=v99.0.0").err).To(MatchError(ContainSubstring("the tag is v99.0.0, but charts/warrantgate/Chart.yaml has the version of v" + version)))
	}, SpecTimeout(timeout))

	It("can be repeated, and does not move a tag to another digest", func(ctx SpecContext) {
		image := images.address + "/again/warrantgate"
		Expect(publishTo(ctx, "again").err).NotTo(HaveOccurred())
		published := images.crane(ctx, "digest", image+":v"+version)
		Expect(publishTo(ctx, "again").err).NotTo(HaveOccurred())
		Expect(images.crane(ctx, "digest", image+":v"+version)).To(Equal(published))

		other := images.other(ctx, "--label=other=true")
		images.crane(ctx, "copy", images.address+"/warrantgate@"+other, image+":v"+version)
		Expect(publishTo(ctx, "again").err).To(MatchError(ContainSubstring(image + ":v" + version + " is already published as " + other)))
		Expect(images.crane(ctx, "digest", image+":v"+version)).To(Equal(other))
	}, SpecTimeout(timeout))

	It("does not tag an image or a chart that it could not sign", func(ctx SpecContext) {
		Expect(publishTo(ctx, "unsigned", "COSIGN_KEY="+filepath.Join(GinkgoT().TempDir(), "none.key")).err).To(MatchError(ContainSubstring("none.key")))
		for _, name := range []string{"warrantgate", "charts/warrantgate"} {
			Expect(images.crane(ctx, "ls", images.address+"/unsigned/"+name)).To(BeEmpty())
		}
	}, SpecTimeout(timeout))

	It("rejects a build without a version", func(ctx SpecContext) {
		metadata := sources.read("metadata.json")
		DeferCleanup(os.WriteFile, sources.dist("metadata.json"), []byte(metadata), os.FileMode(0o600))
		Expect(os.WriteFile(sources.dist("metadata.json"), []byte(strings.ReplaceAll(metadata, "version", "none")), 0o600)).To(Succeed())
		Expect(publishTo(ctx, "none").err).To(MatchError(ContainSubstring(`dist/metadata.json has the version ""`)))
	}, SpecTimeout(timeout))
})

// krewManifest is the name of the krew manifest.
const krewManifest = "warrantgate.yaml"

// publishTo publishes image and chart to a folder of the registry, with variables in addition to those of the clone.
func publishTo(ctx context.Context, folder string, env ...string) outcome {
	return attempt(ctx, sources.dir, append(sources.environment(), env...), ".ci/publish", images.address+"/"+folder)
}
