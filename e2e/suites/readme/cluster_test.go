//go:build e2e

package readme_test

import (
	"cmp"
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/podtest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// namespace is the namespace of the release in the README. apiServerName is the name by which Pods call the API server.
const namespace, apiServerName = "warrantgate", "kubernetes.default.svc"

// cluster is a real kube-apiserver with the other parts of a cluster: a network with Services, a kubelet that runs Pods, and cert-manager.
// Fakes replace these three, because they cannot run on a machine without containers.
type cluster struct {
	admin      client.Client
	kubeconfig string
	kubelet    *podtest.Kubelet
}

// newCluster starts a cluster, which ends with the spec.
func newCluster(ctx context.Context) *cluster {
	GinkgoHelper()
	ports, err := process.FreePorts(ctx, 3)
	Expect(err).NotTo(HaveOccurred())
	network := startNetwork(ctx)
	// Servers, Pods and kcp call Services by a proxy, which is not used for addresses of this machine.
	for name, value := range map[string]string{"HTTPS_PROXY": network.url, "https_proxy": network.url, "NO_PROXY": "", "no_proxy": ""} {
		GinkgoT().Setenv(name, value)
	}

	ca, err := access.NewCA("cluster")
	Expect(err).NotTo(HaveOccurred())
	serving, err := ca.ServingPair(apiServerName, func(c *x509.Certificate) { c.DNSNames = []string{apiServerName} })
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	Expect(os.WriteFile(certFile, serving.Certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(keyFile, serving.Key, 0o600)).To(Succeed())
	api := suite.KubeAPIServer(ctx, "--tls-sni-cert-key="+certFile+","+keyFile+":"+apiServerName)
	network.add(apiServerName, strings.TrimSuffix(strings.TrimPrefix(api.Config().Host, "https://"), "/"))
	network.add(namespace+"."+namespace+".svc", process.Loopback(ports[0]))
	Expect(api.ApplyCRDs(ctx, crds()...)).To(Succeed())

	c := &cluster{admin: api.Client(), kubeconfig: api.AdminKubeconfig()}
	c.createNamespace(ctx, namespace)
	c.createRootCA(ctx, api, ca)
	c.kubelet = &podtest.Kubelet{
		Client: c.admin, Namespace: namespace, Binary: suite.Binary(asset.Warrantgate), Dir: filepath.Join(api.Dir(), "pods"),
		Addresses: map[string]string{":9443": process.Loopback(ports[0]), ":8080": process.Loopback(ports[1]), ":8081": process.Loopback(ports[2])},
	}
	suite.InBackground(ctx, c.kubelet.Run)
	suite.InBackground(ctx, (&certManager{client: c.admin, ca: ca}).run)
	return c
}

// newTerminal is a terminal with kubectl and helm, whose user is the administrator of the cluster.
func (c *cluster) newTerminal(ctx context.Context) *terminal {
	GinkgoHelper()
	helm := cmp.Or(os.Getenv(charttest.HelmEnv), filepath.Join(root(), "bin", "helm"))
	Expect(helm).To(BeAnExistingFile(), "make bin/helm builds it")
	return newTerminal(ctx, map[string]string{"helm": "exec " + helm + ` "$@"`}, "KUBECONFIG="+c.kubeconfig)
}

func (c *cluster) createNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(c.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

// createRootCA creates the ConfigMap that Kubernetes creates in each namespace.
func (c *cluster) createRootCA(ctx context.Context, api *kubetest.Server, ca *access.CA) {
	GinkgoHelper()
	Expect(c.admin.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-root-ca.crt"},
		Data:       map[string]string{"ca.crt": string(slices.Concat(api.Config().CAData, ca.PEM()))},
	})).To(Succeed())
}

// createSecret creates a Secret that an operator creates before "helm install".
func (c *cluster) createSecret(ctx context.Context, in, name string, data map[string][]byte) {
	GinkgoHelper()
	Expect(c.admin.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}, Data: data})).To(Succeed())
}

// kubeconfigOf is a kubeconfig of a user.
func kubeconfigOf(name string, config *rest.Config) []byte {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(access.WriteKubeconfig(path, name, config)).To(Succeed())
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return content
}

// crds are the CRDs of cert-manager and of Prometheus' operator that the examples use. They preserve all fields.
func crds() []*apiextensionsv1.CustomResourceDefinition {
	var made []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range []schema.GroupVersionKind{
		{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}, {Group: "cert-manager.io", Version: "v1", Kind: "Issuer"},
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}, {Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
	} {
		made = append(made, kubetest.OpenCRD(kind))
	}
	return made
}
