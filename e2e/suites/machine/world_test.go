//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// api is the API server of all worlds.
var api *kubetest.Server

// setup configures a world.
type setup struct {
	// configuration is more of the configuration file. cloud is more of its section cloudSigma.
	configuration, cloud string
	// args are more arguments of serve.
	args []string
	// credentials are the arguments and variables with the credentials for the cloud. Default: those that name the Secret.
	credentials func(w *world) (args, env []string)
	// wrongHost is whether cloudSigma.api is the host at which an impersonated token acts as the service account's own user.
	wrongHost bool
	// before is called before warrantgate is installed, and no gate is called for its writes.
	before func(w *world)
	// firstClaims is true if first claims have the timeout of the installation. Otherwise it is shorter, because each denial takes that long.
	firstClaims bool
}

// world is the API server with the kinds of Cluster API, a CloudSigma with its identity provider, and a warrantgate between them.
// warrantgate has a user with only the documented permissions.
type world struct {
	api    *kubetest.Server
	cloud  *cloudsigmatest.Cloud
	client client.Client
	gate   *kubetest.Warrantgate
	// recorder records the denials and warnings that client gets.
	recorder *kubetest.Recorder
}

// current is the world whose warrantgate is installed. There is one at a time, because each installation replaces the one before, and
// because the audit reads the objects of all namespaces.
var current *world

// newWorld ends the current world and starts another one, which ends with the container that calls newWorld. At its end, the cloud must
// have no violations, and no output may contain a secret.
func newWorld(ctx context.Context, s setup) *world {
	GinkgoHelper()
	endWorld(ctx)
	DeferCleanup(endWorld)
	return startWorld(ctx, s)
}

// sharing is the priority of the containers that use the shared world: they run first, one after the other.
const sharing = SpecPriority(1)

// shared returns the world without further configuration. It starts with the first spec that needs it, and ends when a container starts
// another one.
func shared(ctx context.Context) *world {
	GinkgoHelper()
	if current == nil {
		startWorld(ctx, setup{})
	}
	return current
}

func startWorld(ctx context.Context, s setup) *world {
	GinkgoHelper()
	w := &world{api: api, recorder: &kubetest.Recorder{}}
	var err error
	w.cloud, err = cloudsigmatest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
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
		s.configuration += "\nmachine: {unknown: Deny}\n" // first_test.go tests first claims that are admitted without an answer
	}
	api := w.cloud.APITemplate()
	if s.wrongHost {
		api = w.cloud.LegacyAPITemplate()
	}
	configuration := fmt.Sprintf(`apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
cloudSigma:
  api: %s
  legacyAPI: %s
  serviceProviderAPI: %s
  caFile: %s
%s
%s`, api, w.cloud.LegacyAPITemplate(), w.cloud.ServiceProviderTemplate(), caFile, s.cloud, s.configuration)
	args, env := []string{"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName}, []string(nil)
	if s.credentials != nil {
		args, env = s.credentials(w)
	}
	w.gate, err = kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{
		Configuration: configuration, Args: append(args, s.args...), Env: env,
	})
	Expect(err).NotTo(HaveOccurred())
	// The last replica that ran the audit may not have released the Lease.
	Expect(w.cleanUp(ctx, auditLease())).To(Succeed())
	current = w
	// The permissions first: without them it cannot become ready.
	_, err = w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	if !s.firstClaims {
		suite.BriefFirstClaims(ctx, w.client)
	}
	Expect(w.gate.Start(ctx)).To(Succeed())
	w.awaitGate(ctx)
	return w
}

// auditLease is the Lease of the replica that runs the audit.
func auditLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "warrantgate-audit"}}
}

