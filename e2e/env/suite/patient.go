//go:build e2e

package suite

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// patience is the maximum timeout of a webhook, in seconds.
	patience = 30
	// firstClaims begins the names of the webhooks for first claims of machines. The gate asks the cloud again until their timeout.
	firstClaims = "first."
	// brevity is a timeout, in seconds, after which the gate asks the cloud twice.
	brevity = 3
)

// Patient makes an API server wait longer for the installed webhooks of warrantgate than their few seconds, so that no verdict depends on how
// busy this machine is. Those for first claims have a longer timeout already, and all denials of first claims take so long. The next
// installation restores the timeouts.
func Patient(ctx context.Context, c client.Client) {
	GinkgoHelper()
	setTimeouts(ctx, c, func(name string) bool { return !strings.HasPrefix(name, firstClaims) }, patience)
}

// BriefFirstClaims shortens the time for which the gate asks the cloud again about a first claim that it denies, for suites with many denials. The
// next installation restores it.
func BriefFirstClaims(ctx context.Context, c client.Client) {
	GinkgoHelper()
	setTimeouts(ctx, c, func(name string) bool { return strings.HasPrefix(name, firstClaims) }, brevity)
}

func setTimeouts(ctx context.Context, c client.Client, of func(name string) bool, seconds int32) {
	GinkgoHelper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, configuration := range []client.Object{mutating, validating} {
		err := c.Get(ctx, client.ObjectKey{Name: "warrantgate"}, configuration)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err != nil {
			continue
		}
		for i := range mutating.Webhooks {
			if hook := &mutating.Webhooks[i]; of(hook.Name) {
				hook.TimeoutSeconds = ptr.To(seconds)
			}
		}
		for i := range validating.Webhooks {
			if hook := &validating.Webhooks[i]; of(hook.Name) {
				hook.TimeoutSeconds = ptr.To(seconds)
			}
		}
		Expect(c.Update(ctx, configuration)).To(Succeed())
	}
}
