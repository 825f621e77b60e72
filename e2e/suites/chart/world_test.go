//go:build e2e

package chart_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// release and namespace are those of the chart. All objects have the name of the release.
	release, namespace = charttest.Release, charttest.Namespace
	// authorName is the user who writes policies, clusters and controller managers. It has no other permissions.
	authorName = "author"
	// certificateName is the Secret of the certificate that the chart generates.
	certificateName = release + "-certificate"
	// accountName is warrantgate's client at CloudSigma. region is the region of its clusters.
	accountName, region = "kube-dc-partner", "next"
	// rootCA is the ConfigMap that Kubernetes creates in each namespace.
	rootCA = "kube-root-ca.crt"
)

// world is the API server with the chart in it, for one story.
type world struct {
	admin, author client.Client
	// cloud is nil without addCloud.
	cloud *cloudsigmatest.Cloud
	// dir is the directory of the story's files.
	dir string
	// values are the values of the chart.
	values map[string]any
	// tried are the rules of the release's roles that specs have removed.
	tried []string
	// port is the port of the webhooks.
	port int
	pod  pod
	// routed is held by users of the Service, and locked while the Service does not exist.
	routed sync.RWMutex
}

// newWorld installs the chart, with every gate on and a certificate that it generates, until the end of the spec or container that calls it.
func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := startWorld(ctx)
	w.addCloud(ctx)
	w.install(ctx)
	return w
}

// startWorld is newWorld without the chart and without a CloudSigma.
func startWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{admin: api.Client()}
	var err error
	w.dir, err = os.MkdirTemp(api.Dir(), "story-")
	Expect(err).NotTo(HaveOccurred())
	author, err := api.User(authorName)
	Expect(err).NotTo(HaveOccurred())
	w.author = suite.KubeClient(api, author)
	ports, err := process.FreePorts(ctx, 1)
	Expect(err).NotTo(HaveOccurred())
	w.port = ports[0]
	w.values = map[string]any{
		"kubernetes":   map[string]any{"server": strings.TrimSuffix(api.Config().Host, "/")},
		"service":      map[string]any{"port": w.port},
		"drainSeconds": 1, // no other pod would serve during that time
		"config": map[string]any{
			"openStack":         map[string]any{"authURLs": []string{"https://keystone.invalid/v3"}},
			"controllerManager": map[string]any{"selector": map[string]any{"matchLabels": ofManagers}},
			"keystonePolicy":    map[string]any{"selector": map[string]any{"matchLabels": selected}},
		},
	}
	return w
}

// addCloud starts a CloudSigma, and writes the Secret with the account by which warrantgate acts for its users. From then on, the chart is
// installed with that cloud, and with the Secret in the namespace of the provider.
func (w *world) addCloud(ctx context.Context) {
	GinkgoHelper()
	var err error
	w.cloud, err = cloudsigmatest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.cloud.Stop)
	DeferCleanup(func() {
		Expect(w.cloud.Violations()).To(BeEmpty(), "the cloud received unknown requests")
	})
	account := w.cloud.AddClient(accountName)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.newNamespace(ctx), Name: "cloudsigma-impersonation"},
		StringData: map[string]string{"oauth-url": w.cloud.OAuthURL(), "client-id": account.ID, "client-secret": account.Secret},
	}
	Expect(w.admin.Create(ctx, secret)).To(Succeed())
	caFile, err := w.cloud.CAFile(w.dir)
	Expect(err).NotTo(HaveOccurred())
	w.values["cloudSigma"] = map[string]any{"enabled": true, "secret": map[string]any{"namespace": secret.Namespace, "name": secret.Name}}
	config := w.values["config"].(map[string]any) //nolint:errcheck,forcetypeassert // startWorld has put it there
	config["cloudSigma"] = map[string]any{"api": w.cloud.APITemplate(), "serviceProviderAPI": w.cloud.ServiceProviderTemplate(), "caFile": caFile}
}

// prepare creates the objects that exist before an installation, and those that a controller of Kubernetes would create for the
// pods. The author has permissions in the whole cluster.
func prepare(ctx context.Context) {
	GinkgoHelper()
	Expect(api.ApplyCRDs(ctx,
		kubetest.OpenCRD(infrastructure.WithKind("OpenStackCluster")), kubetest.OpenCRD(infrastructure.WithKind("OpenStackMachine")))).To(Succeed())
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: rootCA},
			Data:       map[string]string{"ca.crt": string(api.Config().CAData)},
		},
	} {
		Expect(api.Client().Create(ctx, object)).To(Succeed())
	}
	Expect(access.Grant(ctx, api.Client(), rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: authorName},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "create"}},
		rbacv1.PolicyRule{APIGroups: []string{infrastructure.Group}, Resources: []string{"cloudsigmaclusters"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{appsv1.GroupName}, Resources: []string{"deployments"}, Verbs: []string{"create", "patch"}},
	)).To(Succeed())
}

// install runs helm install, and creates the files of a pod. The release is uninstalled at the end.
func (w *world) install(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // a clean-up has a context of its own
		_, err := w.run(ctx, "uninstall", "--ignore-not-found", "--wait")
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(timeout))
	w.helm(ctx, "install")
	suite.RouteService(ctx, w.admin, namespace, release)
	w.pod = w.newPod(ctx, "pod", w.port)
}

// upgrade upgrades the release with the values of the world and further arguments.
func (w *world) upgrade(ctx context.Context, args ...string) {
	GinkgoHelper()
	// Remove the changes of RouteService, which are not part of the chart.
	Expect(w.admin.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: release}})).To(Succeed())
	w.helm(ctx, "upgrade", args...)
	suite.RouteService(ctx, w.admin, namespace, release)
}

// helm installs or upgrades the release with the values of the world.
func (w *world) helm(ctx context.Context, verb string, args ...string) {
	GinkgoHelper()
	chart, err := charttest.Chart()
	Expect(err).NotTo(HaveOccurred())
	values, err := json.Marshal(w.values)
	Expect(err).NotTo(HaveOccurred())
	_, err = charttest.Helm(ctx, string(values), append([]string{verb, release, chart, "--values=-", "--namespace=" + namespace, "--kubeconfig=" + api.AdminKubeconfig()}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	suite.Patient(ctx, w.admin)
}

// newPod creates the files of a pod of the Deployment in a folder. The pod serves the webhooks on a port.
func (w *world) newPod(ctx context.Context, folder string, port int) pod {
	GinkgoHelper()
	ports, err := process.FreePorts(ctx, 2)
	Expect(err).NotTo(HaveOccurred())
	p := pod{
		dir: filepath.Join(w.dir, folder), binary: suite.Binary(asset.Warrantgate), deployment: client.ObjectKey{Namespace: namespace, Name: release},
		addresses: map[string]string{":9443": ":" + strconv.Itoa(port), ":8080": process.Loopback(ports[0]), ":8081": process.Loopback(ports[1])},
	}
	p.mount(ctx, w.admin)
	return p
}

func (w *world) newNamespace(ctx context.Context) string { return suite.NewNamespace(ctx, w.admin) }

// checkCalled returns an error unless the API server calls the gates, which it does a moment after the webhook configuration is created.
func (w *world) checkCalled(ctx context.Context) error {
	err := w.admin.Create(ctx, policy(metav1.NamespaceDefault, "canary", broken), client.DryRunAll)
	if err == nil {
		return fmt.Errorf("a broken policy was admitted")
	}
	return deniedByGate(err)
}
