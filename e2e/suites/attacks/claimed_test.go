//go:build e2e

package attacks_test

import (
	"context"
	"net/http"
	"strings"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/internal/identity"
	kcpapi "warrantgate.dev/internal/kcp"
)

// With initializerPermissions (kcp v0.32), the author of a WorkspaceType can impersonate everybody in the virtual workspace for its initializer: kcp
// checks neither the names nor the groups, and adds no scope, but a group of the initializer.
var _ = Describe("an identity that the author of a WorkspaceType claims while a workspace is Initializing", func() {
	const masters = "system:masters"

	It("is not the system: it cannot choose owners, required groups, logical clusters and URLs of workspaces", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, victim := w.newOwner(ctx, "mallory"), w.victim(ctx)
		trap := attacker.trap(ctx)
		if trap == nil {
			return
		}
		claimed := suite.KCPClient(trap("system:apiserver", masters))
		boss := identity.Owner{Username: victim.name, Groups: []string{masters, "system:authenticated"}}.String()
		denied := func(what string) OmegaMatcher {
			return And(Satisfy(apierrors.IsForbidden), MatchError(And(
				ContainSubstring("tried to change "+what+" of workspace"), ContainSubstring("only the system may set it"), Not(ContainSubstring(victim.cluster)))))
		}
		for what, forge := range map[string]kcptest.WorkspaceOption{
			kcptest.OwnerAnnotation:         kcptest.WithAnnotation(kcptest.OwnerAnnotation, boss),
			kcpapi.RequiredGroupsAnnotation: kcptest.WithAnnotation(kcpapi.RequiredGroupsAnnotation, ""),
			"spec.cluster":                  func(ws *tenancyv1alpha1.Workspace) { ws.Spec.Cluster = victim.cluster },
			"spec.URL":                      func(ws *tenancyv1alpha1.Workspace) { ws.Spec.URL = "https://127.0.0.1:1" },
		} {
			By("creating a workspace with " + what)
			ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "forged-"}}
			kcptest.OfType("root", "universal")(ws)
			forge(ws)
			Expect(claimed.Create(ctx, ws)).To(denied(what))
		}

		By("changing a workspace")
		ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
		kcptest.OfType("root", "universal")(ws)
		Expect(claimed.Create(ctx, ws)).To(Succeed())
		for what, patch := range map[string]string{
			kcptest.OwnerAnnotation: `{"metadata":{"annotations":{"` + kcptest.OwnerAnnotation + `":"{}"}}}`,
			"spec.cluster":          `{"spec":{"cluster":"` + victim.cluster + `"}}`,
			"spec.URL":              `{"spec":{"URL":"https://127.0.0.1:1"}}`,
		} {
			ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
			Expect(claimed.Patch(ctx, ws, client.RawPatch(types.MergePatchType, []byte(patch)))).To(denied(what))
		}
	}, SpecTimeout(startTimeout))

	It("cannot name any user of the provider", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, victim := w.newOwner(ctx, "mallory"), w.victim(ctx)
		stranger := w.user("stranger-of-" + attacker.name + "@example.com")
		w.permit(ctx, victim.name, stranger.Email)
		trap := attacker.trap(ctx, tenancyv1alpha1.APIExportReference{Path: providerPath, Export: exportName})
		if trap == nil {
			return
		}
		mapper := meta.NewDefaultRESTMapper(nil) // kcp serves no discovery there
		mapper.Add(clusterKind, meta.RESTScopeNamespace)
		for _, who := range []*rest.Config{
			trap("system:apiserver", masters), trap("anybody", "system:kcp:admin"), trap(victim.name), trap(victim.globalName()),
		} {
			By("as " + who.Impersonate.UserName)
			c, err := client.New(attacker.recorder.Listen(who), client.Options{Mapper: mapper})
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, func() error { // until the webhooks of the APIExport are active here
				return c.Create(ctx, newCluster(metav1.NamespaceDefault, "probe", " "), client.DryRunAll)
			}).Should(MatchError(ContainSubstring("cluster.warrantgate.dev")))
			expectDenied(c.Create(ctx, newCluster(metav1.NamespaceDefault, "stolen", stranger.Email)), http.StatusForbidden, "IdentityClaimed")
		}
		Expect(attacker.recorder.Texts()).NotTo(ContainSubstring(stranger.UUID))
	}, SpecTimeout(startTimeout))
})

// The virtual workspace of an APIExport authorizes the impersonation of users and groups like a request for resources of these names, so an
// APIExport that has them allows it. kcp adds no scope, but a warrant.
var _ = Describe("an identity that the author of an APIExport claims in its virtual workspace", func() {
	It("is not the system: it cannot choose the owner of a workspace", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, victim := w.newOwner(ctx, "mallory"), w.victim(ctx)
		config := attacker.exportUsers(ctx)
		By("creating a workspace as itself")
		ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "own-"}}
		kcptest.OfType("root", "universal")(ws)
		Eventually(ctx, func() error { return suite.KCPClient(config).Create(ctx, ws.DeepCopy()) }).Should(Succeed())

		By("creating one as system:masters")
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:apiserver", Groups: []string{"system:masters"}}
		kcptest.WithAnnotation(kcptest.OwnerAnnotation, identity.Owner{Username: victim.name}.String())(ws)
		Expect(suite.KCPClient(config).Create(ctx, ws)).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("only the system may set it"))))
	}, SpecTimeout(startTimeout))
})

