//go:build e2e

package release_test

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/podtest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

const (
	helmRelease, namespace = charttest.Release, charttest.Namespace
	// broken is a policy that Keystone cannot load.
	broken = "identity:list_users: !\n"
)

// selected are the labels of the policies that the gate checks.
var selected = map[string]string{"holds": "keystone-policy"}

var _ = Describe("The content that is pulled from the registry", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = startWorld(ctx) }, NodeTimeout(timeout))

	It("is a static program that does not run as root, and CA certificates", func(ctx SpecContext) {
		image := images.address + "/warrantgate:v" + version
		for _, platform := range platforms() {
			arch, found := strings.CutPrefix(platform, "linux_")
			if !found {
				continue
			}
			var config struct {
				Architecture string
				Config       struct {
					User       string
					Entrypoint []string
				}
			}
			Expect(json.Unmarshal([]byte(images.crane(ctx, "config", "--platform=linux/"+arch, image)), &config)).To(Succeed())
			Expect(config.Architecture).To(Equal(arch))
			Expect(config.Config.User).To(Equal("65532:65532"))
			Expect(config.Config.Entrypoint).To(Equal([]string{"/warrantgate"}))
		}
		dir := pull(ctx, image)
		Expect(files(dir)).To(ConsistOf("warrantgate", "etc/ssl/certs/ca-certificates.crt"))
		program, err := elf.Open(filepath.Join(dir, "warrantgate"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(program.Close)
		Expect(program.ImportedLibraries()).To(BeEmpty(), "the image has none")
		Expect(os.ReadFile(filepath.Join(dir, "etc", "ssl", "certs", "ca-certificates.crt"))).To(ContainSubstring("BEGIN CERTIFICATE"))
	}, SpecTimeout(timeout))

	It("is installed in the version of an earlier commit", func(ctx SpecContext) {
		w.helm(ctx, "install", "oci://"+images.chart(""), "--version="+snapshot)
		w.serve(ctx, "v"+snapshot)
	}, SpecTimeout(timeout))

	It("is upgraded to the release after its verification", func(ctx SpecContext) {
		result := verify(ctx)
		Expect(result.err).NotTo(HaveOccurred())
		w.helm(ctx, "upgrade", result.chart)
		w.serve(ctx, "v"+version)
	}, SpecTimeout(timeout))

	It("is uninstalled, after which no write is denied", func(ctx SpecContext) {
		_, err := charttest.Helm(ctx, "", "uninstall", helmRelease, "--namespace="+namespace, "--kubeconfig="+w.api.AdminKubeconfig(), "--wait", "--timeout=30s")
		Expect(err).NotTo(HaveOccurred())
		configurations := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		Expect(w.admin.List(ctx, configurations)).To(Succeed())
		Expect(configurations.Items).To(BeEmpty())
		err = w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: helmRelease}, &appsv1.Deployment{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		Expect(err).To(HaveOccurred())
		Eventually(w.checkCalled).WithContext(ctx).Should(MatchError(errAdmitted))
	}, SpecTimeout(timeout))
})

// errAdmitted means that a broken policy is not denied.
var errAdmitted = errors.New("a broken policy was admitted")

// world is an API server in which the chart is installed.
type world struct {
	api   *kubetest.Server
	admin client.Client
	// values are the values of the chart, port is the port of the webhooks.
	values map[string]any
	port   int
	// running is the serving process, if there is one.
	running *process.Process
}

func startWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{}
	w.api = suite.KubeAPIServer(ctx)
	w.admin = w.api.Client()
	ports, err := process.FreePorts(ctx, 1)
	Expect(err).NotTo(HaveOccurred())
	w.port = ports[0]
	w.values = map[string]any{
		"kubernetes":   map[string]any{"server": strings.TrimSuffix(w.api.Config().Host, "/")},
		"service":      map[string]any{"port": w.port},
		"drainSeconds": 1, // no other pod would serve meanwhile
		"config": map[string]any{
			"openStack":      map[string]any{"authURLs": []string{"https://keystone.invalid/v3"}},
			"keystonePolicy": map[string]any{"selector": map[string]any{"matchLabels": selected}},
		},
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": string(w.api.Config().CAData)},
		},
	} {
		Expect(w.admin.Create(ctx, object)).To(Succeed())
	}
	return w
}

