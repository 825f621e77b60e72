//go:build e2e

package stories_test

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	region         = "next"
	serviceAccount = "kube-dc-partner"
	// clusterName is the cluster of each tenant.
	clusterName = "pool"
	// credentials is the Secret with the credentials of warrantgate, and of controller managers.
	credentials = "cloudsigma-impersonation"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	machineKind    = infrastructure.WithKind("CloudSigmaMachine")
	clusterKind    = infrastructure.WithKind("CloudSigmaCluster")
	kdcClusterKind = schema.GroupVersionKind{Group: "k8s.kube-dc.com", Version: "v1alpha1", Kind: "KdcCluster"}
)

// kubeWorld is a kube-apiserver with the kinds of Cluster API, a CloudSigma, and a warrantgate with all gates.
type kubeWorld struct {
	server *kubetest.Server
	cloud  *cloudsigmatest.Cloud
	gate   *kubetest.Warrantgate
	// account is the client of warrantgate at the identity provider.
	account cloudsigmatest.Client
	// admin is an administrator, and the provider.
	admin client.Client
	// tenants counts them, for their names.
	tenants int
}

func (w *kubeWorld) start(ctx context.Context) (err error) {
	if w.cloud, err = cloudsigmatest.Start(ctx); err != nil {
		return err
	}
	if w.server, err = kubetest.Start(ctx); err != nil {
		return err
	}
	w.admin, w.account = w.server.Client(), w.cloud.AddClient(serviceAccount)
	if err := w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capcs-system"}}); err != nil {
		return err
	}
	if err := w.giveCredentials(ctx, "capcs-system"); err != nil {
		return err
	}
	caFile, err := w.cloud.CAFile(w.server.Dir())
	if err != nil {
		return err
	}
	w.gate, err = kubetest.StartWarrantgate(ctx, w.server, kubetest.WarrantgateOptions{
		Args: []string{"--impersonation-enabled", "--impersonation-secret=capcs-system/" + credentials},
		Configuration: fmt.Sprintf(`apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}
audit: {interval: 1s, requestsPerSecond: 200}
controllerManager: {selector: {matchLabels: {app: cloudsigma-ccm}}}
keystonePolicy: {mode: Enforce, selector: {matchLabels: {holds: keystone-policy}}}
`, w.cloud.APITemplate(), w.cloud.ServiceProviderTemplate(), caFile),
	})
	return err
}

// stop stops the servers. The cloud must not have received unknown requests.
func (w *kubeWorld) stop() (err error) {
	if w.gate != nil {
		err = w.gate.Stop()
	}
	if w.server != nil {
		err = errors.Join(err, w.server.Stop())
	}
	if w.cloud != nil {
		for _, violation := range w.cloud.Violations() {
			err = errors.Join(err, fmt.Errorf("unknown request to the cloud: %v", violation))
		}
		err = errors.Join(err, w.cloud.Stop())
	}
	return err
}

// giveCredentials writes the Secret with the credentials of the service account into a namespace.
func (w *kubeWorld) giveCredentials(ctx context.Context, namespace string) error {
	return w.admin.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: credentials},
		StringData: map[string]string{"oauth-url": w.cloud.OAuthURL(), "client-id": w.account.ID, "client-secret": w.account.Secret},
	})
}

// awaitGates returns once the API server calls each gate, a moment after the installation of the webhook configurations.
func (w *kubeWorld) awaitGates(ctx context.Context) {
	GinkgoHelper()
	for gate, canary := range map[string]client.Object{
		"machine.warrantgate.dev":             newMachine(metav1.NamespaceDefault, "canary", "no-cluster", "not-a-server"),
		"kdcclusters.cluster.warrantgate.dev": newKdcCluster(metav1.NamespaceDefault, "canary"),
		"controller-manager-identity":         newManager(metav1.NamespaceDefault, "no-cluster", ""),
		"policies.keystone.warrantgate.dev":   newPolicy(metav1.NamespaceDefault, brokenPolicy),
	} {
		author := w.newTenant(ctx, metav1.NamespaceDefault)
		Eventually(func() error { return author.client.Create(ctx, canary, client.DryRunAll) }).Should(MatchError(ContainSubstring(gate)))
	}
}

// tenant is a user of the cloud, and a user of Kubernetes who has every permission in one namespace and may impersonate that user, and
// no permission elsewhere.
type tenant struct {
	namespace, name string
	client          client.Client
	recorder        *kubetest.Recorder
	user            cloudsigmatest.User
}

