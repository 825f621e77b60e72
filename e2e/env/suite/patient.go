//go:build e2e

package suite

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is the maximum timeout of a webhook, in seconds.
const patience = 30

// Patient makes an API server wait longer for the installed webhooks of warrantgate than their few seconds, so that no verdict depends on how
// busy this machine is. The next installation restores the timeouts.
func Patient(ctx context.Context, c client.Client) {
	GinkgoHelper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, configuration := range []client.Object{mutating, validating} {
		err := c.Get(ctx, client.ObjectKey{Name: "warrantgate"}, configuration)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err != nil {
			continue
		}
		for i := range mutating.Webhooks {
			mutating.Webhooks[i].TimeoutSeconds = ptr.To[int32](patience)
		}
		for i := range validating.Webhooks {
			validating.Webhooks[i].TimeoutSeconds = ptr.To[int32](patience)
		}
		Expect(c.Update(ctx, configuration)).To(Succeed())
	}
}
