//go:build e2e

package release_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/charts/charttest"
)

// An attacker who may write to the registry but has no key cannot make a user install an image that the user verifies first.
var _ = Describe("The commands of the README that verify a release", Ordered, func() {
	var signed string
	BeforeAll(func(ctx SpecContext) {
		signed = images.crane(ctx, "digest", images.chart(version))
	})
	BeforeEach(func(ctx SpecContext) {
		Expect(verify(ctx).err).NotTo(HaveOccurred(), "before anything is changed")
	})
	AfterEach(func(ctx SpecContext) {
		images.crane(ctx, "tag", images.chart("")+"@"+signed, version)
	})

	It("accept the published chart and image, and name them by digest", func(ctx SpecContext) {
		result := verify(ctx)
		Expect(result.err).NotTo(HaveOccurred())
		Expect(result.image).To(Equal(images.address + "/warrantgate@" + images.crane(ctx, "digest", images.address+"/warrantgate:v"+version)))
		Expect(result.chart).To(Equal("oci://" + images.chart("") + "@" + signed))
	}, SpecTimeout(timeout))

	It("print the signed provenance, and the bill of materials of each platform", func(ctx SpecContext) {
		image := images.address + "/warrantgate:v" + version
		Expect(attested(ctx, "slsaprovenance1", image)).To(MatchJSON(sources.read("provenance.json")))
		Expect(sources.read("provenance.json")).To(ContainSubstring(sources.git(ctx, "rev-parse", "HEAD")))
		for _, platform := range platforms() {
			if arch, found := strings.CutPrefix(platform, "linux_"); found {
				digest := images.crane(ctx, "digest", "--platform=linux/"+arch, image)
				Expect(attested(ctx, "spdxjson", images.address+"/warrantgate@"+digest)).To(MatchJSON(sources.read("warrantgate_" + version + "_" + platform + ".spdx.json")))
			}
		}
	}, SpecTimeout(timeout))

	It("reject a chart that names another image", func(ctx SpecContext) {
		images.replaceChart(ctx, images.crane(ctx, "digest", images.address+"/warrantgate:v"+snapshot))
		Expect(verify(ctx).err).To(MatchError(ContainSubstring("no signatures found")))
	}, SpecTimeout(timeout))

	It("reject an image without a signature", func(ctx SpecContext) {
		images.replaceChart(ctx, images.other(ctx, "--label=other=true"))
		images.sign(ctx, images.chart(version))
		Expect(verify(ctx).err).To(MatchError(ContainSubstring("no signatures found")))
	}, SpecTimeout(timeout))

	It("reject an image with another layer", func(ctx SpecContext) {
		layer := filepath.Join(GinkgoT().TempDir(), "layer.tar")
		Expect(os.WriteFile(filepath.Join(filepath.Dir(layer), "warrantgate"), []byte("another"), 0o600)).To(Succeed())
		run(ctx, filepath.Dir(layer), nil, "tar", "--create", "--file="+layer, "warrantgate")
		images.replaceChart(ctx, images.other(ctx, "--append="+layer))
		images.sign(ctx, images.chart(version))
		Expect(verify(ctx).err).To(MatchError(ContainSubstring("no signatures found")))
	}, SpecTimeout(timeout))

	It("reject an image that was signed with another key", func(ctx SpecContext) {
		other := GinkgoT().TempDir()
		run(ctx, other, []string{"COSIGN_PASSWORD="}, sources.bin("cosign"), "generate-key-pair")
		images.replaceChart(ctx, images.crane(ctx, "digest", images.address+"/warrantgate:v"+snapshot))
		run(ctx, other, []string{"COSIGN_PASSWORD="}, sources.bin("cosign"), append(append([]string{"sign"}, signing(filepath.Join(other, "cosign.key"))...),
			images.chart("")+"@"+images.crane(ctx, "digest", images.chart(version)))...)
		Expect(verify(ctx).err).To(MatchError(ContainSubstring("failed to verify signature")))
	}, SpecTimeout(timeout))
})

// attested returns the predicate of the only attestation of a kind that the key of the releases signed for an image.
func attested(ctx context.Context, kind, image string) string {
	GinkgoHelper()
	printed := run(ctx, sources.dir, nil, sources.bin("cosign"), append(append([]string{"verify-attestation", "--type=" + kind}, signer()...), image)...)
	var envelope struct{ Payload []byte }
	Expect(json.Unmarshal([]byte(printed), &envelope)).To(Succeed())
	var statement struct{ Predicate json.RawMessage }
	Expect(json.Unmarshal(envelope.Payload, &statement)).To(Succeed())
	return string(statement.Predicate)
}

