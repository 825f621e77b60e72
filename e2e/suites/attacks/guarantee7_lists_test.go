//go:build e2e

package attacks_test

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"warrantgate.dev/e2e/env/kubetest"
)

// metalKind is a kind of machine.kinds that the provider does not export, so that a tenant can create its CRD.
var metalKind = schema.GroupVersionKind{Group: "metal.example.com", Version: "v1", Kind: "MetalMachine"}

// Guarantee 7, for lists of machines: a CRD of a tenant can have a conversion webhook, which delays each page.
var _ = Describe("the owner of a workspace whose machines are converted slowly", Serial, func() {
	It("delays no claim, because machines that are not the provider's are not read", func(ctx SpecContext) {
		w := kcp(ctx)
		w.configure(ctx, w.options.Configuration+"machine: {kinds: [{group: metal.example.com, version: v1, kind: MetalMachine, resource: metalmachines, "+
			"provider: cloudsigma}]}\n")
		w.installProvider(ctx, w.provider, w.gate.ConfigFile())
		DeferCleanup(func(ctx SpecContext) {
			w.configure(ctx, w.options.Configuration)
			w.installProvider(ctx, w.provider, w.gate.ConfigFile())
		})
		attacker := w.claimant(ctx, "slow")
		startConversion().install(ctx, attacker.owner)
		got := attacker.claims(ctx, "machine", attacker.server)
		Expect(got.code).To(Equal(http.StatusOK), got.text)
	}, SpecTimeout(startTimeout))
})

// ownClaimant is the owner of a workspace with a machine and a server of its own.
type ownClaimant struct {
	claimant
	owner  owner
	server string
}

func (w *kcpWorld) claimant(ctx context.Context, name string) ownClaimant {
	GinkgoHelper()
	who := w.owner(ctx, name)
	user := w.user(who.name + "@example.com")
	w.permit(ctx, who.name, user.Email)
	Eventually(func() error { return who.client.Create(ctx, newCluster(who.namespace, "pool", user.Email)) }).WithContext(ctx).Should(Succeed())
	Expect(who.client.Create(ctx, newMachine(who.namespace, "machine", "pool", nil))).To(Succeed())
	return ownClaimant{claimant: newClaimant(who.tenant), owner: who, server: w.server(user, "worker").UUID}
}

// slowConversion is the conversion webhook of a tenant. It never answers.
type slowConversion struct{ server *httptest.Server }

func startConversion() *slowConversion {
	GinkgoHelper()
	c := &slowConversion{server: httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
		<-r.Context().Done()
	}))}
	DeferCleanup(c.server.Close)
	DeferCleanup(c.server.CloseClientConnections)
	return c
}

// install creates the CRD of metalKind in a tenant's workspace, and an object that is stored in another version than warrantgate reads.
func (c *slowConversion) install(ctx context.Context, who owner) {
	GinkgoHelper()
	crd := kubetest.OpenCRD(metalKind.GroupKind().WithVersion("v2"), metalKind.Version)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"},
		ClientConfig: &apiextensionsv1.WebhookClientConfig{
			URL: ptr.To(c.server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw}),
		},
	}}
	Expect(who.client.Create(ctx, crd)).To(Succeed())
	machine := newObject(metalKind.GroupKind().WithVersion("v2"), who.namespace, "metal", nil)
	Eventually(func() error { return who.client.Create(ctx, machine.DeepCopy()) }).WithContext(ctx).Should(Succeed())
}