// endWorld ends the current world, if there is one: it uninstalls warrantgate, removes all objects that a warrantgate reads, and checks
// that no output contains a secret.
func endWorld(ctx context.Context) {
	GinkgoHelper()
	w := current
	if w == nil {
		return
	}
	current = nil
	metrics, metricsErr := w.gate.OpenMetrics(ctx)
	_, err := w.gate.Uninstall(ctx)
	Expect(err).NotTo(HaveOccurred())
	w.awaitNoGate(ctx)
	Expect(w.gate.Stop()).To(Succeed())
	Expect(w.cloud.Stop()).To(Succeed()) //nolint:contextcheck // it stops also if ctx has ended
	w.removeObjects(ctx)

	Expect(metricsErr).NotTo(HaveOccurred())
	Expect(w.cloud.Violations()).To(BeEmpty(), "the cloud received unknown requests")
	suite.ExpectNoSecrets(ctx, w.client, w.leaks, map[string]string{
		"the log": suite.Log(w.gate), "the metrics": metrics, "an error or a warning": w.recorder.Texts(),
	})
}

// removeObjects deletes the objects of all kinds that a warrantgate watches.
func (w *world) removeObjects(ctx context.Context) {
	GinkgoHelper()
	for _, kind := range []schema.GroupVersionKind{machineKind, clusterKind, kdcClusterKind, capiMachineKind, metalMachineKind, serverKind, hostKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := w.client.List(ctx, list); !meta.IsNoMatchError(err) { // only some worlds have all of them
			Expect(err).NotTo(HaveOccurred())
		}
		for i := range list.Items {
			object := &list.Items[i]
			if len(object.GetFinalizers()) > 0 {
				object.SetFinalizers(nil)
				Expect(w.client.Update(ctx, object)).To(Succeed())
			}
			Expect(w.client.Delete(ctx, object)).To(Succeed())
		}
	}
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

// awaitGate returns once the API server calls the gate, a moment after the installation of the webhook configurations.
func (w *world) awaitGate(ctx context.Context) {
	GinkgoHelper()
	namespace := w.namespace(ctx)
	c, recorder := w.warned()
	Eventually(func() string { // a gate that only warns denies nothing
		err := c.Create(ctx, newMachine(namespace, "canary", "no-cluster", providerID(noServer)), client.DryRunAll)
		return fmt.Sprint(err, recorder.TakeWarnings())
	}).Should(Or(ContainSubstring("machine.warrantgate.dev"), ContainSubstring("mode Warn")))
	Eventually(func() string { // the API server evaluates a policy a moment after its creation, too
		err := c.Create(ctx, newObject(clusterKind, namespace, "canary", with("spec.region", "no region")), client.DryRunAll)
		return fmt.Sprint(err, recorder.TakeWarnings())
	}).Should(Or(ContainSubstring("ValidatingAdmissionPolicy"), ContainSubstring("mode Warn")))
}

// awaitNoGate returns once the API server calls no gate, and evaluates no policy, a moment after they were uninstalled.
func (w *world) awaitNoGate(ctx context.Context) {
	GinkgoHelper()
	namespace := w.namespace(ctx)
	c, recorder := w.warned()
	Eventually(func(g Gomega) {
		g.Expect(c.Create(ctx, newMachine(namespace, "canary", "no-cluster", providerID(noServer)), client.DryRunAll)).To(Succeed())
		g.Expect(c.Create(ctx, newObject(clusterKind, namespace, "canary", with("spec.region", "no region")), client.DryRunAll)).To(Succeed())
		g.Expect(recorder.TakeWarnings()).To(BeEmpty())
	}).Should(Succeed())
}

// namespace creates a namespace for a spec.
func (w *world) namespace(ctx context.Context) string { return suite.NewNamespace(ctx, w.client) }

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
	return shared(ctx).begin(ctx)
}

func (w *world) begin(ctx context.Context) story {
	GinkgoHelper()
	stories++
	s := story{world: w, namespace: w.namespace(ctx), user: w.user(fmt.Sprintf("user-%d@example.com", stories))}
	Expect(w.client.Create(ctx, newCluster(s.namespace, clusterName, s.user.Email))).To(Succeed())
	return s
}

// timeout limits a spec, setupTimeout the start of a world.
const timeout, setupTimeout = 3 * time.Minute, 5 * time.Minute
