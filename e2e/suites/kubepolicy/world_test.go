//go:build e2e

package kubepolicy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

// authorName is the user who writes policies. It has no other permissions.
const authorName = "policy-author"

// world is an API server, a warrantgate without a cloud, and an author of policies.
type world struct {
	api  *kubetest.Server
	gate *kubetest.Warrantgate
	// admin is an administrator, author is authorName.
	admin, author client.Client
	// authorConfig is the config of author.
	authorConfig *rest.Config
	// recorder has the warnings that author received.
	recorder *kubetest.Recorder
}

// newWorld starts an API server with further arguments. It stops with the suite or the spec that calls newWorld. Call serve next.
func newWorld(ctx context.Context, args ...string) *world {
	GinkgoHelper()
	w := &world{recorder: &kubetest.Recorder{}}
	var err error
	w.api = suite.KubeAPIServer(ctx, args...)
	w.admin = w.api.Client()
	w.authorConfig, err = w.api.User(authorName)
	Expect(err).NotTo(HaveOccurred())
	w.author = suite.KubeClient(w.api, w.recorder.Listen(w.authorConfig))
	Expect(access.Grant(ctx, w.admin, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: authorName},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"create", "get", "update", "patch", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
	)).To(Succeed())
	return w
}

// serve installs and starts a warrantgate in a mode, with further arguments, and returns once the API server calls it. It replaces
// an earlier warrantgate in the webhook configuration.
func (w *world) serve(ctx context.Context, mode string, args ...string) {
	GinkgoHelper()
	w.start(ctx, mode, args...)
	if mode != "Off" {
		Eventually(w.isCalled).WithContext(ctx).Should(BeTrue())
	}
}

// start installs and starts a warrantgate, and does not wait until the API server calls it. It has no credentials of a cloud,
// because the gate needs none.
func (w *world) start(ctx context.Context, mode string, args ...string) {
	GinkgoHelper()
	var err error
	w.gate, err = kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{
		Args: args, Configuration: fmt.Sprintf(`apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
machine: {mode: Off}
audit: {mode: Off}
cluster: {impersonation: {mode: Off}}
keystonePolicy:
  mode: %s
  selector: {matchLabels: {holds: keystone-policy}}
  keystoneRelease: zed
  knownRules: ["identity:scim_*"]
`, mode),
	})
	Expect(err).NotTo(HaveOccurred())
	_, err = w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	suite.Patient(ctx, w.admin)
	Expect(w.gate.Start(ctx)).To(Succeed())
	DeferCleanup(w.gate.Stop)
}

// isCalled returns whether the API server calls the gate, which it does a moment after the installation.
func (w *world) isCalled(ctx context.Context) (bool, error) {
	before, err := w.verdicts(ctx, nil)
	if err != nil {
		return false, err
	}
	// The result does not matter: only the number of verdicts does.
	_ = w.admin.Create(ctx, newConfigMap(metav1.NamespaceDefault, "canary", broken), client.DryRunAll)
	after, err := w.verdicts(ctx, nil)
	return after > before, err
}

// verdicts is the number of verdicts of the gate, with further labels of the metric.
func (w *world) verdicts(ctx context.Context, labels map[string]string) (float64, error) {
	of := map[string]string{"gate": "keystone-policy"}
	for name, value := range labels {
		of[name] = value
	}
	return w.gate.Metric(ctx, "warrantgate_admissions_total", of)
}

// namespace creates a namespace for a spec.
func (w *world) namespace(ctx context.Context) string { return suite.NewNamespace(ctx, w.admin) }

// events returns warrantgate's Events in a namespace.
func (w *world) events(ctx context.Context, namespace string) ([]corev1.Event, error) {
	events := &corev1.EventList{}
	err := w.admin.List(ctx, events, client.InNamespace(namespace), client.MatchingFields{"source": "warrantgate"})
	return events.Items, err
}

// eventsOf returns the Events of an object in the form in which users read them: with "kubectl describe" for a ConfigMap, and with "kubectl
// get events" for a Secret, for which kubectl describe prints none.
func (w *world) eventsOf(ctx context.Context, object client.Object) (string, error) {
	GinkgoHelper()
	if _, isSecret := object.(*corev1.Secret); isSecret {
		return w.kubectl(ctx, "", "get", "events", "--namespace="+object.GetNamespace(), "--field-selector=involvedObject.kind=Secret,involvedObject.name="+object.GetName())
	}
	describer, found := describe.DescriberFor(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), w.authorConfig)
	Expect(found).To(BeTrue())
	return describer.Describe(object.GetNamespace(), object.GetName(), describe.DescriberSettings{ShowEvents: true, ChunkSize: 100})
}

// kubectl runs kubectl as the author, with a file on its standard input, and returns its output.
func (w *world) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	GinkgoHelper()
	_, err := exec.LookPath("kubectl")
	Expect(err).NotTo(HaveOccurred(), "this spec needs kubectl in $PATH")
	kubeconfig, err := w.api.KubeconfigFile(authorName, w.authorConfig)
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, "kubectl", args...)
	command.Stdin = strings.NewReader(stdin)
	// It has its own home directory for kubectl's discovery cache.
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+GinkgoT().TempDir())
	output, err := command.CombinedOutput()
	return string(output), err
}
