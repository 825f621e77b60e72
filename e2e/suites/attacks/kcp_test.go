//go:build e2e

package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// providerPath is the workspace with the APIExport exportName. tenantsPath holds the workspaces of tenants.
	providerPath, tenantsPath = "root:provider", "root:tenants"
	exportName                = "capcs"
	// tenantsGroup is the group of users who may create workspaces in tenantsPath.
	tenantsGroup = "tenants"
)

// kcpWorld is a kcp with a provider's workspace, a CloudSigma, and a warrantgate with the gates on Workspaces and on the kinds of
// the provider.
type kcpWorld struct {
	server *kcptest.Server
	cloud  *cloudsigmatest.Cloud
	gate   *kcptest.Warrantgate
	// provider is an administrator in the provider's workspace.
	provider *rest.Config
	// owners is the number of owners, for unique names.
	owners int
}

// kcp returns the shared world. The first call starts it.
func kcp(ctx SpecContext) *kcpWorld {
	GinkgoHelper()
	if sharedKCP == nil {
		sharedKCP = startKCP(ctx)
	}
	return sharedKCP
}

func startKCP(ctx SpecContext) *kcpWorld {
	GinkgoHelper()
	w := &kcpWorld{}
	started := false
	defer func() {
		if !started {
			w.stop()
		}
	}()
	var account cloudsigmatest.Client
	w.cloud, account = startCloud(ctx)
	var err error
	w.server, err = kcptest.Start(ctx, kcptest.Options{Binary: binary(asset.KCP)})
	Expect(err).NotTo(HaveOccurred())
	w.makePlaces(ctx)

	caFile, err := w.cloud.CAFile(w.server.Dir())
	Expect(err).NotTo(HaveOccurred())
	secretFile := filepath.Join(w.server.Dir(), "client-secret")
	Expect(os.WriteFile(secretFile, []byte(account.Secret), 0o600)).To(Succeed())
	w.gate, err = kcptest.NewWarrantgate(ctx, w.server, kcptest.WarrantgateOptions{
		Binary: binary(asset.Warrantgate),
		Configuration: fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
			"cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}\n", w.cloud.APITemplate(), w.cloud.ServiceProviderTemplate(), caFile),
		Args: []string{
			"--impersonation-enabled", "--oauth-url=" + w.cloud.OAuthURL(), "--client-id=" + account.ID, "--client-secret-file=" + secretFile,
		},
	})
	Expect(err).NotTo(HaveOccurred())
	_, err = w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := w.server.KubeconfigFile("provider-admin", w.provider)
	Expect(err).NotTo(HaveOccurred())
	output, err := w.gate.Run(ctx, append(w.gate.InstallArgs(), "install", "provider", "--kubeconfig="+kubeconfig,
		"--config="+w.gate.ConfigFile(), "--shard-kubeconfig="+w.server.AdminKubeconfig(), "--shard-context=system:admin")...)
	Expect(err).NotTo(HaveOccurred(), output)
	Expect(w.gate.Start(ctx)).To(Succeed())
	started = true
	return w
}

// makePlaces creates the provider's workspace, with an APIExport that all users may bind, and the parent of the tenants' workspaces.
func (w *kcpWorld) makePlaces(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{"provider", "tenants"} {
		_, err := kcptest.CreateWorkspace(ctx, w.server.Admin("root"), name)
		Expect(err).NotTo(HaveOccurred())
		_, err = kcptest.WaitReady(ctx, w.server.Admin("root"), name)
		Expect(err).NotTo(HaveOccurred())
	}
	w.provider = w.server.Admin(providerPath)
	crds, err := kubetest.CRDs("CloudSigmaMachine", "CloudSigmaCluster")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Export(ctx, w.provider, exportName, crds...)).To(Succeed())
	w.grantInProvider(ctx, kcptest.Group(user.AllAuthenticated), kcptest.BindRule(exportName))
	Expect(kcptest.Grant(ctx, w.server.Admin(tenantsPath), kcptest.Group(tenantsGroup), kcptest.CreatorRules()...)).To(Succeed())
}

