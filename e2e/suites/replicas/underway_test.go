//go:build e2e

package replicas_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

func underWay() {
	// The API server does not retry when a connection breaks during a review, because the webhook can have side effects. So a gate
	// can only guarantee that the write is not admitted without a verdict, and that the author gets a message to try again.
	It("fails with a killed replica, and is admitted in a retry", func(ctx SpecContext) {
		s := chaos.begin(ctx)
		blocked, answer := s.block(ctx)
		for _, r := range chaos.replicas {
			r.kill(ctx)
		}
		var err error
		Eventually(answer).WithContext(ctx).Should(Receive(&err))
		Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`failed calling webhook "first.cloudsigmamachines.machine.warrantgate.dev"`)))
		Expect(s.instanceID(ctx)).To(BeEmpty())
		blocked.Release()
		for _, r := range chaos.replicas {
			r.serve(ctx)
		}
		Expect(s.checkVerdicts(ctx)).To(Succeed())
	}, SpecTimeout(timeout))
}

// block makes the machine name a server of its user while the cloud does not respond, and returns once the gate waits for the cloud.
// The result of the write is sent to the channel.
func (s story) block(ctx context.Context) (*cloudsigmatest.Failure, <-chan error) {
	GinkgoHelper()
	blocked := s.cloud.Fail(cloudsigmatest.Hang(), 0, cloudsigmatest.GetServer)
	DeferCleanup(blocked.Release)
	owned := s.cloud.AddServer(region, s.user, "owned").UUID
	answer := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		answer <- s.setInstanceID(ctx, s.machine, owned)
	}()
	Eventually(blocked.Met).WithContext(ctx).ShouldNot(BeZero())
	return blocked, answer
}

// instanceID is the instance ID of the machine in the API server.
func (s story) instanceID(ctx context.Context) string {
	GinkgoHelper()
	current := s.machine.DeepCopy()
	Expect(s.admin.Get(ctx, client.ObjectKeyFromObject(current), current)).To(Succeed())
	id, _, err := unstructured.NestedString(current.Object, "status", "instanceID")
	Expect(err).NotTo(HaveOccurred())
	return id
}
