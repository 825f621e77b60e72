//go:build e2e

package chartkcp_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// webhookPath is the Secret of webhookPath.existingSecret in the examples for GitOps.
const webhookPath = "warrantgate-webhook-path"

// Platform teams install the chart with its examples: the Secrets come from cert-manager for kcp's Helm chart, or from a script, and Argo CD,
// Flux or Helm installs the chart. The specs do the same with the objects of the example, which the API server accepts.
var _ = Describe("The examples for platform teams", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = begin()
		w.preparePlatform(ctx)
	}, NodeTimeout(specTimeout))

	It("register the gates of the cluster with Argo CD, and remove them first", func(ctx SpecContext) {
		here := w.here()
		values, err := json.Marshal(map[string]any{
			"config": here["config"], "kubernetes": here["kubernetes"], "service": here["service"], "drainSeconds": here["drainSeconds"],
			"certificates": map[string]any{"certManager": map[string]any{"enabled": true}},
			"webhookPath":  map[string]any{"tokens": []string{charttest.Token}},
		})
		Expect(err).NotTo(HaveOccurred())
		argo := newArgoCD(ctx, w.host, string(values))
		var serving *process.Process
		argo.sync(ctx, func() { serving = w.serve(ctx) })
		suite.RouteService(ctx, w.host, namespace, release)
		w.injectCA(ctx)
		check := func() (string, error) {
			out, err := exec.CommandContext(ctx, w.kubelet.Binary, "check", "admission", "kubernetes", "--kubeconfig="+w.api.AdminKubeconfig(),
				"--config="+filepath.Join(w.api.Dir(), "serve", "config", "config.yaml")).CombinedOutput()
			return string(out), err
		}
		Eventually(check).WithContext(ctx).Should(ContainSubstring("policies.keystone.warrantgate.dev: ok\n"))

		argo.remove(ctx)
		Expect(serving.Alive()).To(Succeed())
		Expect(w.host.Get(ctx, client.ObjectKeyFromObject(registered()), registered())).To(MatchError(apierrors.IsNotFound, "is gone"))
		Expect(serving.Stop()).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("work with kcp's Helm chart and Flux", func(ctx SpecContext) {
		w.put(ctx, webhookPath, map[string][]byte{"tokens": []byte(charttest.Token)})
		DeferCleanup(func(ctx SpecContext) { w.remove(ctx, webhookPath) }, NodeTimeout(specTimeout))
		for _, object := range exampleObjects("kcp-chart/users.yaml") {
			w.actAsCertManager(ctx, object)
		}
		objects := exampleObjects("gitops/flux.yaml")
		for _, object := range objects {
			Expect(strict(w.host).Create(ctx, object)).To(Succeed())
		}
		values, found, err := unstructured.NestedMap(objects[1].Object, "spec", "values")
		Expect(found, err).To(BeTrue())
		w.values = w.local(values) // helm-controller runs Helm
		serving := w.install(ctx)
		w.expectGates(ctx, bot, "by-flux")

		Expect(w.helm(ctx, "uninstall", "--wait")).To(Succeed())
		w.expectNoGates(ctx)
		Expect(serving.Stop()).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("work with any other kcp and Helm", func(ctx SpecContext) {
		certificate, key := w.kcp.ClientCA()
		script := exec.CommandContext(ctx, example("kcp/kubeconfigs.sh"), namespace, w.kcp.AdminKubeconfig(), certificate, key)
		script.Env = append(os.Environ(), "KUBECONFIG="+w.api.AdminKubeconfig(), "HOME="+w.api.Dir())
		out, err := script.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))

		values := map[string]any{}
		Expect(yaml.UnmarshalStrict(readExample("kcp.yaml"), &values)).To(Succeed())
		w.values = w.local(values)
		serving := w.install(ctx)
		w.expectGates(ctx, bot, "by-helm")

		Expect(w.helm(ctx, "uninstall", "--wait")).To(Succeed())
		w.expectNoGates(ctx)
		Expect(serving.Stop()).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("work with kcp-operator and Argo CD through the front-proxy", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { w.remove(ctx, webhookPath) }, NodeTimeout(specTimeout))
		w.worksWithOperator(ctx)
	}, SpecTimeout(startTimeout+specTimeout))
})

// preparePlatform creates what the examples expect in the cluster: CRDs, namespaces and the serving certificate.
func (w *world) preparePlatform(ctx context.Context) {
	GinkgoHelper()
	Expect(w.api.ApplyCRDs(ctx, downloadedCRDs()...)).To(Succeed())
	for _, name := range []string{"kcp", "argocd"} {
		Expect(w.host.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	w.issueServingCertificate(ctx)
}

// here are the values with the addresses of the processes on this machine.
func (w *world) here() (values map[string]any) {
	GinkgoHelper()
	Expect(json.Unmarshal([]byte(w.values), &values)).To(Succeed())
	return values
}

// local are the values of an example, with the addresses on this machine.
func (w *world) local(values map[string]any) string {
	GinkgoHelper()
	here := w.here()
	for _, name := range []string{"service", "drainSeconds"} {
		values[name] = here[name]
	}
	below(values, "kcp")["url"] = below(here, "kcp")["url"]
	text, err := json.Marshal(values)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// example is the path of an example.
func example(name string) string {
	GinkgoHelper()
	chart, err := charttest.Chart()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(chart, "examples", name)
}

func readExample(name string) []byte {
	GinkgoHelper()
	content, err := os.ReadFile(example(name))
	Expect(err).NotTo(HaveOccurred())
	return content
}

func exampleObjects(name string) []*unstructured.Unstructured {
	GinkgoHelper()
	objects, err := charttest.Decode(string(readExample(name)))
	Expect(err).NotTo(HaveOccurred())
	return objects
}

// downloadedCRDs are the CRDs of "make bin/crds".
func downloadedCRDs() []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	root, err := charttest.Root()
	Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(root, "bin", "crds", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty(), "there are no CRDs: run `make bin/crds`")
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.Unmarshal(content, crd)).To(Succeed(), file)
		crds = append(crds, crd)
	}
	return crds
}

