//go:build e2e

package attacks_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Guarantee 3: an API server calls the webhooks for a creation before it finds that the name is taken. The platform has another webhook,
// which is slow. The attacker deletes the object of the name meanwhile, so that the creation is stored.
var _ = Describe("guarantee 3: a creation that another webhook delays", Serial, func() {
	type story struct {
		tenant
		world         *kubeWorld
		slow          *slowWebhook
		first, second cloudsigmatest.User
		// cluster is the cluster "pool" of the first user, and claim a machine of it that names a server of this user. Neither is created.
		cluster, claim *unstructured.Unstructured
	}
	begin := func(ctx SpecContext) story {
		GinkgoHelper()
		w := kube(ctx)
		s := story{world: w, tenant: w.editor(ctx, w.namespace(ctx))}
		s.first, s.second = w.user("first-"+s.namespace+"@example.com"), w.user("second-"+s.namespace+"@example.com")
		w.permit(ctx, s.name, s.first.Email, s.second.Email)
		s.cluster = newCluster(s.namespace, "pool", s.first.Email)
		s.claim = newMachine(s.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + w.server(s.first, "worker").UUID})
		s.slow = w.slowWebhook(ctx, s.namespace)
		return s
	}
	// create creates an object while the slow webhook delays it. It returns once gate has decided.
	create := func(ctx SpecContext, s story, gate string, object *unstructured.Unstructured) (result <-chan error) {
		GinkgoHelper()
		decided := func() float64 {
			decisions, err := s.world.gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": gate})
			Expect(err).NotTo(HaveOccurred())
			return decisions
		}
		before, results, delayed := decided(), make(chan error, 1), object.DeepCopy()
		labels := delayed.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["slow"] = "true"
		delayed.SetLabels(labels)
		go func() { results <- s.client.Create(ctx, delayed) }()
		Eventually(ctx, s.slow.called).Should(Receive())
		Eventually(ctx, decided).Should(BeNumerically(">", before))
		return results
	}
	changeUser := func(ctx context.Context, s story) error {
		return patchSpec(ctx, s.client, s.cluster, fmt.Sprintf(`{"userEmail":%q}`, s.second.Email))
	}

	It("is denied for a machine that exists, as by the API server, and does not delay writes of its cluster", func(ctx SpecContext) {
		s := begin(ctx)
		Expect(s.client.Create(ctx, s.cluster.DeepCopy())).To(Succeed())
		unclaimed := newMachine(s.namespace, "worker", "pool", nil)
		Expect(s.client.Create(ctx, unclaimed)).To(Succeed())
		created := create(ctx, s, "machine-ownership", s.claim)
		Expect(changeUser(ctx, s)).To(Succeed(), "the machine that exists names no server")
		Expect(s.client.Delete(ctx, unclaimed)).To(Succeed())
		s.slow.release()
		var err error
		Eventually(ctx, created).Should(Receive(&err))
		Expect(err).To(Satisfy(apierrors.IsAlreadyExists))
		Expect(err).To(MatchError(And(ContainSubstring("machine.warrantgate.dev"),
			ContainSubstring(`CloudSigmaMachine "worker" of namespace %q: an object of this name already exists`, s.namespace))))
		Expect(s.client.Get(ctx, client.ObjectKeyFromObject(s.claim), s.claim)).To(Satisfy(apierrors.IsNotFound))
	}, SpecTimeout(startTimeout))

	It("is denied for a cluster that exists, and does not delay claims of its machines", func(ctx SpecContext) {
		s := begin(ctx)
		Expect(s.client.Create(ctx, s.cluster.DeepCopy())).To(Succeed())
		created := create(ctx, s, "cluster-impersonation", newCluster(s.namespace, "pool", s.second.Email))
		Expect(s.client.Create(ctx, s.claim)).To(Succeed(), "a server of the user of the cluster that exists")
		Expect(s.client.Delete(ctx, s.cluster)).To(Succeed())
		s.slow.release()
		var err error
		Eventually(ctx, created).Should(Receive(&err))
		Expect(err).To(Satisfy(apierrors.IsAlreadyExists))
		Expect(err).To(MatchError(And(ContainSubstring("cluster.warrantgate.dev"),
			ContainSubstring(`CloudSigmaCluster "pool" of namespace %q: an object of this name already exists`, s.namespace))))
		Expect(s.client.Get(ctx, client.ObjectKeyFromObject(s.cluster), s.cluster)).To(Satisfy(apierrors.IsNotFound))
	}, SpecTimeout(startTimeout))

	It("delays writes of its cluster also after another machine of its name is created", func(ctx SpecContext) {
		s := begin(ctx)
		Expect(s.client.Create(ctx, s.cluster.DeepCopy())).To(Succeed())
		created := create(ctx, s, "machine-ownership", s.claim)
		unclaimed := newMachine(s.namespace, "worker", "pool", nil)
		Expect(s.client.Create(ctx, unclaimed)).To(Succeed())
		err := changeUser(ctx, s)
		Expect(apierrors.HasStatusCause(err, "ClaimPending") && apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		Expect(s.client.Delete(ctx, unclaimed)).To(Succeed())
		s.slow.release()
		Eventually(ctx, created).Should(Receive(&err))
		Expect(err).NotTo(HaveOccurred(), "the name is free again")
		err = changeUser(ctx, s)
		Expect(apierrors.HasStatusCause(err, "MachinesHoldInstances")).To(BeTrue(), "%v", err)
	}, SpecTimeout(startTimeout))
})

// slowWebhook is a webhook that answers only after release.
type slowWebhook struct {
	called  chan struct{}
	release func()
}

// slowWebhook registers a webhook of the platform for creations in a namespace of objects with the label slow: "true". It returns once the
// API server calls it.
func (w *kubeWorld) slowWebhook(ctx SpecContext, namespace string) *slowWebhook {
	GinkgoHelper()
	released := make(chan struct{})
	slow := &slowWebhook{called: make(chan struct{}, 1), release: sync.OnceFunc(func() { close(released) })}
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		probe := ptr.Deref(review.Request.DryRun, false)
		if !probe {
			slow.called <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-released:
			}
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !probe}
		review.Request = nil
		_ = json.NewEncoder(rw).Encode(review)
	}))
	DeferCleanup(server.Close)
	DeferCleanup(slow.release)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow-" + namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "slow.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: ptr.To(server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"slow": "true"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{infrastructure.Group}, APIVersions: []string{"*"}, Resources: []string{"*"}},
			}},
		}},
	}
	Expect(w.admin.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(w.admin.Delete(ctx, configuration)).To(Succeed()) })
	probe := newMachine(namespace, "probe", "", nil)
	probe.SetLabels(map[string]string{"slow": "true"})
	Eventually(ctx, func() bool {
		err := w.admin.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "slow.example.com")
	}).Should(BeTrue())
	return slow
}