// verified are the names of the verified images and charts, or the errors.
type verified struct {
	chart, image string
	err          error
}

// verify runs the commands of the README unchanged, except for the registry and the key of the suite.
func verify(ctx context.Context) verified {
	GinkgoHelper()
	root, err := charttest.Root()
	Expect(err).NotTo(HaveOccurred())
	readme, err := os.ReadFile(filepath.Join(root, "charts", "warrantgate", "README.md"))
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(readme), "\n## Verify a release\n")
	Expect(found).To(BeTrue())
	_, commands, found := strings.Cut(section, "\n```sh\n")
	Expect(found).To(BeTrue())
	commands, _, found = strings.Cut(commands, "\n```\n")
	Expect(found).To(BeTrue())
	// The first lines depend on the signer, the others are the same for all users.
	_, commands, found = strings.Cut(commands, "\n\n")
	Expect(found).To(BeTrue())

	dir := GinkgoT().TempDir()
	script := "registry=" + images.address + " version=" + version + " signer='" + strings.Join(signer(), " ") + "'\n" +
		"helm() { command helm \"$@\" --plain-http; }\ncrane() { command crane \"$@\" --insecure; }\n" + commands + "\nprintf '%s %s' \"$chart\" \"$image\" >verified\n"
	result := attempt(ctx, dir, []string{"PATH=" + filepath.Dir(sources.bin("helm")) + ":" + os.Getenv("PATH"), "HOME=" + dir}, "sh", "-c", script)
	if result.err != nil {
		return verified{err: result.err}
	}
	names, err := os.ReadFile(filepath.Join(dir, "verified"))
	Expect(err).NotTo(HaveOccurred())
	chart, image, _ := strings.Cut(string(names), " ")
	return verified{chart: chart, image: image}
}

// signer are the arguments with the expected signer.
func signer() []string {
	return []string{"--key=" + strings.TrimSuffix(sources.key, ".key") + ".pub", "--insecure-ignore-tlog=true", "--allow-insecure-registry", "--allow-http-registry"}
}

// signing are the arguments that sign with a key.
func signing(key string) []string {
	return []string{"--key=" + key, "--yes", "--use-signing-config=false", "--tlog-upload=false", "--allow-insecure-registry", "--allow-http-registry"}
}

// chart is the chart's name in the registry, with a version if there is one.
func (r *registry) chart(version string) string {
	name := r.address + "/charts/warrantgate"
	if version == "" {
		return name
	}
	return name + ":" + version
}

// crane runs crane.
func (r *registry) crane(ctx context.Context, verb string, args ...string) string {
	GinkgoHelper()
	return strings.TrimSpace(run(ctx, sources.dir, nil, sources.bin("crane"), append([]string{verb, "--insecure"}, args...)...))
}

// sign signs the current digest of a name with the key of the releases.
func (r *registry) sign(ctx context.Context, name string) {
	GinkgoHelper()
	repository, _, _ := strings.Cut(strings.TrimPrefix(name, r.address), ":")
	run(ctx, sources.dir, sources.environment(), sources.bin("cosign"),
		append(append([]string{"sign"}, signing(sources.key)...), r.address+repository+"@"+r.crane(ctx, "digest", name))...)
}

// other pushes the image of the release with a change, and returns its digest.
func (r *registry) other(ctx context.Context, change string) string {
	GinkgoHelper()
	name := r.address + "/warrantgate:other"
	r.crane(ctx, "mutate", change, "--platform=linux/amd64", "--tag="+name, r.address+"/warrantgate:v"+version)
	return r.crane(ctx, "digest", name)
}

// replaceChart pushes, under the version of the release, a chart that differs in the digest of the image.
func (r *registry) replaceChart(ctx context.Context, digest string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	run(ctx, dir, nil, "tar", "--extract", "--gzip", "--file="+sources.dist("warrantgate-"+version+".tgz"))
	values := filepath.Join(dir, "warrantgate", "values.yaml")
	content, err := os.ReadFile(values)
	Expect(err).NotTo(HaveOccurred())
	named := r.crane(ctx, "digest", r.address+"/warrantgate:v"+version)
	Expect(string(content)).To(ContainSubstring(named))
	Expect(os.WriteFile(values, []byte(strings.ReplaceAll(string(content), named, digest)), 0o600)).To(Succeed())
	run(ctx, dir, nil, sources.bin("helm"), "package", "warrantgate")
	run(ctx, dir, nil, sources.bin("helm"), "push", "--plain-http", "warrantgate-"+version+".tgz", "oci://"+r.address+"/charts")
}
