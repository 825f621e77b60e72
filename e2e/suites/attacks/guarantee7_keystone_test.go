//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"warrantgate.dev/e2e/env/volume"
)

// tooManyPolicies is in the denial of a tenant that writes policies at the same time.
const tooManyPolicies = "another policy of this namespace is being checked"

// endlessPolicies are policies that keep the linter busy for long, the first until its deadline. If it ends, openPolicy is denied. Each rule
// has almost the size that is read.
func endlessPolicies() []string {
	const most = 65_000
	roles := []string{"role:admin"}
	for i := range 19 {
		roles = append(roles, fmt.Sprintf("(role:a%d and role:b%d and role:c%d)", i, i, i))
	}
	var attributes strings.Builder
	for i := 0; attributes.Len() < most-100; i++ {
		fmt.Fprintf(&attributes, " or x:%%(target.user.a%05d)s", i)
	}
	return []string{
		`admin_required: "role:admin` + attributes.String() + "\"\n" + openPolicy,
		`identity:create_user: "role:admin` + strings.Repeat(" or rule:helper", most/len(" or rule:helper")-10) + "\"\nhelper: \"x:%(bogus)s\"\n" + openPolicy,
		"admin_required: " + strings.Join(roles, " or ") + " or (" + strings.Repeat("@ and ", most/len("@ and ")-300) + "!)\n" + openPolicy,
	}
}

// Guarantee 7: one tenant cannot exhaust a gate for others.
var _ = Describe("the editor of a namespace who writes policies for Keystone that take long to check", Serial, func() {
	// flood makes the attacker write such policies until stop is called, and returns once the gate denies them.
	flood := func(ctx SpecContext, attacker tenant) (stop func()) {
		GinkgoHelper()
		attacking, cancel := context.WithCancel(ctx)
		var attack sync.WaitGroup
		stop = func() {
			cancel()
			attack.Wait()
		}
		DeferCleanup(stop)
		policies := endlessPolicies()
		for i := range 12 {
			attack.Go(func() {
				defer GinkgoRecover()
				for attacking.Err() == nil {
					policy := newPolicyObject("ConfigMap", attacker.namespace, fmt.Sprintf("policy-%d", i), policyLabels, policies[i%len(policies)])
					Expect(attacker.client.Create(attacking, policy)).NotTo(Succeed())
				}
			})
		}
		Eventually(attacker.recorder.Texts).WithContext(ctx).Should(And(
			ContainSubstring("it could not be checked in time"), ContainSubstring(tooManyPolicies)))
		return stop
	}
	write := func(ctx context.Context, victim tenant, i int) error {
		return victim.client.Create(ctx, newPolicyObject("ConfigMap", victim.namespace, fmt.Sprintf("policy-%d", i), policyLabels, soundPolicy))
	}

	It("does not take the place of another namespace's policy, and is denied", func(ctx SpecContext) {
		w := kube(ctx)
		attacker, victim := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		stop := flood(ctx, attacker)

		By("another namespace")
		for i := range 5 {
			// The linter has less than a second, which may pass on a busy machine.
			Eventually(write).WithArguments(ctx, victim, i).WithContext(ctx).Should(Succeed())
		}
		Expect(victim.recorder.Texts()).NotTo(ContainSubstring(tooManyPolicies))

		By("the attacker, after it has stopped")
		stop()
		Eventually(func() error {
			return attacker.client.Create(ctx, newPolicyObject("ConfigMap", attacker.namespace, "open", policyLabels, openPolicy))
		}).Should(Satisfy(apierrors.IsForbidden))
	}, SpecTimeout(startTimeout))

	It("does not delay another namespace's policy", Label(volume.Label), func(ctx SpecContext) {
		const writes, bound = 20, 5 * time.Second
		w := kube(ctx)
		attacker, victim := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		flood(ctx, attacker)
		var took []time.Duration
		for i := range writes {
			began := time.Now()
			err := write(ctx, victim, i)
			took = append(took, time.Since(began).Round(time.Millisecond))
			Expect(err).NotTo(HaveOccurred())
			Expect(took[i]).To(BeNumerically("<", bound))
		}
		AddReportEntry("writes of another namespace", took)
		Expect(victim.recorder.Texts()).To(BeEmpty(), "no attempt was denied and retried")
	}, SpecTimeout(startTimeout))
})
