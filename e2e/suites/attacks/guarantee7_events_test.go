//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/internal/identity"
)

// Guarantee 7: Events are written into workspaces whose owner can register webhooks there, and kcp calls these for each Event.
var _ = Describe("the owner of a workspace in which a webhook delays Events", Serial, func() {
	It("does not delay Events in other workspaces", func(ctx SpecContext) {
		// If Events waited for each other, that of the victim would be written after ten minutes.
		const group, attempts = "many-names", 20
		w := kcp(ctx)
		attacker, victim := w.owner(ctx, "attacker"), w.owner(ctx, "victim")
		for _, who := range []owner{attacker, victim} {
			suite.ReadyWorkspace(ctx, who.config, "child")
		}
		attacker.allow(ctx, group)
		attacker.answerEvents(ctx, func(ctx context.Context, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			<-ctx.Done()
			return &admissionv1.AdmissionResponse{}
		})

		for i := range attempts {
			as := attacker.impersonating(identity.Owner{Username: fmt.Sprintf("name-%d", i), Groups: []string{group, "system:authenticated"}})
			Eventually(ctx, forgeOwner).WithArguments(as).Should(MatchError(ContainSubstring("only the system may change it")))
		}
		Expect(forgeOwner(ctx, victim.config)).To(MatchError(ContainSubstring("only the system may change it")))
		Eventually(ctx, suite.DescribeWorkspace).WithArguments(victim.config, "child").Should(ContainSubstring("OwnerChangeDenied"))
	}, SpecTimeout(startTimeout))
})

// answerEvents registers a validating webhook for the Events in the workspace of an owner, until the spec ends.
func (o owner) answerEvents(ctx context.Context, answer func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) {
	GinkgoHelper()
	var called atomic.Bool
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "events"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "events.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds: ptr.To[int32](30), FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			ClientConfig: suite.Webhook(func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				called.Store(true)
				return answer(ctx, request)
			}),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"events"}},
			}},
		}},
	}
	Expect(o.client.Create(ctx, hook)).To(Succeed())
	DeferCleanup(o.client.Delete, hook)
	Eventually(ctx, func() bool { // until kcp calls the webhook
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = o.client.Create(limited, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "probe-"}})
		return called.Load()
	}).Should(BeTrue())
}
