//go:build e2e

package provider_test

import (
	"context"
	"fmt"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
)

// consumers is the number of workspaces that bind the kinds.
var consumers int

// consumer creates a workspace that binds the kinds and contains a cluster that acts as the user.
func consumer(ctx context.Context, email string) *rest.Config {
	GinkgoHelper()
	consumers++
	name := fmt.Sprintf("consumer-%d", consumers)
	makeWorkspace(ctx, name)
	config := kcp.Admin("root:" + name)
	bindKinds(ctx, config)
	Eventually(func() error { // until kcp observes the webhooks of the binding and the permissions of warrantgate
		return suite.UnstructuredClient(config).Create(ctx, object("CloudSigmaMachine", "canary", "pool",
			map[string]any{"providerID": "cloudsigma://no-uuid"}), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("machine.warrantgate.dev")))
	pool := object("CloudSigmaCluster", "pool", "pool", map[string]any{"region": incident.Region, "userEmail": email})
	c := suite.UnstructuredClient(config)
	Eventually(func() error { return c.Create(ctx, pool.DeepCopy(), client.DryRunAll) }).Should(Succeed()) // until it can check the permission
	Expect(c.Create(ctx, pool)).To(Succeed())
	return config
}

func setInstanceID(ctx context.Context, config *rest.Config, machine *unstructured.Unstructured, uuid string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"status":{"instanceID":%q}}`, uuid)))
	return suite.UnstructuredClient(config).Status().Patch(ctx, machine.DeepCopy(), patch)
}

var _ = Describe("in a workspace that binds a provider's kinds", Ordered, ContinueOnFailure, func() {
	// own is the workspace of the specs.
	var own *rest.Config
	BeforeAll(func(ctx SpecContext) { own = consumer(ctx, incident.User.Email) }, NodeTimeout(specTimeout))

	// kcp takes a while for the first list of a kind in a workspace that has just bound it.
	It("the first cluster is admitted", func(ctx SpecContext) {
		consumers++
		name := fmt.Sprintf("consumer-%d", consumers)
		makeWorkspace(ctx, name)
		config := kcp.Admin("root:" + name)
		bindKinds(ctx, config)
		first := object("CloudSigmaCluster", "pool", "pool", map[string]any{"region": incident.Region, "userEmail": incident.User.Email})
		admitted := func() float64 {
			GinkgoHelper()
			n, err := gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": "cluster-impersonation", "decision": "allowed"})
			Expect(err).NotTo(HaveOccurred())
			return n
		}
		before := admitted()
		Expect(suite.UnstructuredClient(config).Create(ctx, first)).To(Succeed())
		Expect(admitted()).To(BeNumerically(">", before), "the gates were not called")
	}, SpecTimeout(specTimeout))

	It("a dry run of uninstall lists the gates, which stay", func(ctx SpecContext) {
		planned := suite.Warrantgate(ctx, append(asAdministrator(), "uninstall", "provider", "--dry-run")...)
		Expect(planned.Status).To(BeZero(), planned.Stderr)
		Expect(planned.Stdout).To(And(
			ContainSubstring("ValidatingWebhookConfiguration \"warrantgate\" deleted (dry run)\n"), Not(ContainSubstring("deleted\n"))))
	}, SpecTimeout(specTimeout))

	It("a machine cannot name a server of another user, and can name one of its own user", func(ctx SpecContext) {
		machine := object("CloudSigmaMachine", incident.Created.Name, "pool", map[string]any{})
		Expect(suite.UnstructuredClient(own).Create(ctx, machine)).To(Succeed())

		err := setInstanceID(ctx, own, machine, incident.Stale.UUID)
		Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring(incident.User.Email), ContainSubstring(incident.Created.UUID))))
		Expect(setInstanceID(ctx, own, machine, incident.Created.UUID)).To(Succeed())

		By("reading the Event of the machine in its own workspace")
		Eventually(func() ([]string, error) {
			events := &corev1.EventList{}
			err := suite.UnstructuredClient(own).List(ctx, events, client.InNamespace("default"))
			var reasons []string
			for i := range events.Items {
				if events.Items[i].InvolvedObject.UID == machine.GetUID() {
					reasons = append(reasons, events.Items[i].Reason)
				}
			}
			return reasons, err
		}).Should(ConsistOf("InstanceNotOwned"))
	}, SpecTimeout(specTimeout))

	It("objects with equal names in two workspaces are never confused", func(ctx SpecContext) {
		others := consumer(ctx, incident.Other.Email)
		machine := object("CloudSigmaMachine", "namesake", "pool", map[string]any{})
		for _, each := range []*rest.Config{own, others} {
			Expect(suite.UnstructuredClient(each).Create(ctx, machine.DeepCopy())).To(Succeed())
		}
		Expect(setInstanceID(ctx, others, machine, incident.Stale.UUID)).To(Succeed())
		Expect(apierrors.IsForbidden(setInstanceID(ctx, own, machine, incident.Stale.UUID))).To(BeTrue())
		Expect(apierrors.IsForbidden(setInstanceID(ctx, others, machine, incident.Created.UUID))).To(BeTrue())
	}, SpecTimeout(specTimeout))

	It("a cluster cannot take its user from a Secret that no webhook guards", func(ctx SpecContext) {
		bySecret := func() error {
			return suite.UnstructuredClient(own).Create(ctx, object("CloudSigmaCluster", "by-secret", "by-secret", map[string]any{
				"region": incident.Region, "userRef": map[string]any{"name": "user"},
			}))
		}
		err := bySecret()
		Expect(apierrors.HasStatusCause(err, "UserRefUnguarded")).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("in a workspace of kcp no gate keeps the Secret from being changed, and no permission claim on " +
			"secrets makes kcp call the webhooks of an APIExport for them; name the user in spec.userEmail")))

		By("also not with a permission claim on Secrets: kcp calls no webhook of the provider for them")
		exporter := suite.KCPClient(provider)
		export := &apisv1alpha2.APIExport{}
		Expect(exporter.Get(ctx, client.ObjectKey{Name: exportName}, export)).To(Succeed())
		claim := apisv1alpha2.PermissionClaim{GroupResource: apisv1alpha2.GroupResource{Resource: "secrets"}, Verbs: []string{"*"}}
		export.Spec.PermissionClaims = []apisv1alpha2.PermissionClaim{claim}
		Expect(exporter.Update(ctx, export)).To(Succeed())
		const webhookURL = "https://127.0.0.1:1/unreachable" // no server listens: with failurePolicy Fail, the API server denies each request for which it calls the webhook
		unreachable := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "secrets.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(webhookURL)},
				FailurePolicy: ptr.To(admissionregistrationv1.Fail), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				}},
			}},
		}
		Expect(exporter.Create(ctx, unreachable)).To(Succeed())
		DeferCleanup(exporter.Delete, unreachable)
		newSecret := func(name string) *corev1.Secret {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, StringData: map[string]string{"userEmail": incident.Other.Email},
			}
		}
		Eventually(func() error { // the webhook is registered
			return exporter.Create(ctx, newSecret("called"), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("secrets.example.com")))
		c := suite.KCPClient(own)
		Eventually(func(g Gomega) {
			binding := &apisv1alpha2.APIBinding{}
			g.Expect(c.Get(ctx, client.ObjectKey{Name: exportName}, binding)).To(Succeed())
			if len(binding.Spec.PermissionClaims) == 0 {
				binding.Spec.PermissionClaims = []apisv1alpha2.AcceptablePermissionClaim{{
					ScopedPermissionClaim: apisv1alpha2.ScopedPermissionClaim{PermissionClaim: claim, Selector: apisv1alpha2.PermissionClaimSelector{MatchAll: true}},
					State:                 apisv1alpha2.ClaimAccepted,
				}}
				g.Expect(c.Update(ctx, binding)).To(Succeed())
			}
			g.Expect(binding.Status.AppliedPermissionClaims).To(HaveLen(1))
		}).Should(Succeed())
		Expect(c.Create(ctx, newSecret("user"))).To(Succeed(), "a foreign user, without a check")
		Expect(apierrors.HasStatusCause(bySecret(), "UserRefUnguarded")).To(BeTrue())
	}, SpecTimeout(specTimeout))
})
