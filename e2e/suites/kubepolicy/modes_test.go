//go:build e2e

package kubepolicy_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operators first use mode Warn, and turn the gate off with mode Off.
var _ = Describe("The gate on policies", Ordered, func() {
	var (
		w         *world
		namespace string
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.serve(ctx, "Warn")
		namespace = w.namespace(ctx)
	}, NodeTimeout(timeout))

	// registered are the names of the installed webhooks.
	registered := func(ctx context.Context) ([]string, error) {
		var names []string
		var configurations admissionregistrationv1.ValidatingWebhookConfigurationList
		err := w.admin.List(ctx, &configurations)
		for i := range configurations.Items {
			for j := range configurations.Items[i].Webhooks {
				names = append(names, configurations.Items[i].Webhooks[j].Name)
			}
		}
		return names, err
	}

	It("denies nothing in mode Warn, and warns about each denial", func(ctx SpecContext) {
		policy := newConfigMap(namespace, "policy", broken)
		Expect(w.author.Create(ctx, policy)).To(Succeed())
		message := about("ConfigMap", namespace, saidOfBroken)
		Expect(w.recorder.TakeWarnings()).To(HaveExactElements("KeystonePolicyBroken (mode Warn, nothing was changed or denied): " + message))
		Eventually(w.eventsOf).WithArguments(ctx, policy).Should(ContainSubstring("Admitted with a warning: " + message))
		Expect(w.verdicts(ctx, map[string]string{"decision": "warned", "reason": "KeystonePolicyBroken"})).To(BeNumerically(">=", 1))
		Expect(registered(ctx)).To(ContainElement("policies.keystone.warrantgate.dev"))

		By("stopping warrantgate")
		Expect(w.gate.Stop()).To(Succeed())
		policy.Data["policy.yaml"] = "["
		Expect(w.author.Update(ctx, policy)).To(Succeed())
		Expect(w.gate.Start(ctx)).To(Succeed())
		w.recorder.TakeWarnings()
	}, SpecTimeout(timeout))

	It("has no webhook in mode Off", func(ctx SpecContext) {
		w.serve(ctx, "Off")
		Expect(registered(ctx)).NotTo(ContainElement("policies.keystone.warrantgate.dev"))
		Eventually(func() ([]string, error) {
			err := w.author.Create(ctx, newConfigMap(namespace, "off", broken), client.DryRunAll)
			return w.recorder.TakeWarnings(), err
		}).Should(BeEmpty())
		Expect(w.verdicts(ctx, nil)).To(BeZero())
	}, SpecTimeout(timeout))

	It("denies in mode Enforce, even while warrantgate is down, until uninstall", func(ctx SpecContext) {
		w.serve(ctx, "Enforce")
		policy := newConfigMap(namespace, "enforced", broken)
		Expect(w.author.Create(ctx, policy)).NotTo(Succeed())
		Expect(w.gate.Stop()).To(Succeed())
		policy.Data["policy.yaml"] = sound
		Expect(w.author.Create(ctx, policy)).To(MatchError(ContainSubstring(`failed calling webhook "policies.keystone.warrantgate.dev"`)))

		Expect(w.gate.Uninstall(ctx)).To(ContainSubstring(`ValidatingWebhookConfiguration "warrantgate" deleted`))
		Expect(registered(ctx)).To(BeEmpty())
		policy.Data["policy.yaml"] = broken
		Eventually(w.author.Create).WithArguments(ctx, policy).Should(Succeed())
	}, SpecTimeout(timeout))
})
