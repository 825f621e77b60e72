//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// The Secret with the credentials of the service account.
const (
	secretNamespace = "capcs-system"
	secretName      = "cloudsigma-impersonation"
	serviceAccount  = "kube-dc-partner"
	region          = "next"
)

// setup configures a world.
type setup struct {
	// configuration is more of the configuration file. cloud is more of its section cloudSigma.
	configuration, cloud string
	// args are more arguments of serve, apiArgs of the kube-apiserver, env more variables.
	args, apiArgs, env []string
	// credentials are the arguments and variables with the credentials for the cloud. Default: those that name the Secret.
	credentials func(w *world) (args, env []string)
	// before is called before warrantgate is started.
	before func(w *world)
}

// world is an API server with the kinds of Cluster API, a CloudSigma with its identity provider, and a warrantgate between them.
// warrantgate has a user with only the documented permissions.
type world struct {
	api    *kubetest.Server
	cloud  *cloudsigmatest.Cloud
	client client.Client
	gate   *kubetest.Warrantgate
	// recorder records the denials and warnings that client gets.
	recorder *kubetest.Recorder
}

// newWorld starts a world. It stops with the suite or the spec that calls newWorld. At its end, the cloud must have no violations, and no
// output may contain a secret.
func newWorld(ctx context.Context, s setup) *world {
	GinkgoHelper()
	w := &world{recorder: &kubetest.Recorder{}}
	var err error
	w.cloud, err = cloudsigmatest.Start(ctx, cloudsigmatest.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.cloud.Stop)
	w.api = suite.KubeAPIServer(ctx, s.apiArgs...)
	w.client = w.listening(w.api.Config())
	w.giveCredentials(ctx, w.cloud.AddClient(serviceAccount))
	if s.before != nil {
		s.before(w)
	}

	caFile, err := w.cloud.CAFile(w.api.Dir())
	Expect(err).NotTo(HaveOccurred())
	if !strings.Contains(s.configuration, "audit:") {
		// An audit during a spec would change the number of requests to the cloud. The first one is over before it begins.
		s.configuration += "\naudit: {interval: 24h}\n"
	}
	if !strings.Contains(s.configuration, "machine:") {
		s.configuration += "\nmachine: {settle: 0s}\n" // incident_test.go tests claims that are undecided at first
	}
	configuration := fmt.Sprintf(`apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
cloudSigma:
  api: %s
  serviceProviderAPI: %s
  caFile: %s
%s
%s`, w.cloud.APITemplate(), w.cloud.ServiceProviderTemplate(), caFile, s.cloud, s.configuration)
	args, env := []string{"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName}, []string(nil)
	if s.credentials != nil {
		args, env = s.credentials(w)
	}
	w.gate, err = kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{
		Configuration: configuration, Args: append(args, s.args...), Env: append(env, s.env...),
	})
	Expect(err).NotTo(HaveOccurred())
	// The permissions first: without them it cannot become ready.
	_, err = w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.gate.Start(ctx)).To(Succeed())
	DeferCleanup(w.end)
	Eventually(w.log).Should(ContainSubstring("Events are on"))
	w.awaitGate(ctx)
	return w
}

// end stops warrantgate, and checks that it has written no secrets.
func (w *world) end(ctx SpecContext) {
	Expect(w.cloud.Violations()).To(BeEmpty(), "the cloud received unknown requests")
	var events corev1.EventList
	Expect(w.client.List(ctx, &events)).To(Succeed())
	metrics := w.metrics(ctx)
	Expect(w.gate.Stop()).To(Succeed())
	Expect(w.leaks(w.log())).To(BeEmpty(), "secrets in the log")
	Expect(w.leaks(metrics)).To(BeEmpty(), "secrets in the metrics")
	Expect(w.leaks(w.recorder.Texts())).To(BeEmpty(), "secrets in an error or a warning")
	for i := range events.Items {
		Expect(w.leaks(events.Items[i].Message)).To(BeEmpty(), "secrets in an Event")
	}
}

func (w *world) log() string {
	GinkgoHelper()
	content, err := os.ReadFile(w.gate.LogFile())
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// giveCredentials writes the Secret with warrantgate's own credentials.
func (w *world) giveCredentials(ctx context.Context, account cloudsigmatest.Client) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secretNamespace}}
	Expect(client.IgnoreAlreadyExists(w.client.Create(ctx, namespace))).To(Succeed())
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: secretName},
		StringData: map[string]string{"oauth-url": w.cloud.OAuthURL(), "client-id": account.ID, "client-secret": account.Secret},
	}
	err := w.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = w.client.Update(ctx, secret)
	}
	Expect(err).NotTo(HaveOccurred())
}

// awaitGate returns once the API server calls the gate, a moment after the installation of the webhook configuration.
func (w *world) awaitGate(ctx context.Context) {
	GinkgoHelper()
	namespace := w.namespace(ctx)
	c, recorder := w.warned()
	Eventually(func() string { // a gate that only warns denies nothing
		err := c.Create(ctx, newMachine(namespace, "canary", "no-cluster", providerID(noServer)), client.DryRunAll)
		return fmt.Sprint(err, recorder.TakeWarnings())
	}).Should(Or(ContainSubstring("machine.warrantgate.dev"), ContainSubstring("mode Warn")))
	Eventually(func() string { // the API server evaluates a policy a moment after its creation, too
		err := c.Create(ctx, newMachine(namespace, "canary", "no-cluster", providerID("no-uuid")), client.DryRunAll)
		return fmt.Sprint(err, recorder.TakeWarnings())
	}).Should(Or(ContainSubstring("ValidatingAdmissionPolicy"), ContainSubstring("mode Warn")))
}

// namespace creates a namespace for a spec.
func (w *world) namespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	Expect(w.client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// user creates a user of the cloud that the service account may act as.
func (w *world) user(email string) cloudsigmatest.User {
	GinkgoHelper()
	user := w.cloud.AddUser(email)
	Expect(w.cloud.AllowImpersonation(serviceAccount, email)).To(Succeed())
	return user
}

// story is a cluster of a user, in a namespace of its own.
type story struct {
	*world
	namespace string
	user      cloudsigmatest.User
}

// stories counts them, for the names of their users.
var stories int

// begin creates the cluster "pool" of a new user in the shared world.
func begin(ctx context.Context) story {
	GinkgoHelper()
	return shared.begin(ctx)
}

func (w *world) begin(ctx context.Context) story {
	GinkgoHelper()
	stories++
	s := story{world: w, namespace: w.namespace(ctx), user: w.user(fmt.Sprintf("user-%d@example.com", stories))}
	Expect(w.client.Create(ctx, newCluster(s.namespace, clusterName, s.user.Email))).To(Succeed())
	return s
}

// timeout limits a spec.
const timeout = time.Minute
