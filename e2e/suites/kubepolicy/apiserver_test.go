//go:build e2e

package kubepolicy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/webhooks/keystone"
)

// apiServerName is the common name of the API server's client certificate for webhooks.
const apiServerName = "kube-apiserver"

// An API server can authenticate itself to webhooks.
var _ = Describe("The API server", Ordered, func() {
	var (
		w        *world
		clientCA string
	)
	BeforeAll(func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		ca, err := access.NewCA("webhook-clients")
		Expect(err).NotTo(HaveOccurred())
		clientCA = writeFile(dir, "clients.crt", string(ca.PEM()))
		pair, err := ca.ClientPair(apiServerName, nil)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig := filepath.Join(dir, "webhooks.kubeconfig")
		Expect(access.WriteKubeconfig(kubeconfig, "webhooks", &rest.Config{
			TLSClientConfig: rest.TLSClientConfig{CertData: pair.Certificate, KeyData: pair.Key},
		})).To(Succeed())
		w = newWorld(ctx, "--admission-control-config-file="+writeFile(dir, "admission.yaml", admissionConfiguration(kubeconfig)))
		w.serve(ctx, "Enforce", "--client-ca-file="+clientCA, "--client-names="+apiServerName)
	}, NodeTimeout(timeout))

	It("gets a verdict with its client certificate, and a caller without one does not", func(ctx SpecContext) {
		namespace := w.namespace(ctx)
		expectDenial(w.author.Create(ctx, newConfigMap(namespace, "policy", broken)), about("ConfigMap", namespace, saidOfBroken))
		Expect(w.author.Create(ctx, newConfigMap(namespace, "policy", sound))).To(Succeed())

		By("sending a review without a certificate")
		ca, err := os.ReadFile(w.gate.CAFile())
		Expect(err).NotTo(HaveOccurred())
		transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
		Expect(err).NotTo(HaveOccurred())
		before, err := w.verdicts(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.gate.HookURL(keystone.Path), strings.NewReader("{}"))
		Expect(err).NotTo(HaveOccurred())
		response, err := (&http.Client{Transport: transport}).Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		Expect(response.StatusCode).To(Equal(http.StatusNotFound))
		Expect(w.verdicts(ctx, nil)).To(Equal(before))
	}, SpecTimeout(timeout))

	It("gets no verdict with an unexpected name, and denies all writes", func(ctx SpecContext) {
		Expect(w.gate.Stop()).To(Succeed())
		w.start(ctx, "Enforce", "--client-ca-file="+clientCA, "--client-names=somebody-else")
		// The API server uses the earlier webhook configuration for a moment.
		Eventually(func() error {
			return w.author.Create(ctx, newConfigMap(metav1.NamespaceDefault, "policy", sound), client.DryRunAll)
		}).Should(MatchError(And(
			ContainSubstring(`failed calling webhook "policies.keystone.warrantgate.dev"`),
			ContainSubstring("the server could not find the requested resource"),
		)))
		Expect(w.verdicts(ctx, nil)).To(BeZero())
		Expect(suite.Log(w.gate)).To(ContainSubstring(`"reason":"certificate"`))
	}, SpecTimeout(timeout))
})

// admissionConfiguration makes the API server call webhooks with the client certificate of a kubeconfig.
func admissionConfiguration(kubeconfig string) string {
	configuration := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		configuration += fmt.Sprintf(`- name: %s
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %s
`, plugin, kubeconfig)
	}
	return configuration
}

func writeFile(dir, name, content string) string {
	GinkgoHelper()
	path := filepath.Join(dir, name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}
