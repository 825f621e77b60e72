//go:build e2e

package chartkcp_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/podtest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

const release, namespace = charttest.Release, charttest.Namespace

// selected are the labels of gated policies for Keystone.
var selected = map[string]string{"holds": "keystone-policy"}

// world is an API server with the chart in it, beside a kcp.
type world struct {
	api  *kubetest.Server
	kcp  *kcptest.Server
	host client.Client
	// kubelet runs the Jobs and Pods of helm.
	kubelet *podtest.Kubelet
	// values are those of the chart, in JSON, and defaults those at the start.
	values, defaults string
	// addresses are the addresses of warrantgate, by those of its container.
	addresses map[string]string
}

// newWorld starts a kcp of one shard and an API server, which stop with the suite, and creates the objects that must exist before the chart is
// installed.
func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{}
	DeferCleanup(w.stop)
	servers, starting := errgroup.WithContext(ctx)
	servers.Go(func() (err error) {
		w.kcp, err = kcptest.Start(starting)
		return err
	})
	servers.Go(func() (err error) {
		w.api, err = kubetest.Start(starting)
		return err
	})
	Expect(servers.Wait()).To(Succeed())
	w.host = w.api.Client()
	w.prepare(ctx)
	w.kubelet = &podtest.Kubelet{Client: w.host, Namespace: namespace, Binary: suite.Binary(asset.Warrantgate), Dir: filepath.Join(w.api.Dir(), "pods")}
	suite.InBackground(ctx, w.kubelet.Run)
	return w
}

// stop stops the servers that have started.
func (w *world) stop() {
	if w.api != nil {
		Expect(w.api.Stop()).To(Succeed())
	}
	if w.kcp != nil {
		Expect(w.kcp.Stop()).To(Succeed())
	}
}

// prepare creates the objects that an operator creates before "helm install", and those that a cluster has in each namespace.
func (w *world) prepare(ctx context.Context) {
	GinkgoHelper()
	ports, err := process.FreePorts(ctx, 3)
	Expect(err).NotTo(HaveOccurred())
	w.addresses = map[string]string{
		":9443": process.Loopback(ports[0]), ":8080": process.Loopback(ports[1]), ":8081": process.Loopback(ports[2]),
	}
	admin, err := os.ReadFile(w.kcp.AdminKubeconfig())
	Expect(err).NotTo(HaveOccurred())
	Expect(w.host.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	Expect(w.host.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: w.named("kube-root-ca.crt"), Data: map[string]string{"ca.crt": string(w.api.Config().CAData)},
	})).To(Succeed())
	for name, data := range map[string]map[string][]byte{
		"kcp-admin":  {"kubeconfig": admin},
		"kcp-reader": {"kubeconfig": w.kubeconfigOf("kcp-reader", w.kcp.User("root", kcptest.WarrantgateUser))},
		"kcp-writer": {"kubeconfig": w.kubeconfigOf("kcp-writer", w.kcp.User("root", "warrantgate-writer", kcptest.LogicalClusterAdmins))},
	} {
		Expect(w.host.Create(ctx, &corev1.Secret{ObjectMeta: w.named(name), Data: data})).To(Succeed())
	}
	values, err := json.Marshal(map[string]any{
		"certificates": map[string]any{"extraDNSNames": []string{"localhost"}},
		"kubernetes":   map[string]any{"server": strings.TrimSuffix(w.api.Config().Host, "/")},
		"service":      map[string]any{"port": ports[0]},
		"drainSeconds": 1,
		"config": map[string]any{
			"audit": map[string]any{"mode": "Off"}, "cluster": map[string]any{"impersonation": map[string]any{"mode": "Off"}},
			"machine": map[string]any{"mode": "Off"}, "keystonePolicy": map[string]any{"selector": map[string]any{"matchLabels": selected}},
		},
		"kcp": map[string]any{
			"enabled": true, "url": fmt.Sprintf("https://localhost:%d", ports[0]),
			"kubeconfigSecret": "kcp-reader", "logicalClusterKubeconfigSecret": "kcp-writer",
			"install": map[string]any{
				"enabled": true, "kubeconfigSecret": "kcp-admin", "context": "root",
				"shardKubeconfigSecrets": []string{"kcp-admin"}, "shardContext": "system:admin",
			},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	w.values, w.defaults = string(values), string(values)
}

func (w *world) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// kubeconfigOf is a kubeconfig of a user of kcp.
func (w *world) kubeconfigOf(name string, config *rest.Config) []byte {
	GinkgoHelper()
	path := filepath.Join(w.kcp.Dir(), name+".kubeconfig")
	Expect(access.WriteKubeconfig(path, name, config)).To(Succeed())
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return content
}

// helm runs a helm command on the release.
func (w *world) helm(ctx context.Context, verb string, args ...string) error {
	_, err := charttest.Helm(ctx, w.values, append([]string{verb, release, "--namespace=" + namespace, "--kubeconfig=" + w.api.AdminKubeconfig(), "--timeout=3m"}, args...)...)
	return err
}

// install installs the release with its hooks, and runs serve as soon as there is a Deployment: the Job that registers the gates of kcp succeeds
// once serve answers.
func (w *world) install(ctx context.Context) *process.Process {
	GinkgoHelper()
	chart, err := charttest.Chart()
	Expect(err).NotTo(HaveOccurred())
	installed := make(chan error, 1)
	go func() { installed <- w.helm(ctx, "install", chart, "--values=-") }()
	Eventually(func() error {
		select {
		case err := <-installed:
			return StopTrying("helm has ended, and there is no Deployment").Wrap(err)
		default:
			return w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release}, &appsv1.Deployment{})
		}
	}).WithContext(ctx).WithTimeout(startTimeout).Should(Succeed()) // helm may be built first
	serve := w.serve(ctx)
	Expect(<-installed).NotTo(HaveOccurred())
	suite.RouteService(ctx, w.host, namespace, release)
	return serve
}

