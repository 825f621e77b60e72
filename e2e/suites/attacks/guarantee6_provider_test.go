//go:build e2e

package attacks_test

import (
	"net/http"
	"net/url"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

// The owner of a provider's workspace is cluster-admin there, so the webhook configuration with its URLs is readable for that tenant.
var _ = Describe("guarantee 6: only API servers get verdicts, also among providers on kcp", func() {
	It("the owner of a provider's workspace gets no verdict about tenants of others by the URLs of its webhooks", func(ctx SpecContext) {
		w := kcp(ctx)
		victim, attacker := w.victim(ctx), w.newOwner(ctx, "provider-mallory")
		theirs := victim.user
		stranger := w.server(w.user("stranger-of-"+attacker.name+"@example.com"), "worker")

		By("installing the gates of the attacker's provider, as the operator")
		kubeconfig, err := w.kcp.KubeconfigFile("mallory-admin", attacker.admin)
		Expect(err).NotTo(HaveOccurred())
		output, err := w.gate.Run(ctx, append(w.gate.InstallArgs(), "install", "provider", "--kubeconfig="+kubeconfig, "--config="+w.gate.ConfigFile())...)
		Expect(err).NotTo(HaveOccurred(), output)

		By("letting the victim bind another kind from it")
		Expect(kcptest.Export(ctx, attacker.admin, "widgets", kcptest.Widgets("example.com"))).To(Succeed())
		grantIn(ctx, attacker.admin, kcptest.Group(user.AllAuthenticated), kcptest.BindRule("widgets"))
		Expect(kcptest.Bind(ctx, victim.config, attacker.path, "widgets", schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})).To(Succeed())

		By("reading the webhook configuration as the owner of the workspace")
		reader, err := kcptest.NewClient(attacker.config)
		Expect(err).NotTo(HaveOccurred())
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Eventually(func() error { return reader.Get(ctx, client.ObjectKey{Name: "warrantgate"}, configuration) }).Should(Succeed())
		machine := newMachine(victim.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + stranger.UUID})
		machine.SetAnnotations(map[string]string{clusterAnnotation: victim.cluster})
		other, err := kcptest.GetLogicalCluster(ctx, w.provider)
		Expect(err).NotTo(HaveOccurred())
		paths := map[string]bool{}
		for i := range configuration.Webhooks {
			at, err := url.Parse(*configuration.Webhooks[i].ClientConfig.URL)
			Expect(err).NotTo(HaveOccurred())
			paths[at.Path] = true
		}
		Expect(paths).To(HaveLen(2), "machines and clusters")
		eventsBefore := gateEvents(ctx, victim.owner)
		for path := range paths {
			token, rest, found := strings.Cut(path[1:], "/")
			Expect(found).To(BeTrue(), "a token and a path")
			By("sending a review about the victim to " + rest)
			answer, text := postTo(ctx, w.gate, true, path, review(machine))
			Expect(answer.StatusCode).To(Equal(http.StatusOK))
			Expect(text).To(And(ContainSubstring("ProviderNotBound"), Not(ContainSubstring(theirs.Email)), Not(ContainSubstring(theirs.UUID))))

			By("sending it with the attacker's token to the paths of others")
			for _, gate := range append(gatePaths, "/"+strings.Replace(rest, attacker.cluster, other.Annotations[clusterAnnotation], 1)) {
				answer, text := postTo(ctx, w.gate, true, "/"+token+gate, review(machine))
				Expect(answer.StatusCode).To(Equal(http.StatusNotFound), gate)
				Expect(text).To(BeEmpty(), gate)
			}
		}
		Expect(gateEvents(ctx, victim.owner)).To(Equal(eventsBefore))
	}, SpecTimeout(startTimeout))
})
