//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

// kubeWorld is a kube-apiserver with the kinds of the providers, a CloudSigma, and a warrantgate with all gates, whose user only has
// the documented permissions.
type kubeWorld struct {
	cloudWorld
	api  *kubetest.Server
	gate *kubetest.Warrantgate
	// admin is in the group system:masters.
	admin client.Client
	// editors is the number of editors, for unique names.
	editors int
}

// kubeConfiguration is that of the world, besides where the cloud is. Policies for Keystone are in objects with the label
// holds: keystone-policy, or in the one that Keystone mounts by name. Controller managers have the label app: cloudsigma-ccm, or the name
// ccm in the namespace named-managers. First claims are not admitted without an answer, because verdicts would otherwise depend on how busy this
// machine is: guarantee7_claims_test.go attacks the default.
const kubeConfiguration = `
audit: {interval: 24h}
` + denyFirstClaims + `
controllerManager:
  selector: {matchLabels: {app: cloudsigma-ccm}}
  objects: [{namespace: named-managers, name: ccm}]
keystonePolicy:
  selector: {matchLabels: {holds: keystone-policy}}
  objects: [{namespace: ` + mountedNamespace + `, name: ` + mountedName + `}]
cluster:
  impersonation:
    kinds:
    - {group: farms.example.com, version: v1, kind: Farm, resource: farms, emailPath: spec.owner.email, annotations: [farms.example.com/owner]}
`

const denyFirstClaims = "machine: {unknown: Deny}\n"

// kube returns the shared world. The first call starts it.
func kube(ctx SpecContext) *kubeWorld {
	GinkgoHelper()
	if sharedKube == nil {
		sharedKube = startKube(ctx)
	}
	return sharedKube
}

func startKube(ctx SpecContext) *kubeWorld {
	GinkgoHelper()
	w := &kubeWorld{}
	complete := false
	defer w.stopUnless(&complete)
	w.startCloud(ctx)
	var err error
	w.api, err = kubetest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	w.started(w.api.Stop)
	w.admin = w.api.Client()

	w.gate, err = kubetest.NewWarrantgate(ctx, w.api, w.settings(w.api.Dir(), kubeConfiguration))
	Expect(err).NotTo(HaveOccurred())
	w.started(w.gate.Stop)
	w.install(ctx)
	Expect(w.gate.Start(ctx)).To(Succeed())
	w.awaitGates(ctx)
	complete = true
	return w
}

// install installs the webhooks of the current configuration and token.
func (w *kubeWorld) install(ctx context.Context) {
	GinkgoHelper()
	_, err := w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	suite.Patient(ctx, w.admin)
}

// configure restarts warrantgate with another configuration that has the same webhooks, until the end of the spec.
func (w *kubeWorld) configure(ctx context.Context, configuration string) {
	GinkgoHelper()
	restart := func(ctx context.Context, configuration string) {
		GinkgoHelper()
		content := w.settings(w.api.Dir(), configuration).Configuration
		Expect(os.WriteFile(w.gate.ConfigFile(), []byte(content), 0o600)).To(Succeed())
		w.install(ctx)
		Expect(w.gate.Restart(ctx)).To(Succeed())
	}
	restart(ctx, configuration)
	DeferCleanup(restart, kubeConfiguration)
}

// awaitGates returns once the API server calls the gates, a moment after the installation of the webhook configurations.
func (w *kubeWorld) awaitGates(ctx context.Context) {
	GinkgoHelper()
	namespace := w.namespace(ctx)
	Eventually(func() error {
		return w.admin.Create(ctx, newMachine(namespace, "canary", "no-cluster", map[string]any{"providerID": "cloudsigma://" + uuid.NewString()}), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("machine.warrantgate.dev")))
	Eventually(func() error {
		return w.admin.Create(ctx, newPolicyObject("ConfigMap", namespace, "canary", policyLabels, openPolicy), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("keystone.warrantgate.dev")))
}

// namespace creates a namespace.
func (w *kubeWorld) namespace(ctx context.Context) string { return suite.NewNamespace(ctx, w.admin) }

// editor creates a user who has every permission in a namespace, and none elsewhere; see suite.NewEditor.
func (w *kubeWorld) editor(ctx context.Context, namespace string) tenant {
	GinkgoHelper()
	w.editors++
	who := tenant{name: fmt.Sprintf("editor-%d", w.editors), namespace: namespace, recorder: &kubetest.Recorder{}}
	who.config, who.client = suite.NewEditor(ctx, w.api, who.recorder, namespace, who.name)
	return who
}

// auditEvents returns the reasons of the audit's Events on a machine.
func (w *kubeWorld) auditEvents(ctx context.Context, namespace, machine string) []string {
	events := &corev1.EventList{}
	if err := w.admin.List(ctx, events, client.InNamespace(namespace)); err != nil {
		return nil // the caller asks again
	}
	var reasons []string
	for i := range events.Items {
		if event := &events.Items[i]; event.InvolvedObject.Name == machine && strings.HasPrefix(event.Message, "Audit: ") {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// expectReported expects an Event of the audit on a machine. A busy machine may take longer than the 10 seconds of guarantee 3.
func (w *kubeWorld) expectReported(ctx context.Context, namespace, machine, reason string) {
	GinkgoHelper()
	Eventually(w.auditEvents).WithContext(ctx).WithArguments(namespace, machine).WithTimeout(time.Minute).Should(ContainElement(reason), machine)
}

// permit allows a user to impersonate users, by their email addresses, and waits until the API server observes it.
func (w *kubeWorld) permit(ctx context.Context, username string, emails ...string) {
	GinkgoHelper()
	for _, email := range emails {
		Expect(access.Grant(ctx, w.admin, kcptest.User(username), rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{email}, Verbs: []string{"impersonate"},
		})).To(Succeed())
	}
}
