//go:build e2e

package replicas_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
)

// certify gives all replicas another certificate, one after the other.
func (w *world) certify(ctx context.Context, pair access.KeyPair) {
	GinkgoHelper()
	w.serving = pair
	for _, r := range w.replicas {
		r.mountCertificate(pair)
		Eventually(r.serves).WithContext(ctx).Should(Equal(serial(pair)))
	}
}

// changeCA gives all replicas a certificate of another CA. The API server trusts both CAs from before the first change until after the
// last.
func (w *world) changeCA(ctx context.Context) {
	GinkgoHelper()
	ca, pair := newCA()
	w.trust(ctx, slices.Concat(w.ca.PEM(), ca.PEM()))
	w.certify(ctx, pair)
	w.ca = ca
	w.trust(ctx, ca.PEM())
}

// marks is the number of webhooks that trust created.
var marks int

// trust makes the API server trust CAs, and returns once it does.
func (w *world) trust(ctx context.Context, bundle []byte) {
	GinkgoHelper()
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Name: release}, validating)).To(Succeed())
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = bundle
	}
	Expect(w.admin.Update(ctx, validating)).To(Succeed())

	// The API server observes the configurations with a delay and in order. So it has observed this one as soon as it calls an unreachable
	// webhook that was installed later.
	marks++
	unreachable := mark(fmt.Sprintf("mark-%d", marks))
	marked := policy(metav1.NamespaceDefault, "marked", sound)
	marked.Labels = unreachable.ObjectSelector.MatchLabels
	mark := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: unreachable.Name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{unreachable},
	}
	Expect(w.admin.Create(ctx, mark)).To(Succeed())
	Eventually(func() error { return w.admin.Create(ctx, marked.DeepCopy(), client.DryRunAll) }).WithContext(ctx).
		Should(MatchError(ContainSubstring("failed calling webhook")))
	Expect(w.admin.Delete(ctx, mark)).To(Succeed())
	Eventually(func() error { return w.admin.Create(ctx, marked.DeepCopy(), client.DryRunAll) }).WithContext(ctx).Should(Succeed())
}

// mark is an unreachable webhook for objects with a label of its name.
func mark(name string) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:         name + ".replicas.warrantgate.dev",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
		ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"mark": name}},
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To[int32](1),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// serial is the serial number of a certificate.
func serial(pair access.KeyPair) string {
	GinkgoHelper()
	block, _ := pem.Decode(pair.Certificate)
	Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return certificate.SerialNumber.String()
}