// helm installs or upgrades to a chart in the registry, and makes the API server reach the serving process on this machine.
func (w *world) helm(ctx context.Context, verb, chart string, args ...string) {
	GinkgoHelper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: helmRelease}}
	// This Service was changed for this machine. helm creates it again.
	Expect(client.IgnoreNotFound(w.admin.Delete(ctx, service))).To(Succeed())
	values, err := json.Marshal(w.values)
	Expect(err).NotTo(HaveOccurred())
	_, err = charttest.Helm(ctx, string(values), append([]string{
		verb, helmRelease, chart, "--plain-http", "--values=-", "--namespace=" + namespace, "--kubeconfig=" + w.api.AdminKubeconfig(),
	}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	suite.RouteService(ctx, w.admin, namespace, helmRelease)
}

// serve does the work of a kubelet for a pod of the Deployment: it pulls the image, mounts the volumes, and runs the program with the
// arguments. It ends the previous process, and returns once a gate denies a broken policy. The program must have the version.
func (w *world) serve(ctx context.Context, version string) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: helmRelease}, deployment)).To(Succeed())
	pod := deployment.Spec.Template.Spec
	Expect(pod.Containers[0].Image).To(HavePrefix(images.address + "/warrantgate@sha256:"))
	Expect(deployment.Labels).To(HaveKeyWithValue("app.kubernetes.io/version", version))
	dir := filepath.Join(w.api.Dir(), version)
	Expect(podtest.Mount(ctx, w.admin, namespace, pod, dir)).To(Succeed())
	ports, err := process.FreePorts(ctx, 2)
	Expect(err).NotTo(HaveOccurred())
	metrics, probes := process.Loopback(ports[0]), process.Loopback(ports[1])
	if w.running != nil {
		Expect(w.running.Stop()).To(Succeed())
	}
	w.running, err = process.Start(process.Options{
		Name: "warrantgate", LogFile: filepath.Join(dir, "warrantgate.log"), Binary: filepath.Join(pull(ctx, pod.Containers[0].Image), "warrantgate"),
		Args: podtest.Args(pod.Containers[0], dir, map[string]string{":9443": ":" + strconv.Itoa(w.port), ":8080": metrics, ":8081": probes}),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.running.Stop)
	Expect(w.running.WaitReady(ctx, "http://"+probes+"/readyz", &rest.Config{})).To(Succeed())
	Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
	Expect(process.Metric(ctx, http.DefaultClient, "http://"+metrics, "warrantgate_build_info", map[string]string{"version": version})).To(BeEquivalentTo(1))
}

// checkCalled returns an error unless the API server calls the gates.
func (w *world) checkCalled(ctx context.Context) error {
	err := w.admin.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "canary", Labels: selected}, Data: map[string]string{"policy.yaml": broken},
	}, client.DryRunAll)
	switch {
	case err == nil:
		return errAdmitted
	case strings.Contains(err.Error(), `admission webhook "policies.keystone.warrantgate.dev" denied the request`):
		return nil
	}
	return err
}

// pull returns a folder with the files of an image, for this machine.
func pull(ctx context.Context, image string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	archive := filepath.Join(GinkgoT().TempDir(), "image.tar")
	images.crane(ctx, "export", "--platform=linux/"+runtime.GOARCH, image, archive)
	run(ctx, dir, nil, "tar", "--extract", "--file="+archive)
	return dir
}

// files are the paths of the files below a folder.
func files(dir string) []string {
	GinkgoHelper()
	var found []string
	Expect(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		found = append(found, relative)
		return err
	})).To(Succeed())
	return found
}
