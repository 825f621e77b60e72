//go:build e2e

package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// kubeWorld is a kube-apiserver with the kinds of the providers, a CloudSigma, and a warrantgate with all gates, whose user only has
// the documented permissions.
type kubeWorld struct {
	api   *kubetest.Server
	cloud *cloudsigmatest.Cloud
	gate  *kubetest.Warrantgate
	// admin is of group system:masters.
	admin client.Client
	// labeled is true if the label holds: keystone-policy selects policies for Keystone.
	labeled bool
	// editors is the number of editors, for unique names.
	editors int
}

// kubeConfiguration is that of the shared world, besides where the cloud is. Policies for Keystone are in objects with the label
// holds: keystone-policy. Controller managers have the label app: cloudsigma-ccm, or the name ccm in the namespace named-managers. Claims
// are denied at once: guarantee7_claims_test.go attacks those that are undecided at first.
const kubeConfiguration = `
audit: {interval: 24h}
controllerManager:
  selector: {matchLabels: {app: cloudsigma-ccm}}
  objects: [{namespace: named-managers, name: ccm}]
keystonePolicy:
  selector: {matchLabels: {holds: keystone-policy}}
`

// kube returns the shared world. The first call starts it.
func kube(ctx SpecContext) *kubeWorld {
	GinkgoHelper()
	if sharedKube == nil {
		sharedKube = startKube(ctx, kubeConfiguration)
	}
	return sharedKube
}

// newKube starts a world that stops with the spec or container that calls it.
func newKube(ctx SpecContext, configuration string) *kubeWorld {
	GinkgoHelper()
	w := startKube(ctx, configuration)
	DeferCleanup(w.stop)
	return w
}

func startKube(ctx SpecContext, configuration string) *kubeWorld {
	GinkgoHelper()
	w := &kubeWorld{labeled: strings.Contains(configuration, "holds: keystone-policy")}
	started := false
	defer func() {
		if !started {
			w.stop()
		}
	}()
	var account cloudsigmatest.Client
	w.cloud, account = startCloud(ctx)
	var err error
	w.api, err = kubetest.Start(ctx, kubetest.Options{KubeAPIServer: binary(asset.KubeAPIServer), Etcd: binary(asset.Etcd)})
	Expect(err).NotTo(HaveOccurred())
	w.admin = w.api.Client()

	caFile, err := w.cloud.CAFile(w.api.Dir())
	Expect(err).NotTo(HaveOccurred())
	secretFile := filepath.Join(w.api.Dir(), "client-secret")
	Expect(os.WriteFile(secretFile, []byte(account.Secret), 0o600)).To(Succeed())
	w.gate, err = kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{
		Binary: binary(asset.Warrantgate),
		Configuration: fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
			"cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}\n%s",
			w.cloud.APITemplate(), w.cloud.ServiceProviderTemplate(), caFile, configuration),
		Args: []string{
			"--impersonation-enabled", "--oauth-url=" + w.cloud.OAuthURL(), "--client-id=" + account.ID, "--client-secret-file=" + secretFile,
		},
	})
	Expect(err).NotTo(HaveOccurred())
	_, err = w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.gate.Start(ctx)).To(Succeed())
	w.awaitGates(ctx)
	started = true
	return w
}

// stop ends what has been started, as far as it came. The cloud must not have been asked anything that it does not know.
func (w *kubeWorld) stop() {
	GinkgoHelper()
	var errs []error
	if w.gate != nil {
		errs = append(errs, w.gate.Stop())
	}
	if w.api != nil {
		errs = append(errs, w.api.Stop())
	}
	if w.cloud != nil {
		errs = append(errs, w.cloud.Stop())
		Expect(w.cloud.Violations()).To(BeEmpty(), "the cloud was asked what it does not know")
	}
	Expect(errors.Join(errs...)).To(Succeed())
}

// awaitGates returns once the API server asks the gates: it does so a moment after they have been registered.
func (w *kubeWorld) awaitGates(ctx context.Context) {
	GinkgoHelper()
	namespace := w.namespace(ctx)
	Eventually(func() error {
		return w.admin.Create(ctx, newMachine(namespace, "canary", "", map[string]any{"providerID": "cloudsigma://no-uuid"}), client.DryRunAll)
	}).Should(MatchError(ContainSubstring("machine.warrantgate.dev")))
	if w.labeled {
		Eventually(func() error {
			return w.admin.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "canary", Labels: map[string]string{"holds": "keystone-policy"}},
				Data:       map[string]string{"policy.yaml": "\"identity:list_users\": \"no such rule\"\n"},
			}, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("keystone.warrantgate.dev")))
	}
}

// namespace creates a namespace.
func (w *kubeWorld) namespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-"}}
	Expect(w.admin.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// editor creates a user who has every verb on every resource in a namespace, and no permission elsewhere. This does not include the
// permission to impersonate users, which are not namespaced.
func (w *kubeWorld) editor(ctx context.Context, namespace string) tenant {
	GinkgoHelper()
	w.editors++
	who := tenant{name: fmt.Sprintf("editor-%d", w.editors), namespace: namespace, heard: &kubetest.Heard{}}
	var err error
	who.config, err = w.api.User(who.name)
	Expect(err).NotTo(HaveOccurred())
	who.client, err = w.api.NewClient(who.heard.Listen(who.config))
	Expect(err).NotTo(HaveOccurred())
	for _, object := range []client.Object{
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: who.name},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: who.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: who.name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who.name}},
		},
	} {
		Expect(w.admin.Create(ctx, object)).To(Succeed())
	}
	Eventually(func() error { return who.client.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace)) }).Should(Succeed())
	return who
}

// permit lets a person impersonate users, by their e-mails, and waits until the API server acts on it.
func (w *kubeWorld) permit(ctx context.Context, person string, emails ...string) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "impersonate-"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: emails, Verbs: []string{"impersonate"},
	}}}
	Expect(w.admin.Create(ctx, role)).To(Succeed())
	Expect(w.admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: person}},
	})).To(Succeed())
	for _, email := range emails {
		Eventually(func() (bool, error) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: person, ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "users", Name: email, Verb: "impersonate"},
			}}
			err := w.admin.Create(ctx, review)
			return review.Status.Allowed, err
		}).Should(BeTrue())
	}
}

// user adds a user of the cloud, whom warrantgate may act as there. Nobody may impersonate the user in the API server before permit.
func (w *kubeWorld) user(email string) cloudsigmatest.User {
	GinkgoHelper()
	return addUser(w.cloud, email)
}

// server adds a server of a user.
func (w *kubeWorld) server(owner cloudsigmatest.User, name string) cloudsigmatest.Server {
	return w.cloud.AddServer(region, owner, name)
}
