//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
)

// Guarantee 3: the platform has another webhook, which is slow. The cluster of a machine changes after the machine was evaluated, and before
// it is stored.
var _ = Describe("guarantee 3: a creation that another webhook delays", Serial, func() {
	It("is reported if the identity of its cluster changes meanwhile", func(ctx SpecContext) {
		w := kube(ctx)
		attacker := w.editor(ctx, w.namespace(ctx))
		first, second := w.user("first-"+attacker.namespace+"@example.com"), w.user("second-"+attacker.namespace+"@example.com")
		w.permit(ctx, attacker.name, first.Email, second.Email)
		cluster := newCluster(attacker.namespace, "pool", first.Email)
		Expect(attacker.client.Create(ctx, cluster.DeepCopy())).To(Succeed())
		slow := w.slowWebhook(ctx, attacker.namespace)
		decided := func() float64 {
			decisions, err := w.gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": "machine-ownership"})
			Expect(err).NotTo(HaveOccurred())
			return decisions
		}
		before, created := decided(), make(chan error, 1)
		machine := newMachine(attacker.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + w.server(first, "worker").UUID})
		machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "pool", "slow": "true"})
		go func() { created <- attacker.client.Create(ctx, machine) }()
		Eventually(ctx, slow.called).Should(Receive())
		Eventually(ctx, decided).Should(BeNumerically(">", before))
		Expect(patchSpec(ctx, attacker.client, cluster, fmt.Sprintf(`{"userEmail":%q}`, second.Email))).To(Succeed(), "no machine of it names a server yet")
		slow.release()
		Eventually(ctx, created).Should(Receive(BeNil()))
		w.expectReported(ctx, attacker.namespace, "worker", "InstanceNotOwned")
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
	called := suite.Webhook(func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		probe := ptr.Deref(request.DryRun, false)
		if !probe {
			slow.called <- struct{}{}
			select {
			case <-ctx.Done():
			case <-released:
			}
		}
		return &admissionv1.AdmissionResponse{Allowed: !probe}
	})
	DeferCleanup(slow.release)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow-" + namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "slow.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:      called,
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
