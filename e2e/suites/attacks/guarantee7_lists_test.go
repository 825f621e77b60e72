//go:build e2e

package attacks_test

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// metalKind is a kind of machine.kinds that the provider does not export, so that a tenant can create its CRD.
var metalKind = schema.GroupVersionKind{Group: "metal.example.com", Version: "v1", Kind: "MetalMachine"}

// Guarantee 7, for lists of machines: a CRD of a tenant can have a conversion webhook, which delays each page.
var _ = Describe("the owner of two workspaces whose machines are converted slowly", Serial, func() {
	It("does not prevent the claims of another workspace", func(ctx SpecContext) {
		const perWorkspace, attempts = 8, 5
		w := kcp(ctx)
		w.configure(ctx, w.options.Configuration+"machine: {kinds: [{group: metal.example.com, version: v1, kind: MetalMachine, resource: metalmachines, "+
			"provider: cloudsigma}]}\n")
		w.installProvider(ctx)
		DeferCleanup(func(ctx SpecContext) {
			w.configure(ctx, w.options.Configuration)
			w.installProvider(ctx)
		})
		conversion := startConversion()
		one, two, victim := w.claimant(ctx, "slow"), w.claimant(ctx, "slow"), w.claimant(ctx, "victim")
		for _, attacker := range []ownClaimant{one, two} {
			conversion.install(ctx, attacker.owner)
		}

		By("claiming servers of the attacker, whose machines cannot be read in time")
		attacking, stop := context.WithCancel(ctx)
		var flood sync.WaitGroup
		var undecided atomic.Int64
		DeferCleanup(flood.Wait)
		DeferCleanup(stop)
		one.query = "?timeout=1s" // the API server ends its request to warrantgate then
		for _, attacker := range []ownClaimant{one, two} {
			for range perWorkspace {
				flood.Go(func() {
					defer GinkgoRecover()
					for attacking.Err() == nil {
						got := attacker.claims(attacking, "machine", attacker.server)
						Expect(got.code).NotTo(Equal(http.StatusOK), "the webhook for first claims has the failurePolicy Ignore")
						if got.code >= http.StatusInternalServerError {
							undecided.Add(1)
						}
					}
				})
			}
		}
		Eventually(undecided.Load).WithContext(ctx).Should(BeNumerically(">=", 2*perWorkspace))

		By("claiming a server of the victim, several times")
		for range attempts {
			got := victim.claims(ctx, "machine", victim.server)
			Expect(got.code).To(Equal(http.StatusOK), got.text)
			Expect(victim.claims(ctx, "machine", "").code).To(Equal(http.StatusOK))
		}
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
	Expect(who.client.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "metalmachines." + metalKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: metalKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "metalmachines", Singular: "metalmachine", Kind: metalKind.Kind, ListKind: "MetalMachineList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{openVersion(metalKind.Version, false), openVersion("v2", true)},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig: &apiextensionsv1.WebhookClientConfig{
					URL: ptr.To(c.server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw}),
				},
			}},
		},
	})).To(Succeed())
	machine := newObject(metalKind.GroupKind().WithVersion("v2"), who.namespace, "metal", nil)
	Eventually(func() error { return who.client.Create(ctx, machine.DeepCopy()) }).WithContext(ctx).Should(Succeed())
}