// stop ends what has been started, as far as it came. The cloud must not have been asked anything that it does not know.
func (w *kcpWorld) stop() {
	GinkgoHelper()
	var errs []error
	if w.gate != nil {
		errs = append(errs, w.gate.Stop())
	}
	if w.server != nil {
		errs = append(errs, w.server.Stop())
	}
	if w.cloud != nil {
		errs = append(errs, w.cloud.Stop())
		Expect(w.cloud.Violations()).To(BeEmpty(), "the cloud was asked what it does not know")
	}
	Expect(errors.Join(errs...)).To(Succeed())
}

// grantInProvider gives a subject permissions in the provider's workspace, which need not let it enter that workspace. kcp acts on
// them a moment later.
func (w *kcpWorld) grantInProvider(ctx context.Context, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	c, err := kcptest.NewClient(w.provider)
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "attacks-"}, Rules: rules}
	Expect(c.Create(ctx, role)).To(Succeed())
	Expect(c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{subject},
	})).To(Succeed())
}

// permit lets somebody impersonate users, by their e-mails, in the provider's workspace, where warrantgate asks. It takes access to
// that workspace, too. The name may be the global one of a service account.
func (w *kcpWorld) permit(ctx context.Context, person string, emails ...string) {
	GinkgoHelper()
	w.grantInProvider(ctx, kcptest.User(person), kcptest.AccessRule(), rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: emails, Verbs: []string{"impersonate"},
	})
}

// owner is a tenant of a kcp: the user who created a workspace.
type owner struct {
	tenant
	// path is the path of the workspace, cluster is its logical cluster. admin is an administrator of kcp in it.
	path, cluster string
	admin         *rest.Config
}

// owner creates a user, who creates a workspace, is cluster-admin in it for that reason, and binds the provider's kinds there.
// Objects are in the namespace default.
func (w *kcpWorld) owner(ctx context.Context, name string) owner {
	GinkgoHelper()
	w.owners++
	who := owner{tenant: tenant{name: fmt.Sprintf("%s-%d", name, w.owners), namespace: metav1.NamespaceDefault, heard: &kubetest.Heard{}}}
	who.path = tenantsPath + ":" + who.name
	maker := w.server.Person(tenantsPath, who.name, tenantsGroup)
	_, err := kcptest.CreateWorkspace(ctx, maker, who.name)
	Expect(err).NotTo(HaveOccurred())
	workspace, err := kcptest.WaitReady(ctx, maker, who.name)
	Expect(err).NotTo(HaveOccurred())
	who.cluster = workspace.Spec.Cluster
	who.config, who.admin = w.server.Person(who.path, who.name, tenantsGroup), w.server.Admin(who.path)
	Eventually(func() error { // until kcp acts on workspace-admin, and on the permission to bind
		return kcptest.Bind(ctx, who.config, providerPath, exportName, machineKind)
	}).Should(Or(Succeed(), MatchError(ContainSubstring("already exists"))))
	who.client, err = client.New(who.heard.Listen(who.config), client.Options{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { // until the webhooks of the APIExport hold here
		return who.client.Create(ctx, newMachine(metav1.NamespaceDefault, "canary", "pool", map[string]any{"providerID": "cloudsigma://no-uuid"}),
			client.DryRunAll)
	}).Should(MatchError(ContainSubstring("machine.warrantgate.dev")))
	return who
}

// as is a user that the tenant impersonates in its workspace, with groups and extra fields.
func (o owner) as(username string, groups []string, extra map[string][]string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(o.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: username, Groups: groups, Extra: extra}
	c, err := client.New(o.heard.Listen(config), client.Options{})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// user adds a user of the cloud, whom warrantgate may act as there. Nobody may impersonate the user before permit.
func (w *kcpWorld) user(email string) cloudsigmatest.User {
	GinkgoHelper()
	return addUser(w.cloud, email)
}

// machineServer adds a server of a user.
func (w *kcpWorld) machineServer(owner cloudsigmatest.User, name string) cloudsigmatest.Server {
	return w.cloud.AddServer(region, owner, name)
}
