//go:build e2e

package release_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

var _ = Describe("The files of a release", Ordered, func() {
	It("are archives and bills of material for each platform, and the policies, all with their checksums", func(ctx SpecContext) {
		sums := map[string]string{}
		for line := range strings.Lines(sources.read("checksums.txt")) {
			sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			sums[name] = sum
		}
		var names []string
		for name, want := range sums {
			names = append(names, name)
			content := sha256.Sum256([]byte(sources.read(name)))
			Expect(hex.EncodeToString(content[:])).To(Equal(want), name)
		}
		Expect(names).To(ConsistOf(checked()))
		signed := []string{"verify-blob", "--key=" + strings.TrimSuffix(sources.key, ".key") + ".pub", "--insecure-ignore-tlog=true",
			"--bundle=" + sources.dist("checksums.txt.sigstore.json")}
		run(ctx, sources.dir, nil, sources.bin("cosign"), append(signed, sources.dist("checksums.txt"))...)
		Expect(attempt(ctx, sources.dir, nil, sources.bin("cosign"), append(signed, sources.dist("metadata.json"))...).err).To(HaveOccurred())
	}, SpecTimeout(timeout))

	It("have a plugin of kubectl, which the krew manifest describes, with the version of the tag", func(ctx SpecContext) {
		var manifest struct {
			Spec struct {
				Version   string
				Platforms []struct {
					Bin, URI, Sha256 string
					Selector         struct{ MatchLabels struct{ OS, Arch string } }
				}
			}
		}
		Expect(yaml.Unmarshal([]byte(sources.read("krew/warrantgate.yaml")), &manifest)).To(Succeed())
		Expect(manifest.Spec.Version).To(Equal("v" + version))
		Expect(manifest.Spec.Platforms).To(HaveLen(len(platforms())))
		for _, platform := range manifest.Spec.Platforms {
			Expect(platform.URI).To(HavePrefix("https://github.com/example/warrantgate/releases/download/v" + version + "/warrantgate_"))
			archive := filepath.Base(platform.URI)
			Expect(sources.read("checksums.txt")).To(ContainSubstring(platform.Sha256 + "  " + archive))
			if platform.Selector.MatchLabels.OS != runtime.GOOS || platform.Selector.MatchLabels.Arch != runtime.GOARCH {
				continue
			}
			installed := GinkgoT().TempDir()
			run(ctx, installed, nil, "tar", "--extract", "--gzip", "--file="+sources.dist(archive))
			Expect(filepath.Join(installed, "LICENSE")).To(BeAnExistingFile())
			// As krew does.
			Expect(os.Symlink(platform.Bin, filepath.Join(installed, "kubectl-warrantgate"))).To(Succeed())
			Expect(run(ctx, installed, nil, "./kubectl-warrantgate", "explain", "workspace", "--help")).To(ContainSubstring("kubectl warrantgate explain workspace"))
			var printed struct{ Version, Revision string }
			Expect(json.Unmarshal([]byte(run(ctx, installed, nil, "./kubectl-warrantgate", "version", "--output=json")), &printed)).To(Succeed())
			Expect(printed.Version).To(Equal("v" + version))
			Expect(printed.Revision).To(Equal(sources.git(ctx, "rev-parse", "HEAD")))
			Expect(run(ctx, installed, nil, "./kubectl-warrantgate", "install", "kcp", "--policies-only", "--dry-run")).To(Equal(sources.read("kcp-policies.yaml")))
		}
	}, SpecTimeout(timeout))

	It("have notes of the changes that users see: breaking ones first, and commits without a type last", func() {
		notes := sources.read("CHANGELOG.md")
		breaking, features, fixes := strings.Index(notes, "### Breaking changes"), strings.Index(notes, "### Features"), strings.Index(notes, "### Fixes")
		Expect(breaking).To(BeNumerically(">", 0))
		Expect(features).To(BeNumerically(">", breaking))
		Expect(fixes).To(BeNumerically(">", features))
		Expect(notes).To(MatchRegexp(`### Other changes\n(?:\* .*\n)*\* [0-9a-f]+ ` + unusual + `\n`))
		Expect(strings.Index(notes, "### Other changes")).To(BeNumerically(">", strings.Index(notes, "### Documentation")))
		Expect(regexp.MustCompile(`(?m)^\* [0-9a-f]+ (refactor|test)(\([^)]*\))?:`).FindAllString(notes, -1)).To(BeEmpty())
	})

	It("are identical in a second build of the same sources", func(ctx SpecContext) {
		first := sources.sums()
		sources.make(ctx)
		Expect(sources.sums()).To(Equal(first))
	}, SpecTimeout(buildTimeout))
})

// checked are the names of the files in checksums.txt.
func checked() []string {
	names := []string{"kcp-policies.yaml"}
	for _, platform := range platforms() {
		names = append(names, "warrantgate_"+version+"_"+platform+".tar.gz", "warrantgate_"+version+"_"+platform+".spdx.json")
	}
	return names
}

// platforms are the platforms of the release.
func platforms() []string {
	if onePlatform() {
		return []string{"linux_amd64"}
	}
	return []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"}
}

// onePlatform reports whether the release is built for the first platform only, as PLATFORMS=all forbids.
func onePlatform() bool {
	return os.Getenv("PLATFORMS") != "all"
}

// sums are the digests of all released files and of the files in images and charts. Signatures, and the metadata that goreleaser writes for
// itself, differ each time.
func (c *clone) sums() map[string]string {
	GinkgoHelper()
	sums := map[string]string{}
	within := os.DirFS(filepath.Join(c.dir, "dist"))
	Expect(fs.WalkDir(within, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir():
			return err
		case path == "metadata.json" || path == "artifacts.json" || path == "config.yaml" || path == "checksums.txt.sigstore.json" || path == "published.txt":
			return nil
		}
		content, err := fs.ReadFile(within, path)
		sum := sha256.Sum256(content)
		sums[path] = hex.EncodeToString(sum[:])
		return err
	})).To(Succeed())
	Expect(len(sums)).To(BeNumerically(">", 10))
	return sums
}
