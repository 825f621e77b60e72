//go:build e2e

package release_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/process"
)

// tools are the programs that a release needs, in the repository's bin.
var tools = []string{"goreleaser", "cosign", "crane", "sbom", "oci", "helm"}

// clone is a clone of this repository at its last commit, in which releases are made.
type clone struct {
	dir, key string
	registry *registry
	// tag is the tag to release. Without it, a snapshot is built.
	tag string
}

// newClone clones the repository with its built tools, and creates a signing key.
func newClone(ctx context.Context, r *registry) *clone {
	GinkgoHelper()
	root, err := charttest.Root()
	Expect(err).NotTo(HaveOccurred())
	c := &clone{dir: filepath.Join(GinkgoT().TempDir(), "warrantgate"), registry: r}
	run(ctx, root, nil, "git", "clone", "--quiet", "--no-tags", root, c.dir)
	Expect(os.Mkdir(filepath.Join(c.dir, "bin"), 0o700)).To(Succeed())
	for _, tool := range tools {
		built := filepath.Join(root, "bin", tool)
		Expect(built).To(BeAnExistingFile(), "make e2e-release builds it")
		Expect(os.Symlink(built, filepath.Join(c.dir, "bin", tool))).To(Succeed())
	}
	keys := GinkgoT().TempDir()
	run(ctx, keys, []string{"COSIGN_PASSWORD="}, filepath.Join(root, "bin", "cosign"), "generate-key-pair")
	c.key = filepath.Join(keys, "cosign.key")
	return c
}

// before returns the commit of the last release before the last commit. Without a release it returns the commit before the last,
// and without history the last commit. The tools and the suite are of the last commit.
func (c *clone) before(ctx context.Context) string {
	GinkgoHelper()
	root, err := charttest.Root()
	Expect(err).NotTo(HaveOccurred())
	// The clone has no tags.
	last := attempt(ctx, root, nil, "git", "describe", "--tags", "--match=v[0-9]*", "--abbrev=0", "HEAD^")
	for _, name := range []string{strings.TrimSpace(last.out), "HEAD^", "HEAD"} {
		if found := attempt(ctx, root, nil, "git", "rev-parse", "--verify", "--quiet", name+"^{commit}"); name != "" && found.err == nil {
			return strings.TrimSpace(found.out)
		}
	}
	Fail("git knows no commit")
	return ""
}

// environment is the environment for signing with the key and pushing to the registry. No module is downloaded.
func (c *clone) environment() []string {
	return []string{
		"COSIGN_KEY=" + c.key, "COSIGN_PASSWORD=", "REGISTRY=" + c.registry.address, "INSECURE=1", "GOPROXY=off", "GITHUB_REPOSITORY_OWNER=example",
		"ONE_PLATFORM=" + strconv.FormatBool(onePlatform()), "RELEASE_API=" + page.address, "GITHUB_TOKEN=none",
	}
}

// make builds the release.
func (c *clone) make(ctx context.Context) {
	GinkgoHelper()
	Expect(c.attemptMake(ctx, nil, "release-snapshot").err).NotTo(HaveOccurred())
}

// release builds the release of a tag, publishes and signs the image and the chart, and uploads the files.
func (c *clone) release(ctx context.Context) {
	GinkgoHelper()
	Expect(c.attemptMake(ctx, nil, "release").err).NotTo(HaveOccurred())
}

// attemptMake runs make with variables in addition to those of the clone. The tools are not built again, even if their sources are newer
// here.
func (c *clone) attemptMake(ctx context.Context, env []string, args ...string) outcome {
	args = append([]string{"--no-print-directory", "TAG=" + c.tag}, args...)
	for _, tool := range tools {
		args = append(args, "--old-file=bin/"+tool)
	}
	return attempt(ctx, c.dir, append(c.environment(), env...), "make", args...)
}

// publish pushes and signs the image and the chart.
func (c *clone) publish(ctx context.Context) {
	GinkgoHelper()
	run(ctx, c.dir, c.environment(), ".ci/publish", c.registry.address)
}

// chartVersion is the version in the sources of the chart.
func (c *clone) chartVersion() string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(c.dir, "charts", "warrantgate", "Chart.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var chart struct{ Version string }
	Expect(yaml.Unmarshal(content, &chart)).To(Succeed())
	return chart.Version
}

func (c *clone) git(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return strings.TrimSpace(run(ctx, c.dir, nil, "git", args...))
}

// version is the version of the last built release.
func (c *clone) version() string {
	GinkgoHelper()
	var made struct{ Version string }
	Expect(json.Unmarshal([]byte(c.read("metadata.json")), &made)).To(Succeed())
	return made.Version
}

// read returns a file of dist.
func (c *clone) read(name string) string {
	GinkgoHelper()
	content, err := os.ReadFile(c.dist(name))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func (c *clone) dist(name string) string { return filepath.Join(c.dir, "dist", name) }

// bin is the path of a tool.
func (c *clone) bin(tool string) string { return filepath.Join(c.dir, "bin", tool) }

// registry is the one of go-containerregistry on this machine, behind a proxy that can change a blob on the way.
type registry struct {
	// address is the address of the proxy.
	address string
	// changed is the digest of the blob that the proxy changes, or nil. The registry itself does not return a blob with another digest.
	changed atomic.Pointer[string]
}

func startRegistry(ctx context.Context) *registry {
	GinkgoHelper()
	root, err := charttest.Root()
	Expect(err).NotTo(HaveOccurred())
	ports, err := process.FreePorts(ctx, 1)
	Expect(err).NotTo(HaveOccurred())
	address := process.Loopback(ports[0])
	serve, err := process.Start(process.Options{
		Name: "registry", LogFile: filepath.Join(GinkgoT().TempDir(), "registry.log"), Binary: filepath.Join(root, "bin", "crane"),
		Args: []string{"registry", "serve", "--address=" + address, "--disk=" + GinkgoT().TempDir()},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(serve.Stop)
	r := &registry{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.ModifyResponse = r.change
	front := httptest.NewServer(proxy)
	DeferCleanup(front.Close)
	r.address = strings.TrimPrefix(front.URL, "http://")
	Eventually(func() error {
		return attempt(ctx, root, nil, filepath.Join(root, "bin", "crane"), "catalog", "--insecure", r.address).err
	}).Should(Succeed())
	return r
}

// change changes one byte of that blob: the operating system in the header of gzip, which readers ignore, so that only the digest differs.
func (r *registry) change(response *http.Response) error {
	digest := r.changed.Load()
	if digest == nil || response.Request.Method != http.MethodGet || !strings.HasSuffix(response.Request.URL.Path, "/blobs/"+*digest) {
		return nil
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	content[9] ^= 1
	response.Body = io.NopCloser(bytes.NewReader(content))
	return nil
}

// outcome is the output of a command, and its error.
type outcome struct {
	out string
	err error
}

// attempt runs a command in a folder, with variables in addition to those of this process.
func attempt(ctx context.Context, dir string, env []string, name string, args ...string) outcome {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), env...)
	var out, errOut strings.Builder
	command.Stdout, command.Stderr = &out, &errOut
	err := command.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s%s", filepath.Base(name), strings.Join(args, " "), err, errOut.String(), out.String())
	}
	return outcome{out: out.String(), err: err}
}

// run is attempt for a command that has to succeed. It returns the output of the command.
func run(ctx context.Context, dir string, env []string, name string, args ...string) string {
	GinkgoHelper()
	result := attempt(ctx, dir, env, name, args...)
	Expect(result.err).NotTo(HaveOccurred())
	return result.out
}
