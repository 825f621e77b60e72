//go:build e2e

package readme_test

import (
	"strings"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/internal/kcp"
)

const (
	// policiesAlone is the quick start on kcp.
	policiesAlone = "### kcp, with admission policies only"
	// Before v0.32, kcp has no mutating policies, and the webhooks are installed instead, as on the page for one machine.
	apply = "kubectl apply "
)

var _ = Describe("The quick start on kcp", func() {
	It("starts in an empty directory and ends with a denied forgery", func(ctx SpecContext) {
		t := newKCPTerminal(ctx)
		t.follow(section(readme, start)...)
		applied := false
		for _, b := range section(readme, policiesAlone) {
			before, applying, found := strings.Cut(b.commands, apply)
			if !found {
				t.follow(b)
				continue
			}
			applied = true
			t.follow(block{commands: before})
			server, err := discovery.NewDiscoveryClientForConfig(t.admin())
			Expect(err).NotTo(HaveOccurred())
			byPolicy, err := kcp.HasMutatingPolicies(server)
			Expect(err).NotTo(HaveOccurred())
			if byPolicy {
				t.follow(block{commands: apply + applying, output: b.output})
			} else {
				t.follow(section(oneMachine, oneMachineInstall)...)
			}
		}
		Expect(applied).To(BeTrue())

		By("reading the workspace of the service account")
		team, err := kcptest.GetWorkspace(ctx, t.admin(), "team")
		Expect(err).NotTo(HaveOccurred())
		app, err := kcptest.GetWorkspace(ctx, kcptest.In(t.admin(), team.Spec.Cluster), "app")
		Expect(err).NotTo(HaveOccurred())
		Expect(app.Status.Phase).To(Equal(corev1alpha1.LogicalClusterPhaseReady))
		Expect(app.Annotations).To(And(
			HaveKeyWithValue(kcptest.CreatedByAnnotation, team.Spec.Cluster+":default:bot"),
			HaveKeyWithValue(kcptest.OwnerAnnotation, HavePrefix(`{"username":"system:kcp:serviceaccount:`+team.Spec.Cluster+`:default:bot"`)),
		))
	}, SpecTimeout(specTimeout))
})

// admin is the administrator of the kcp that was started in the terminal.
func (t *terminal) admin() *rest.Config {
	GinkgoHelper()
	kubeconfig, _ := t.run(`printf %s "$KUBECONFIG"`, false)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	return config
}
