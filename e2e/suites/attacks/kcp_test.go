//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"os"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
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
	cloudWorld
	kcp  *kcptest.Server
	gate *kcptest.Warrantgate
	// options are those of gate.
	options kcptest.WarrantgateOptions
	// provider is an administrator in the provider's workspace.
	provider *rest.Config
	// owners is the number of owners, for unique names.
	owners int

	// shared is the victim of most specs. The others are shared by the specs of the recorded owner.
	shared           *victim
	attacker, lender owner
	stolen, private  kcptest.WorkspaceOption
}

// victim is an owner with the permission to act as a user, a cluster "pool" of that user, and a service account "bot".
type victim struct {
	owner
	user cloudsigmatest.User
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
	complete := false
	defer w.stopUnless(&complete)
	w.startCloud(ctx)
	var err error
	w.kcp, err = kcptest.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	w.started(w.kcp.Stop)
	w.makePlaces(ctx)

	w.options = w.settings(w.kcp.Dir(), "")
	w.gate, err = kcptest.NewWarrantgate(ctx, w.kcp, w.options)
	Expect(err).NotTo(HaveOccurred())
	w.started(w.gate.Stop)
	_, err = w.gate.Install(ctx)
	Expect(err).NotTo(HaveOccurred())
	suite.Patient(ctx, suite.KCPClient(w.kcp.Admin("root")))
	w.installProvider(ctx, w.provider, w.gate.ConfigFile())
	Expect(w.gate.Start(ctx)).To(Succeed())
	complete = true
	return w
}

// installProvider installs the gates of a configuration on a provider's kinds, and the roles for the kinds of the configuration.
func (w *kcpWorld) installProvider(ctx context.Context, provider *rest.Config, configFile string) {
	GinkgoHelper()
	kubeconfig, err := w.kcp.KubeconfigFile("provider-admin", provider)
	Expect(err).NotTo(HaveOccurred())
	output, err := w.gate.Run(ctx, append(w.gate.InstallArgs(), "install", "provider", "--kubeconfig="+kubeconfig,
		"--config="+configFile, "--shard-kubeconfig="+w.kcp.AdminKubeconfig(), "--shard-context=system:admin")...)
	Expect(err).NotTo(HaveOccurred(), output)
	suite.Patient(ctx, suite.KCPClient(provider))
}

// configure restarts warrantgate with another configuration.
func (w *kcpWorld) configure(ctx context.Context, configuration string) {
	GinkgoHelper()
	Expect(os.WriteFile(w.gate.ConfigFile(), []byte(configuration), 0o600)).To(Succeed())
	Expect(w.gate.Restart(ctx)).To(Succeed())
}

// makePlaces creates the provider's workspace, with an APIExport that all users may bind, and the parent of the tenants' workspaces.
func (w *kcpWorld) makePlaces(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{"provider", "tenants"} {
		suite.ReadyWorkspace(ctx, w.kcp.Admin("root"), name)
	}
	w.provider = w.kcp.Admin(providerPath)
	exportKinds(ctx, w.provider)
	Expect(kcptest.Grant(ctx, w.kcp.Admin(tenantsPath), kcptest.Group(tenantsGroup), kcptest.CreatorRules()...)).To(Succeed())
}

// exportKinds exports the kinds from the workspace of a provider to all users.
func exportKinds(ctx context.Context, provider *rest.Config) {
	GinkgoHelper()
	crds, err := kubetest.CRDs(machineKind.Kind, clusterKind.Kind)
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Export(ctx, provider, exportName, crds...)).To(Succeed())
	grantIn(ctx, provider, kcptest.Group(user.AllAuthenticated), kcptest.BindRule(exportName))
}

// grantInProvider gives a subject permissions in the provider's workspace, not necessarily that to enter it. kcp's authorizer
// observes them a moment later.
func (w *kcpWorld) grantInProvider(ctx context.Context, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	grantIn(ctx, w.provider, subject, rules...)
}

// grantIn is grantInProvider for any workspace.
func grantIn(ctx context.Context, config *rest.Config, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	c := suite.KCPClient(config)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "attacks-"}, Rules: rules}
	Expect(c.Create(ctx, role)).To(Succeed())
	Expect(c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{subject},
	})).To(Succeed())
}

// permit allows a user to impersonate users, by their email addresses, in the provider's workspace, where warrantgate checks this.
// It also allows access to that workspace. The name can be the global one of a service account.
func (w *kcpWorld) permit(ctx context.Context, username string, emails ...string) {
	GinkgoHelper()
	w.grantInProvider(ctx, kcptest.User(username), kcptest.AccessRule(), rbacv1.PolicyRule{
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
	who := w.newOwner(ctx, name)
	who.bindProvider(ctx, machineCanary(who))
	return who
}

// victim returns a tenant for attacks in which it does nothing itself. All specs share it, so compare its objects and Events with those before.
func (w *kcpWorld) victim(ctx context.Context) *victim {
	GinkgoHelper()
	if w.shared == nil {
		v := &victim{owner: w.owner(ctx, "victim")}
		v.user = w.user(v.name + "@example.com")
		w.permit(ctx, v.name, v.user.Email)
		Eventually(func() error { return v.client.Create(ctx, newCluster(v.namespace, "pool", v.user.Email)) }).WithContext(ctx).Should(Succeed())
		_, err := kcptest.ServiceAccount(ctx, v.admin, metav1.NamespaceDefault, "bot")
		Expect(err).NotTo(HaveOccurred())
		w.shared = v
	}
	return w.shared
}

// newOwner is owner without the provider's kinds.
func (w *kcpWorld) newOwner(ctx context.Context, name string) owner {
	GinkgoHelper()
	w.owners++
	who := owner{tenant: tenant{name: fmt.Sprintf("%s-%d", name, w.owners), namespace: metav1.NamespaceDefault, recorder: &kubetest.Recorder{}}}
	who.path = tenantsPath + ":" + who.name
	maker := w.kcp.User(tenantsPath, who.name, tenantsGroup)
	workspace := suite.ReadyWorkspace(ctx, maker, who.name)
	who.cluster = workspace.Spec.Cluster
	who.config, who.admin = w.kcp.User(who.path, who.name, tenantsGroup), w.kcp.Admin(who.path)
	return who
}

// allow gives every permission in the tenant's workspace to a group.
func (o owner) allow(ctx context.Context, group string) {
	GinkgoHelper()
	Expect(o.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "allowed-"}, Subjects: []rbacv1.Subject{kcptest.Group(group)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	})).To(Succeed())
}

// forgeOwner tries to replace the recorded owner of the workspace "child", as a user of its parent.
func forgeOwner(ctx context.Context, config *rest.Config) error {
	GinkgoHelper()
	child := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "child"}}
	return suite.KCPClient(config).Patch(ctx, child, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+kcptest.OwnerAnnotation+`":"{}"}}}`)))
}

// as is a user that the tenant impersonates in its workspace, with groups and extra fields.
func (o owner) as(username string, groups []string, extra map[string][]string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(o.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: username, Groups: groups, Extra: extra}
	c := suite.UnstructuredClient(o.recorder.Listen(config))
	return c
}
