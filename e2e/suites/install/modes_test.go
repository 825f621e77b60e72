//go:build e2e

package install_test

import (
	"context"
	"fmt"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const forgedOwner = `{"username":"root-boss","groups":["system:masters","system:kcp:admin"]}`

func configuration(rewrite, integrity string) string {
	return fmt.Sprintf(`
apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
workspace:
  ownerRewrite: {mode: %s}
  ownerIntegrity: {mode: %s}
`, rewrite, integrity)
}

var _ = Describe("a gate", func() {
	It("writes an Event on the Workspace about a forged owner, except in a dry run", func(ctx SpecContext) {
		w := serve(ctx, "")
		install(ctx, w)
		ws := createAs(ctx, bot, "forged")
		denial := forge(ctx, kcp.User("root:provider", "alice"), ws)
		Expect(apierrors.IsForbidden(denial)).To(BeTrue())
		Expect(denial).To(MatchError(And(ContainSubstring("ValidatingAdmissionPolicy 'warrantgate-owner-integrity'"),
			ContainSubstring(`user "alice" tried to change experimental.tenancy.kcp.io/owner of workspace "forged"`), ContainSubstring("leave it as it is"))))
		Eventually(eventReasons(ctx, ws)).Should(ContainElement("OwnerChangeDenied"))
		Expect(w.Metric(ctx, "warrantgate_admissions_total", map[string]string{
			"gate": "denial-notice", "decision": "allowed", "reason": "OwnerChangeDenied",
		})).To(BeNumerically(">=", 1))

		By("forging in a dry run, which writes no Event")
		// By other users, because Events of earlier attempts may still be written. Events are written in the order of the attempts.
		for _, user := range []string{"bob", "carol"} {
			Expect(kcptest.Grant(ctx, provider, kcptest.User(user), kcptest.CreatorRules()...)).To(Succeed())
		}
		Expect(forge(ctx, kcp.User("root:provider", "bob"), ws, client.DryRunAll)).To(MatchError(ContainSubstring(`user "bob" tried to change`)))
		Expect(forge(ctx, kcp.User("root:provider", "carol"), ws)).NotTo(Succeed())
		Eventually(ctx, kcptest.Events).WithArguments(provider, ws).Should(ContainElement(HaveField("Message", ContainSubstring(`"carol" tried to change`))))
		Expect(kcptest.Events(ctx, provider, ws)).NotTo(ContainElement(HaveField("Message", ContainSubstring(`"bob"`))))
	}, SpecTimeout(specTimeout))

	It("in mode Warn changes and denies nothing, and warns about each change and denial", func(ctx SpecContext) {
		w := serve(ctx, configuration("Warn", "Warn"))
		installWarning(ctx, w)

		ws, err := kcptest.CreateWorkspace(ctx, bot, "warned")
		Expect(err).NotTo(HaveOccurred())
		Eventually(eventReasons(ctx, ws)).Should(ConsistOf("OwnerNotRewritten"))
		Expect(kcptest.GetWorkspace(ctx, provider, "warned")).To(HaveField("Annotations", Not(HaveKey(kcptest.CreatedByAnnotation))))
		Expect(w.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": "owner-rewrite", "decision": "warned"})).To(BeNumerically(">=", 1))

		By("forging the owner, which only causes a warning")
		warnings := &warningRecorder{}
		alice := kcp.User("root:provider", "alice")
		alice.WarningHandlerWithContext = warnings
		Expect(forge(ctx, alice, ws, client.DryRunAll)).To(Succeed())
		Expect(warnings.texts).To(ContainElement(ContainSubstring(`user "alice" tried to change experimental.tenancy.kcp.io/owner`)))
		Expect(forge(ctx, alice, ws)).To(Succeed())
		Eventually(ctx, kcptest.Events).WithArguments(provider, ws).Should(ContainElement(And(HaveField("Reason", "OwnerChangeDenied"),
			HaveField("Message", ContainSubstring("It was changed, because the gate only warns")))))

		By("stopping warrantgate, without which nothing is denied either")
		Expect(w.Stop()).To(Succeed())
		suite.CreateWorkspace(ctx, bot, "unwarned")
		_, err = kcptest.WaitWorkspace(ctx, provider, "unwarned", func(ws *tenancyv1alpha1.Workspace) error {
			if ws.Spec.Cluster == "" {
				return fmt.Errorf("it has no logical cluster yet")
			}
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(specTimeout))

	It("in mode Off is uninstalled by the next install", func(ctx SpecContext) {
		w := serve(ctx, "")
		install(ctx, w)
		off := serve(ctx, configuration("Enforce", "Off"))
		Expect(installUnguarded(ctx, off)).To(And(
			ContainSubstring(`ValidatingAdmissionPolicyBinding "warrantgate-owner-integrity" deleted`),
			ContainSubstring(`ValidatingAdmissionPolicy "warrantgate-owner-integrity" deleted`)))
		createAs(ctx, bot, "still-rewritten")
		configurations := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		Expect(suite.KCPClient(kcp.Admin("root")).List(ctx, configurations)).To(Succeed())
		Expect(configurations.Items).To(HaveLen(1))
		Expect(configurations.Items[0].Webhooks).To(HaveExactElements(HaveField("Name", "owner-notice.warrantgate.dev")))
	}, SpecTimeout(specTimeout))
})

// forge tries to write another owner into a Workspace.
func forge(ctx context.Context, forger *rest.Config, ws *tenancyv1alpha1.Workspace, options ...client.PatchOption) error {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kcptest.OwnerAnnotation, forgedOwner)
	return suite.KCPClient(forger).Patch(ctx, ws.DeepCopy(), client.RawPatch(types.MergePatchType, patch), options...)
}

// installWarning installs a configuration that denies nothing, and waits until kcp uses it.
func installWarning(ctx context.Context, w *kcptest.Warrantgate) {
	GinkgoHelper()
	installUnguarded(ctx, w)
	warnings := &warningRecorder{}
	admin := kcp.Admin("root")
	admin.WarningHandlerWithContext = warnings
	Eventually(func(g Gomega) {
		_, err := kcptest.TryCreateWorkspace(ctx, admin, "probe", kcptest.WithAnnotation("warrantgate.dev/probe", "true"))
		if !apierrors.IsAlreadyExists(err) {
			g.Expect(err).NotTo(HaveOccurred())
		}
		ws, err := kcptest.GetWorkspace(ctx, admin, "probe")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(forge(ctx, admin, ws, client.DryRunAll)).To(Succeed())
		g.Expect(warnings.texts).To(ContainElement(ContainSubstring("tried to change")))
	}).WithContext(ctx).Should(Succeed())
}

// installUnguarded installs a configuration without the integrity gate. Warrantgate.Install would wait forever for that gate.
func installUnguarded(ctx context.Context, w *kcptest.Warrantgate) string {
	GinkgoHelper()
	return runInstall(ctx, w, "--config="+w.ConfigFile(),
		"--shard-kubeconfig="+kcp.AdminKubeconfig(), "--shard-context=system:admin")
}

// warningRecorder collects admission warnings.
type warningRecorder struct{ texts []string }

func (r *warningRecorder) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	r.texts = append(r.texts, text)
}