// upgrade upgrades the release with its hooks.
func (w *world) upgrade(ctx context.Context) {
	GinkgoHelper()
	chart, err := charttest.Chart()
	Expect(err).NotTo(HaveOccurred())
	w.change(ctx, "upgrade", chart, "--values=-")
}

// rollback replaces the release by the one before, with its hooks.
func (w *world) rollback(ctx context.Context) {
	GinkgoHelper()
	w.change(ctx, "rollback")
}

func (w *world) change(ctx context.Context, verb string, args ...string) {
	GinkgoHelper()
	// Remove the changes of RouteService, which are not part of the chart.
	Expect(w.host.Delete(ctx, &corev1.Service{ObjectMeta: w.named(release)})).To(Succeed())
	Expect(w.helm(ctx, verb, args...)).To(Succeed())
	suite.RouteService(ctx, w.host, namespace, release)
}

// mount writes the files of the volumes of the Deployment's pods, or only of those with the given names, and returns the folder.
func (w *world) mount(ctx context.Context, only ...string) string {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release}, deployment)).To(Succeed())
	dir := filepath.Join(w.api.Dir(), "serve")
	Expect(podtest.Mount(ctx, w.host, namespace, deployment.Spec.Template.Spec, dir, only...)).To(Succeed())
	return dir
}

// serve runs the Deployment's container until the end of the spec or container that calls it, and waits until it is ready.
func (w *world) serve(ctx context.Context) *process.Process {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release}, deployment)).To(Succeed())
	pod := deployment.Spec.Template.Spec
	Expect(pod.Containers[0].Env).To(BeEmpty())
	dir := w.mount(ctx)
	serve, err := process.Start(process.Options{
		Name: "warrantgate", LogFile: filepath.Join(dir, "warrantgate.log"), Binary: w.kubelet.Binary, Args: podtest.Args(pod.Containers[0], dir, w.addresses),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(serve.Stop)
	Expect(serve.WaitReady(ctx, "http://"+w.addresses[":8081"]+"/readyz", &rest.Config{})).To(Succeed())
	return serve
}

// serves is the serving certificate of warrantgate, in PEM.
func (w *world) serves(ctx context.Context) ([]byte, error) {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // only API servers verify it
	conn, err := dialer.DialContext(ctx, "tcp", w.addresses[":9443"])
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil, errors.New("a connection without TLS")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.ConnectionState().PeerCertificates[0].Raw}), nil
}