// strict is a client whose writes fail if a field is unknown.
func strict(c client.Client) client.Client {
	return client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

// put creates or replaces a Secret.
func (w *world) put(ctx context.Context, name string, data map[string][]byte) {
	GinkgoHelper()
	w.remove(ctx, name)
	Expect(w.host.Create(ctx, &corev1.Secret{ObjectMeta: w.named(name), Data: data})).To(Succeed())
}

// remove deletes a Secret, if it exists.
func (w *world) remove(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(w.host.Delete(ctx, &corev1.Secret{ObjectMeta: w.named(name)}))).To(Succeed())
}

// issueServingCertificate creates the Secret that cert-manager would create for the chart's Certificate.
func (w *world) issueServingCertificate(ctx context.Context) {
	GinkgoHelper()
	ca, err := access.NewCA("cert-manager")
	Expect(err).NotTo(HaveOccurred())
	pair, err := ca.ServingPair(release, func(certificate *x509.Certificate) {
		certificate.DNSNames = append(certificate.DNSNames, release+"."+namespace+".svc")
	})
	Expect(err).NotTo(HaveOccurred())
	w.put(ctx, release+"-tls", map[string][]byte{
		corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key, "ca.crt": ca.PEM(),
	})
}

// injectCA writes the CA into the webhooks, as cert-manager does.
func (w *world) injectCA(ctx context.Context) {
	GinkgoHelper()
	secret, configuration := &corev1.Secret{}, registered()
	Expect(w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release + "-tls"}, secret)).To(Succeed())
	Expect(w.host.Get(ctx, client.ObjectKeyFromObject(configuration), configuration)).To(Succeed())
	Expect(configuration.Annotations).To(HaveKeyWithValue("cert-manager.io/inject-ca-from", namespace+"/"+secret.Name))
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = secret.Data["ca.crt"]
	}
	Expect(w.host.Update(ctx, configuration)).To(Succeed())
}

// actAsCertManager creates a Secret of the example with the address of this kcp, or adds the keys that its Certificate requires, as
// cert-manager does.
func (w *world) actAsCertManager(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	object.SetNamespace(namespace)
	if object.GetKind() == "Secret" {
		kubeconfig, _, err := unstructured.NestedString(object.Object, "stringData", "kubeconfig")
		Expect(err).NotTo(HaveOccurred())
		Expect(kubeconfig).To(ContainSubstring(`"https://kcp:6443"`))
		w.put(ctx, object.GetName(), map[string][]byte{"kubeconfig": []byte(strings.Replace(kubeconfig, "https://kcp:6443", w.kcp.URL(), 1))})
		return
	}
	Expect(strict(w.host).Create(ctx, object)).To(Succeed())
	var certificate struct {
		Spec struct {
			SecretName, CommonName string
			Subject                struct{ Organizations []string }
		}
	}
	content, err := object.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(content, &certificate)).To(Succeed())
	config := w.kcp.User("root", certificate.Spec.CommonName, certificate.Spec.Subject.Organizations...)
	secret := &corev1.Secret{}
	Expect(w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: certificate.Spec.SecretName}, secret)).To(Succeed())
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], secret.Data["ca.crt"] = config.CertData, config.KeyData, config.CAData
	Expect(w.host.Update(ctx, secret)).To(Succeed())
}

// expectGates expects that the gates are registered, that warrantgate may repair, and that it may write Events.
func (w *world) expectGates(ctx context.Context, bot *rest.Config, name string, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	Eventually(objects).WithArguments(ctx, w.kcp.ShardAdmin("root")).WithContext(ctx).Should(ContainElement(HavePrefix("Lease/")), "no replica holds the Lease of the repair")
	var workspace string
	var created time.Time
	Eventually(func(g Gomega) {
		if time.Since(created) > 5*time.Second {
			workspace, created = name+"-"+rand.String(5), time.Now()
			_, err := kcptest.CreateWorkspace(ctx, bot, workspace, options...)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = kcptest.WaitReady(ctx, w.kcp.Admin("root:provider"), workspace)
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(kcptest.Describe(ctx, w.kcp.Admin("root:provider"), workspace)).To(ContainSubstring("event Normal OwnerRewritten"))
	}).WithContext(ctx).Should(Succeed())
}

// expectNoGates expects that a Job has removed the gates from root.
func (w *world) expectNoGates(ctx context.Context) {
	GinkgoHelper()
	Expect(w.kubelet.Output("warrantgate-kcp-uninstall")).To(ContainSubstring(`root: ValidatingWebhookConfiguration "warrantgate" deleted`))
	root := suite.KCPClient(w.kcp.Admin("root"))
	Expect(root.Get(ctx, client.ObjectKeyFromObject(registered()), registered())).To(MatchError(apierrors.IsNotFound, "is gone"))
	Expect(w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release}, &corev1.Service{})).To(MatchError(apierrors.IsNotFound, "is gone"))
}