// exportUsers exports and binds the resources users and groups of the core group in the tenant's workspace, with a claim of its Workspaces.
// It returns a config for the workspace in the virtual workspace of the APIExport.
func (o owner) exportUsers(ctx context.Context) *rest.Config {
	GinkgoHelper()
	c := suite.KCPClient(o.config)
	bindings := &apisv1alpha2.APIBindingList{}
	Expect(c.List(ctx, bindings)).To(Succeed())
	claim := apisv1alpha2.PermissionClaim{GroupResource: apisv1alpha2.GroupResource{Group: "tenancy.kcp.io", Resource: "workspaces"}, Verbs: []string{"*"}}
	for i := range bindings.Items {
		for _, bound := range bindings.Items[i].Status.BoundResources {
			if bound.Resource == claim.Resource {
				claim.IdentityHash = bound.Schema.IdentityHash
			}
		}
	}
	const name = "core"
	export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apisv1alpha2.APIExportSpec{PermissionClaims: []apisv1alpha2.PermissionClaim{claim}}}
	for kind, plural := range map[string]string{"User": "users", "Group": "groups"} {
		schema := &apisv1alpha1.APIResourceSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "v1." + plural + ".core"},
			Spec: apisv1alpha1.APIResourceSchemaSpec{
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
				Scope: apiextensionsv1.ClusterScoped,
				Versions: []apisv1alpha1.APIResourceVersion{{
					Name: "v1", Served: true, Storage: true, Schema: runtime.RawExtension{Raw: []byte(`{"type":"object"}`)},
				}},
			},
		}
		Expect(c.Create(ctx, schema)).To(Succeed())
		export.Spec.Resources = append(export.Spec.Resources, apisv1alpha2.ResourceSchema{
			Name: plural, Schema: schema.Name, Storage: apisv1alpha2.ResourceSchemaStorage{CRD: &apisv1alpha2.ResourceSchemaStorageCRD{}},
		})
	}
	Expect(c.Create(ctx, export)).To(Succeed())
	binding := &apisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apisv1alpha2.APIBindingSpec{
			Reference: apisv1alpha2.BindingReference{Export: &apisv1alpha2.ExportBindingReference{Path: o.path, Name: name}},
			PermissionClaims: []apisv1alpha2.AcceptablePermissionClaim{{
				ScopedPermissionClaim: apisv1alpha2.ScopedPermissionClaim{PermissionClaim: claim, Selector: apisv1alpha2.PermissionClaimSelector{MatchAll: true}},
				State:                 apisv1alpha2.ClaimAccepted,
			}},
		},
	}
	Eventually(ctx, func() error { return c.Create(ctx, binding.DeepCopy()) }).Should(Succeed())
	config := rest.CopyConfig(o.config)
	Eventually(ctx, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKey{Name: name}, binding)).To(Succeed())
		g.Expect(binding.Status.Phase).To(Equal(apisv1alpha2.APIBindingPhaseBound))
		slice := &apisv1alpha1.APIExportEndpointSlice{}
		g.Expect(c.Get(ctx, client.ObjectKey{Name: name}, slice)).To(Succeed())
		g.Expect(slice.Status.APIExportEndpoints).NotTo(BeEmpty())
		config.Host = slice.Status.APIExportEndpoints[0].URL + "/clusters/" + o.cluster
	}).Should(Succeed())
	return config
}

// trap creates a workspace of a type of the tenant, whose initializer does not finish. It returns a config of an identity that the tenant claims in it;
// nil if this kcp does not store initializerPermissions, so that its initializers act as the owner.
func (o owner) trap(ctx context.Context, bound ...tenancyv1alpha1.APIExportReference) func(username string, groups ...string) *rest.Config {
	GinkgoHelper()
	wt := &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "trap"},
		Spec: tenancyv1alpha1.WorkspaceTypeSpec{
			Initializer: true, DefaultAPIBindings: bound,
			Extend: tenancyv1alpha1.WorkspaceTypeExtension{With: []tenancyv1alpha1.WorkspaceTypeReference{{Path: "root", Name: "universal"}}},
			InitializerPermissions: []rbacv1.PolicyRule{
				{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
			},
		},
	}
	ofType, err := kcptest.CreateWorkspaceType(ctx, o.config, o.path, wt)
	Expect(err).NotTo(HaveOccurred())
	if len(wt.Spec.InitializerPermissions) == 0 {
		return nil
	}
	// kcp asks whether the claimed identity may initialize, which the author of the type can allow to everybody.
	Expect(kcptest.Grant(ctx, o.config, kcptest.Group("system:authenticated"), kcptest.AccessRule(),
		kcptest.Rule("tenancy.kcp.io", []string{"workspacetypes"}, []string{"initialize"}))).To(Succeed())
	suite.CreateWorkspace(ctx, o.config, "trap", ofType)
	cluster := o.placed(ctx, "trap")
	url := ""
	Eventually(ctx, func(g Gomega) {
		g.Expect(suite.KCPClient(o.config).Get(ctx, client.ObjectKey{Name: "trap"}, wt)).To(Succeed())
		for _, endpoint := range wt.Status.VirtualWorkspaces {
			if strings.Contains(endpoint.URL, "/initializingworkspaces/") {
				url = endpoint.URL
			}
		}
		g.Expect(url).NotTo(BeEmpty())
		g.Expect(o.workspace(ctx, "trap").Status.Initializers).To(HaveLen(1), "the default API bindings exist")
	}).Should(Succeed())
	return func(username string, groups ...string) *rest.Config {
		config := rest.CopyConfig(o.config)
		config.Host = url + "/clusters/" + cluster
		config.Impersonate = rest.ImpersonationConfig{UserName: username, Groups: append(groups, "system:authenticated")}
		return config
	}
}