// newTenant creates a tenant in a namespace.
func (w *kubeWorld) newTenant(ctx context.Context, namespace string) tenant {
	GinkgoHelper()
	w.tenants++
	t := tenant{namespace: namespace, name: fmt.Sprintf("tenant-%d", w.tenants), recorder: &kubetest.Recorder{}}
	t.user = w.cloud.AddUser(t.name + "@example.com")
	Expect(w.cloud.AllowImpersonation(serviceAccount, t.user.Email)).To(Succeed())
	_, t.client = suite.NewEditor(ctx, w.server, t.recorder, namespace, t.name)
	Expect(access.Grant(ctx, w.admin, kcptest.User(t.name), rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{t.user.Email}, Verbs: []string{"impersonate"},
	})).To(Succeed())
	return t
}

// begin creates a tenant with a namespace of its own, in which the cluster "pool" acts as its user.
func begin(ctx context.Context) tenant {
	GinkgoHelper()
	t := kube.newTenant(ctx, suite.NewNamespace(ctx, kube.admin))
	Expect(t.client.Create(ctx, newCluster(t.namespace, clusterName, t.user.Email))).To(Succeed())
	return t
}

// server creates a server of the tenant's user in the cloud, and returns its UUID.
func (t tenant) server(name string) string { return kube.cloud.AddServer(region, t.user, name).UUID }

// machine creates the machine "worker" of the tenant's cluster, which names no server.
func (t tenant) machine(ctx context.Context) *unstructured.Unstructured {
	GinkgoHelper()
	machine := newMachine(t.namespace, "worker", clusterName, "")
	Expect(t.client.Create(ctx, machine)).To(Succeed())
	return machine
}

// claim writes status.instanceID of a machine, as a provider does; an empty ID clears it.
func claim(ctx context.Context, as client.Client, machine *unstructured.Unstructured, id string) error {
	GinkgoHelper()
	changed := machine.DeepCopy()
	Expect(as.Get(ctx, client.ObjectKeyFromObject(machine), changed)).To(Succeed())
	before := changed.DeepCopy()
	Expect(unstructured.SetNestedField(changed.Object, id, "status", "instanceID")).To(Succeed())
	return as.Status().Patch(ctx, changed, client.MergeFrom(before))
}

// instanceID is the ID in the stored machine.
func instanceID(ctx context.Context, machine *unstructured.Unstructured) string {
	GinkgoHelper()
	stored := machine.DeepCopy()
	Expect(kube.admin.Get(ctx, client.ObjectKeyFromObject(machine), stored)).To(Succeed())
	id, _, err := unstructured.NestedString(stored.Object, "status", "instanceID")
	Expect(err).NotTo(HaveOccurred())
	return id
}

func newObject(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := suite.NewObject(kind, namespace, name)
	object.Object["spec"] = spec
	return object
}

// newMachine returns a machine whose provider ID names a server, or none if id is empty.
func newMachine(namespace, name, cluster, id string) *unstructured.Unstructured {
	spec := map[string]any{}
	if id != "" {
		spec["providerID"] = "cloudsigma://" + id
	}
	machine := newObject(machineKind, namespace, name, spec)
	if cluster != "" {
		machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": cluster})
	}
	return machine
}

func newCluster(namespace, name, email string) *unstructured.Unstructured {
	return newObject(clusterKind, namespace, name, map[string]any{"region": region, "userEmail": email})
}

// newKdcCluster returns a KdcCluster that names a user.
func newKdcCluster(namespace, email string) *unstructured.Unstructured {
	cluster := newObject(kdcClusterKind, namespace, clusterName, map[string]any{"region": region})
	cluster.SetAnnotations(map[string]string{"cloudsigma.com/owner-email": email})
	return cluster
}

// newManager returns the Deployment of the controller manager of a cluster, which acts as a user, or as none if email is empty.
func newManager(namespace, cluster, email string) *appsv1.Deployment {
	app := map[string]string{"app": "cloudsigma-ccm"}
	container := corev1.Container{Name: "manager", Image: "cloudsigma-cloud-controller-manager:v1", Args: []string{"--cloud-provider=cloudsigma"}}
	if email != "" {
		container.Env = []corev1.EnvVar{{Name: "CLOUDSIGMA_USER_EMAIL", Value: email}}
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ccm", Labels: map[string]string{
			"app": "cloudsigma-ccm", "cluster.x-k8s.io/cluster-name": cluster,
		}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		},
	}
}

// newPolicy returns a ConfigMap with a policy for Keystone.
func newPolicy(namespace, policy string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "policy", Labels: map[string]string{"holds": "keystone-policy"}},
		Data:       map[string]string{"policy.yaml": policy},
	}
}

// describeObject is the output of "kubectl describe" of an object.
func describeObject(object client.Object) (string, error) {
	return suite.KubectlDescribe(kube.server.Config(), object.GetObjectKind().GroupVersionKind(), object.GetNamespace(), object.GetName())
}
