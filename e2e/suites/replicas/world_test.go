//go:build e2e

package replicas_test

import (
	"context"
	"crypto/x509"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// release and namespace are those of the chart. All objects have the name of the release.
	release, namespace = charttest.Release, charttest.Namespace
	// secretName is the Secret with the credentials of serviceAccount at CloudSigma.
	secretName     = "cloudsigma-impersonation"
	serviceAccount = "kube-dc-partner"
	// servingName is the Secret with the serving certificate.
	servingName = "serving"
	region      = "next"
	// token is the first element of the path of each webhook.
	token = charttest.Token
	// authorName is the user who writes clusters. It has no other permissions.
	authorName = "author"
	// briefly, in seconds, is the drain time of a replica without admissions. The default is much longer.
	briefly = 2
)

// world is an API server with the objects of the chart, a CloudSigma, and one address for all replicas.
type world struct {
	api      *kubetest.Server
	cloud    *cloudsigmatest.Cloud
	balancer *balancer
	replicas []*replica
	// admin and author write objects and do not wait for the watch cache.
	admin, author client.Client
	// ca is the CA that the API server trusts. It signs serving.
	ca      *access.CA
	serving access.KeyPair
	// values are the values of the chart.
	values map[string]any
	// installed is the edition of new replicas.
	installed edition
}

// newWorld starts a world with a number of replicas, which stops with the container or spec that calls it. Replicas drain for
// drainSeconds, or the default if it is 0.
func newWorld(ctx context.Context, replicas, drainSeconds int) *world {
	GinkgoHelper()
	w := startWorld(ctx)
	if drainSeconds > 0 {
		w.values["drainSeconds"] = drainSeconds
	}
	w.install(ctx, w.edition(ctx, asset.Warrantgate))
	w.serve(ctx, replicas)
	return w
}

// startWorld starts a world without an installation.
func startWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{}
	var err error
	w.cloud, err = cloudsigmatest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.cloud.Stop)
	w.api = suite.KubeAPIServer(ctx)
	w.admin = suite.UnstructuredClient(w.api.Config())
	w.letAuthor(ctx)
	w.ca, w.serving = newCA()

	ports, err := process.FreePorts(ctx, 1)
	Expect(err).NotTo(HaveOccurred())
	w.balancer = newBalancer(ctx, process.Loopback(ports[0]))
	w.values = w.newValues(ports[0])
	Expect(access.EnsureNamespace(ctx, w.admin, namespace)).To(Succeed())
	w.mountable(ctx)
	DeferCleanup(func() { Expect(w.cloud.Violations()).To(BeEmpty(), "the cloud received unknown requests") })
	return w
}

// serve starts a number of replicas, and returns once the API server calls them.
func (w *world) serve(ctx context.Context, replicas int) {
	GinkgoHelper()
	for range replicas {
		r := w.newReplica(ctx)
		r.start()
		w.replicas = append(w.replicas, r)
	}
	for _, r := range w.replicas {
		r.awaitServing(ctx)
	}
	Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
}

// letAuthor grants permissions to the author.
func (w *world) letAuthor(ctx context.Context) {
	GinkgoHelper()
	config, err := w.api.User(authorName)
	Expect(err).NotTo(HaveOccurred())
	w.author = suite.UnstructuredClient(config)
	Expect(access.Grant(ctx, w.admin, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: authorName}, rbacv1.PolicyRule{
		APIGroups: []string{infrastructure.Group}, Resources: []string{"cloudsigmaclusters"}, Verbs: []string{"create"},
	})).To(Succeed())
}

// newValues are the values of the chart, with a Service on the port of the balancer.
func (w *world) newValues(port int) map[string]any {
	GinkgoHelper()
	caFile, err := w.cloud.CAFile(w.api.Dir())
	Expect(err).NotTo(HaveOccurred())
	return map[string]any{
		"certificates": map[string]any{"secret": map[string]any{"name": servingName, "caBundle": string(w.ca.PEM())}},
		"kubernetes":   map[string]any{"server": strings.TrimSuffix(w.api.Config().Host, "/")},
		"service":      map[string]any{"port": port},
		"cloudSigma":   map[string]any{"enabled": true, "secret": map[string]any{"name": secretName}},
		"webhookPath":  map[string]any{"tokens": []string{token}},
		"config": map[string]any{
			"audit":   map[string]any{"interval": "1s", "requestsPerSecond": 1000},
			"machine": map[string]any{"unknown": "Deny"},
			"cloudSigma": map[string]any{
				"api": w.cloud.APITemplate(), "serviceProviderAPI": w.cloud.ServiceProviderTemplate(), "caFile": caFile,
			},
			"keystonePolicy": map[string]any{"selector": map[string]any{"matchLabels": selected}},
		},
	}
}

// mountable creates the objects that pods mount and that the chart does not create.
func (w *world) mountable(ctx context.Context) {
	GinkgoHelper()
	account := w.cloud.AddClient(serviceAccount)
	for _, object := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName},
			StringData: map[string]string{"oauth-url": w.cloud.OAuthURL(), "client-id": account.ID, "client-secret": account.Secret},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: servingName}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: w.serving.Certificate, corev1.TLSPrivateKeyKey: w.serving.Key},
		},
		// A controller of Kubernetes creates it, and there are none here.
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-root-ca.crt"},
			Data:       map[string]string{"ca.crt": string(w.api.Config().CAData)},
		},
	} {
		Expect(w.admin.Create(ctx, object)).To(Succeed())
	}
}

// checkCalled returns an error unless the API server calls the gates, which it does a moment after the installation.
func (w *world) checkCalled(ctx context.Context) error {
	return verdict{reason: "KeystonePolicyBroken"}.
		check(w.admin.Create(ctx, policy(metav1.NamespaceDefault, "canary", broken), client.DryRunAll))
}

// user creates a user of the cloud that the service account may act as.
func (w *world) user(email string) cloudsigmatest.User {
	GinkgoHelper()
	user := w.cloud.AddUser(email)
	Expect(w.cloud.AllowImpersonation(serviceAccount, email)).To(Succeed())
	return user
}

func newCA() (*access.CA, access.KeyPair) {
	GinkgoHelper()
	ca, err := access.NewCA("replicas-serving")
	Expect(err).NotTo(HaveOccurred())
	return ca, newPair(ca)
}

// newPair is a certificate for the name by which the API server calls the Service.
func newPair(ca *access.CA, changes ...func(*x509.Certificate)) access.KeyPair {
	GinkgoHelper()
	pair, err := ca.ServingPair("warrantgate", append(changes, func(c *x509.Certificate) {
		c.DNSNames = append(c.DNSNames, release+"."+namespace+".svc")
	})...)
	Expect(err).NotTo(HaveOccurred())
	return pair
}
