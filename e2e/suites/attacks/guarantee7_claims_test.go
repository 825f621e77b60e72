//go:build e2e

package attacks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Guarantee 7, for first claims: the gate asks the cloud again and again about each of them, and holds no lookup of other tenants up.
var _ = Describe("the editor of a namespace whose machines claim random instances first", Serial, func() {
	It("has those reported that are admitted above its share, does not prevent claims of another namespace, and repeats of a denied claim cause no lookups", func(ctx SpecContext) {
		const machines, writers = 150, 16
		w := kube(ctx)
		w.configure(ctx, strings.Replace(kubeConfiguration, denyFirstClaims, "", 1))
		attacker, victim := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		users := map[string]cloudsigmatest.User{}
		for _, who := range []tenant{attacker, victim} {
			users[who.name] = w.user(who.name + "@example.com")
			w.permit(ctx, who.name, users[who.name].Email)
			Expect(who.client.Create(ctx, newCluster(who.namespace, "pool", users[who.name].Email))).To(Succeed())
		}
		for i := range machines {
			Expect(attacker.client.Create(ctx, newMachine(attacker.namespace, fmt.Sprintf("machine-%d", i), "pool", nil))).To(Succeed())
		}
		for _, name := range []string{"worker", "mistaken"} {
			Expect(victim.client.Create(ctx, newMachine(victim.namespace, name, "pool", nil))).To(Succeed())
		}
		own, foreign := w.server(users[victim.name], "worker"), w.server(users[attacker.name], "foreign")
		attack, claim := newClaimant(attacker), newClaimant(victim)

		By("a denial discloses nothing about the owner")
		ofOwn := attack.claims(ctx, "machine-0", own.UUID)
		Expect(ofOwn.code).To(Equal(http.StatusForbidden), ofOwn.text)
		Expect(ofOwn.text).NotTo(Or(ContainSubstring(users[victim.name].Email), ContainSubstring(users[victim.name].UUID)))

		By("repeats are denied from memory")
		lookups := func() int { return w.cloud.Count(cloudsigmatest.GetServer, users[attacker.name].Email) }
		before := lookups()
		for i := range 100 {
			Expect(attack.claims(ctx, fmt.Sprintf("machine-%d", i), own.UUID).code).To(Equal(http.StatusForbidden))
		}
		Expect(lookups()-before).To(BeNumerically("<=", 20), "the memory lasts for a minute, and the gate asks at most twenty times in two")

		By("flooding the gate with claims")
		flooding, stop := context.WithCancel(ctx)
		var flood sync.WaitGroup
		var sent atomic.Int64
		var admitted sync.Map // machines whose claims were admitted because the cloud was not asked
		DeferCleanup(flood.Wait)
		DeferCleanup(stop)
		for range writers {
			flood.Go(func() {
				defer GinkgoRecover()
				for flooding.Err() == nil {
					name := fmt.Sprintf("machine-%d", sent.Add(1)%machines)
					got := attack.claims(flooding, name, uuid.NewString())
					switch {
					case flooding.Err() != nil:
					case got.code == http.StatusOK:
						admitted.Store(name, true)
					default: // 429 only for a claim of a machine that names an instance already
						Expect(got.code).To(Or(Equal(http.StatusForbidden), Equal(http.StatusServiceUnavailable), Equal(http.StatusTooManyRequests)), got.text)
					}
				}
			})
		}
		Eventually(sent.Load).WithContext(ctx).Should(BeNumerically(">=", writers))

		By("claims of the other namespace are admitted and denied")
		allowed := claim.claims(ctx, "worker", own.UUID)
		Expect(allowed.code).To(Equal(http.StatusOK), allowed.text)
		Expect(allowed.text).To(ContainSubstring(own.UUID))
		denied := claim.claims(ctx, "mistaken", foreign.UUID)
		Expect(denied.code).To(Equal(http.StatusForbidden), denied.text)
		Expect(denied.text).To(ContainSubstring("InstanceNotOwned"))
		stop()
		flood.Wait()

		By("the audit reports the attacker's claims that the gate admitted")
		Eventually(func(g Gomega) {
			events := &corev1.EventList{}
			g.Expect(w.admin.List(ctx, events, client.InNamespace(attacker.namespace))).To(Succeed())
			reported := map[string]bool{}
			for _, event := range events.Items {
				reported[event.InvolvedObject.Name] = reported[event.InvolvedObject.Name] || event.Reason == "InstanceNotFound"
			}
			admitted.Range(func(name, _ any) bool {
				g.Expect(reported).To(HaveKeyWithValue(name, true))
				return true
			})
		}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Succeed())
	}, SpecTimeout(startTimeout))
})

// claimant writes the instance IDs of a tenant's machines, without retries.
type claimant struct {
	tenant
	http *http.Client
	// query is that of its URLs.
	query string
}

// answer is what the API server answered.
type answer struct {
	code int
	text string
}

func newClaimant(who tenant) claimant {
	GinkgoHelper()
	httpClient, err := rest.HTTPClientFor(who.config)
	Expect(err).NotTo(HaveOccurred())
	return claimant{tenant: who, http: httpClient}
}

// claims writes an instance ID. The text is the whole Status of a denial.
func (c claimant) claims(ctx context.Context, machine, id string) answer {
	GinkgoHelper()
	at := fmt.Sprintf("%s/apis/%s/namespaces/%s/cloudsigmamachines/%s/status%s", strings.TrimSuffix(c.config.Host, "/"), infrastructure, c.namespace, machine, c.query)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, at, strings.NewReader(fmt.Sprintf(`{"status":{"instanceID":%q}}`, id)))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/merge-patch+json")
	response, err := c.http.Do(request)
	if ctx.Err() != nil {
		return answer{}
	}
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if ctx.Err() != nil {
		return answer{}
	}
	Expect(err).NotTo(HaveOccurred())
	if response.StatusCode != http.StatusOK {
		var status metav1.Status
		Expect(json.Unmarshal(body, &status)).To(Succeed(), string(body))
	}
	return answer{code: response.StatusCode, text: string(body)}
}
