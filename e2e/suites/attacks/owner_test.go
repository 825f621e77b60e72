//go:build e2e

package attacks_test

import (
	"context"
	"encoding/json"
	"strings"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/internal/identity"
	kcpapi "warrantgate.dev/internal/kcp"
)

// A user who may impersonate in one workspace can add any extra field of kcp to a request (kcp-dev/kcp#4226): the home of a service
// account, scopes, warrants. kcp appends the scope of that workspace and records all of it as the owner of a new one.
var _ = Describe("the recorded owner of a workspace, against the administrator of another workspace", func() {
	DescribeTable("a service account of another workspace is not recorded as the owner",
		func(ctx SpecContext, forge func(victim, attacker owner, extra map[string][]string)) {
			w := kcp(ctx)
			victim := w.victim(ctx).owner
			attacker, stolen := w.thief(ctx)
			bot := bot(victim)
			attacker.admit(ctx, victim.globalName())
			attacker.admit(ctx, bot.Username)
			forge(victim, attacker, bot.Extra)
			ws := attacker.createAs(ctx, bot, stolen)

			By("reading the owner in the LogicalCluster")
			cluster := attacker.placed(ctx, ws)
			recorded := bot
			recorded.Extra[identity.ScopesKey] = append(bot.Extra[identity.ScopesKey], "cluster:"+attacker.cluster)
			Expect(recordedOwner(ctx, w, cluster)).To(Equal(recorded.String()))
			Expect(attacker.workspace(ctx, ws).Annotations).NotTo(HaveKey(kcptest.CreatedByAnnotation))
			Eventually(ctx, suite.DescribeWorkspace).WithArguments(attacker.config, ws).Should(
				MatchRegexp(`(?m)^ +Warning +OwnerNotRewritten .*it was impersonated elsewhere, so its home is only claimed \(HomeOutOfScope\)`))

			w.expectUnbound(ctx, cluster)
		},
		Entry("impersonated with its home", func(_, _ owner, _ map[string][]string) {}, SpecTimeout(startTimeout)),
		Entry("with a scope of both workspaces", func(victim, attacker owner, extra map[string][]string) {
			extra[identity.ScopesKey] = []string{"cluster:" + victim.cluster + ",cluster:" + attacker.cluster}
		}, SpecTimeout(startTimeout)),
	)

	dropsWarrantOf := func(ctx SpecContext, warrant identity.Warrant, owner identity.Owner, wantDropped, wantReason string) {
		w := kcp(ctx)
		attacker, stolen := w.thief(ctx)
		owner.Extra[identity.WarrantKey] = []string{warrant.String()}
		attacker.admit(ctx, owner.Username)
		ws := attacker.createAs(ctx, owner, stolen)
		cluster := attacker.placed(ctx, ws)
		Expect(recordedOwner(ctx, w, cluster)).NotTo(Or(ContainSubstring(warrant.Groups[0]), ContainSubstring(warrant.User)))
		Eventually(ctx, suite.DescribeWorkspace).WithArguments(attacker.config, ws).Should(And(
			MatchRegexp(`(?m)^ +\w+ +WarrantDropped .*1 warrant `+wantDropped), ContainSubstring(wantReason)))
		w.expectUnbound(ctx, cluster)
	}
	dropsWarrant := func(ctx SpecContext, owner identity.Owner, wantReason string) {
		dropsWarrantOf(ctx, identity.Warrant{User: "root-boss", Groups: []string{"system:kcp:admin"}}, owner, "had an administrator's permissions", wantReason)
	}
	DescribeTable("an administrator's warrant is not recorded", dropsWarrant,
		Entry("with a user", impersonated("alice", nil), "OwnerRewritten", SpecTimeout(startTimeout)),
		Entry("with a service account that is impersonated in its own workspace", impersonated("system:serviceaccount:default:bot", nil), "OwnerRewritten", SpecTimeout(startTimeout)),
		Entry("with a service account of two homes", impersonated("system:serviceaccount:default:bot",
			map[string][]string{identity.ClusterNameKey: {"a", "b"}}), "HomeAmbiguous", SpecTimeout(startTimeout)),
		Entry("with a user and a field that makes the owner too large", impersonated("alice",
			map[string][]string{"example.com/x": {strings.Repeat("x", identity.MaxOwnerBytes)}}), "OwnerTooLarge", SpecTimeout(startTimeout)),
	)

	It("an impersonated warrant is not recorded, even if all warrants are kept", func(ctx SpecContext) {
		w := kcp(ctx)
		w.configure(ctx, w.options.Configuration+"delegation: {keepWarrants: {users: [\"*\"], groups: [\"*\"]}}\n")
		DeferCleanup(func(ctx SpecContext) { w.configure(ctx, w.options.Configuration) })
		dropsWarrant(ctx, impersonated("alice", nil), "OwnerRewritten")
		colleague := identity.Warrant{User: "bob", Groups: []string{"example:billing"}}
		const forgeable = "that an impersonator can have added"
		dropsWarrantOf(ctx, colleague, impersonated("alice", nil), forgeable, "OwnerRewritten")
		dropsWarrantOf(ctx, colleague, impersonated("system:serviceaccount:default:bot", nil), forgeable, "OwnerRewritten")
	}, SpecTimeout(startTimeout))

	lent := func(ctx SpecContext, username string, through func(context.Context, *kcpWorld, owner, string) *rest.Config) {
		w := kcp(ctx)
		consumer, private := w.consumer(ctx)
		config := through(ctx, w, consumer, username)
		child := "child-" + rand.String(6)
		Eventually(ctx, func() error {
			_, err := kcptest.TryCreateWorkspace(ctx, config, child, private)
			return err
		}).Should(Succeed())
		cluster := consumer.placed(ctx, child)
		recorded, err := identity.ParseOwner(recordedOwner(ctx, w, cluster))
		Expect(err).NotTo(HaveOccurred())
		Expect(recorded).To(And(HaveField("Username", username), HaveField("Extra", Not(HaveKey(identity.WarrantKey)))))
		Eventually(ctx, suite.DescribeWorkspace).WithArguments(consumer.config, child).Should(
			MatchRegexp(`(?m)^ +Normal +WarrantDropped .*1 warrant had an administrator's permissions`))
		Expect(suite.DescribeWorkspace(consumer.config, child)).NotTo(ContainSubstring("PrivilegedOwner"))
		w.expectUnbound(ctx, cluster)
	}
	DescribeTable("the administrator's warrant that kcp adds to a user's request through an APIExport's virtual workspace is not recorded", lent,
		Entry("of an APIExport that claims workspaces", "mallory", throughClaim, SpecTimeout(startTimeout)),
		Entry("of tenancy.kcp.io", "mallory", throughTenancy, SpecTimeout(startTimeout)),
		Entry("with a name that the admission policy does not handle", `https://issuer.example.com/?a&b#"mallory"`, throughTenancy, SpecTimeout(startTimeout)),
	)

	It("that warrant is not recorded, even if all warrants are kept", func(ctx SpecContext) {
		w := kcp(ctx)
		w.configure(ctx, w.options.Configuration+"delegation: {keepWarrants: {users: [\"*\"], groups: [\"*\", \"*:*\"]}}\n")
		DeferCleanup(func(ctx SpecContext) { w.configure(ctx, w.options.Configuration) })
		lent(ctx, `"mallory"`, throughTenancy)
	}, SpecTimeout(startTimeout))

	It("an update cannot write an Event into another workspace", func(ctx SpecContext) {
		w := kcp(ctx)
		victim := w.victim(ctx)
		attacker, _ := w.thief(ctx)
		suite.ReadyWorkspace(ctx, attacker.config, "child")
		annotate := func(annotations map[string]string) error {
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
			Expect(err).NotTo(HaveOccurred())
			ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "child"}}
			return suite.KCPClient(attacker.config).Patch(ctx, ws, client.RawPatch(types.MergePatchType, patch))
		}
		for _, changes := range []map[string]string{
			{"kcp.io/cluster": victim.cluster},
			{"kcp.io/cluster": victim.cluster, kcptest.OwnerAnnotation: `{"username":"root-boss"}`},
			{"kcp.io/cluster": "../" + victim.cluster, "warrantgate.dev/canary": "true"}, // only the webhook denies this
		} {
			err := annotate(changes)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring("kcp.io/cluster")))
			Expect(err).NotTo(MatchError(ContainSubstring(victim.cluster)))
			if changes[kcptest.OwnerAnnotation] != "" {
				Expect(err).To(MatchError(And(ContainSubstring("tried to change"), ContainSubstring("in logical cluster %q", attacker.cluster))))
			}
		}
		By("waiting for the Event of a later denial, because Events are written in order")
		Expect(annotate(map[string]string{kcptest.OwnerAnnotation: "{}"})).NotTo(Succeed())
		Eventually(ctx, suite.DescribeWorkspace).WithArguments(attacker.config, "child").Should(ContainSubstring("OwnerChangeDenied"))
		events := &corev1.EventList{}
		Expect(suite.KCPClient(victim.admin).List(ctx, events)).To(Succeed())
		Expect(events.Items).NotTo(ContainElement(HaveField("InvolvedObject.Kind", "Workspace")))
	}, SpecTimeout(startTimeout))

	It("a creation cannot take the logical cluster of another workspace, or write an Event there", func(ctx SpecContext) {
		w := kcp(ctx)
		victim := w.victim(ctx)
		attacker, _ := w.thief(ctx)
		byPolicy := suite.ByPolicy(w.kcp)
		_, err := kcptest.TryCreateWorkspace(ctx, attacker.config, "stolen", kcptest.WithAnnotation("internal.tenancy.kcp.io/cluster", victim.cluster),
			kcptest.WithAnnotation("kcp.io/cluster", victim.cluster), kcptest.WithAnnotation(kcptest.CreatedByAnnotation, victim.name),
			func(ws *tenancyv1alpha1.Workspace) { ws.UID = types.UID(victim.cluster) })
		if byPolicy {
			Expect(err).NotTo(HaveOccurred())
			Expect(attacker.placed(ctx, "stolen")).NotTo(Equal(victim.cluster))
			Expect(attacker.workspace(ctx, "stolen").Annotations).NotTo(HaveKeyWithValue(kcptest.CreatedByAnnotation, victim.name))
			Eventually(func() []string { return gateEvents(ctx, attacker) }).Should(ContainElement(HavePrefix("NotRestored: ")))
		} else {
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(And(ContainSubstring("out of the request"), Not(ContainSubstring(victim.cluster)))))
		}
		Expect(gateEvents(ctx, victim.owner)).NotTo(ContainElement(HavePrefix("NotRestored: ")))
	}, SpecTimeout(startTimeout))
})

// thief returns an attacker with a WorkspaceType whose workspaces bind the victim's gadgets. All specs share it.
func (w *kcpWorld) thief(ctx context.Context) (attacker owner, stolen kcptest.WorkspaceOption) {
	GinkgoHelper()
	if w.stolen == nil {
		w.attacker = w.newOwner(ctx, "attacker")
		w.victim(ctx).exportGadgets(ctx)
		w.stolen = w.attacker.typeThatBinds(ctx, w.victim(ctx).owner)
	}
	return w.attacker, w.stolen
}

// consumer returns a tenant with gadgets and a WorkspaceType whose workspaces bind them. All specs share it.
func (w *kcpWorld) consumer(ctx context.Context) (who owner, private kcptest.WorkspaceOption) {
	GinkgoHelper()
	if w.private == nil {
		w.lender = w.newOwner(ctx, "consumer")
		w.lender.exportGadgets(ctx)
		var err error
		w.private, err = kcptest.CreateWorkspaceType(ctx, w.lender.config, w.lender.path, &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: "private"},
			Spec:       tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: w.lender.path, Export: gadgets}}},
		})
		Expect(err).NotTo(HaveOccurred())
	}
	return w.lender, w.private
}

// throughTenancy returns a config for a user in the workspace of a consumer, through the virtual workspace of tenancy.kcp.io.
func throughTenancy(ctx context.Context, w *kcpWorld, consumer owner, username string) *rest.Config {
	GinkgoHelper()
	config, err := w.kcp.Through(ctx, w.kcp.Admin("root"), "tenancy.kcp.io", consumer.cluster, username)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// throughClaim returns a config for a user in the workspace of a consumer, through the virtual workspace of an APIExport of a provider. The
// consumer binds it and accepts its claim on workspaces.
func throughClaim(ctx context.Context, w *kcpWorld, consumer owner, username string) *rest.Config {
	GinkgoHelper()
	provider := w.newOwner(ctx, "attacker")
	const export = "lures.example.io"
	tenancy := &apisv1alpha2.APIExport{}
	Expect(suite.KCPClient(w.kcp.Admin("root")).Get(ctx, client.ObjectKey{Name: "tenancy.kcp.io"}, tenancy)).To(Succeed())
	claim := apisv1alpha2.PermissionClaim{
		GroupResource: apisv1alpha2.GroupResource{Group: "tenancy.kcp.io", Resource: "workspaces"},
		Verbs:         []string{"*"}, IdentityHash: tenancy.Status.IdentityHash,
	}
	Expect(kcptest.Export(ctx, provider.config, export, kcptest.Widgets(export))).To(Succeed())
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		made := &apisv1alpha2.APIExport{}
		if err := suite.KCPClient(provider.config).Get(ctx, client.ObjectKey{Name: export}, made); err != nil {
			return err
		}
		made.Spec.PermissionClaims = []apisv1alpha2.PermissionClaim{claim}
		return suite.KCPClient(provider.config).Update(ctx, made)
	})).To(Succeed())
	Expect(kcptest.Grant(ctx, provider.config, kcptest.Group("system:authenticated"), kcptest.AccessRule(), kcptest.BindRule(export))).To(Succeed())

	binding := &apisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{Name: export},
		Spec: apisv1alpha2.APIBindingSpec{
			Reference: apisv1alpha2.BindingReference{Export: &apisv1alpha2.ExportBindingReference{Path: provider.path, Name: export}},
			PermissionClaims: []apisv1alpha2.AcceptablePermissionClaim{{
				ScopedPermissionClaim: apisv1alpha2.ScopedPermissionClaim{
					PermissionClaim: claim, Selector: apisv1alpha2.PermissionClaimSelector{MatchAll: true},
				},
				State: apisv1alpha2.ClaimAccepted,
			}},
		},
	}
	Eventually(ctx, func() error { return suite.KCPClient(consumer.config).Create(ctx, binding.DeepCopy()) }).Should(Succeed())
	Eventually(ctx, func(g Gomega) {
		g.Expect(suite.KCPClient(consumer.config).Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		g.Expect(binding.Status.AppliedPermissionClaims).NotTo(BeEmpty())
	}).Should(Succeed())
	config, err := w.kcp.Through(ctx, provider.config, export, consumer.cluster, username)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// gadgets is an APIExport that only one service account may bind.
const gadgets = "gadgets.example.io"

// impersonated is an authenticated user with extra fields.
func impersonated(username string, extra map[string][]string) identity.Owner {
	if extra == nil {
		extra = map[string][]string{}
	}
	return identity.Owner{Username: username, Groups: []string{"system:authenticated"}, Extra: extra}
}

func (o owner) globalName() string {
	return "system:kcp:serviceaccount:" + o.cluster + ":default:bot"
}

// exportGadgets creates an APIExport that the service account "bot" may bind, by both of its names.
func (o owner) exportGadgets(ctx context.Context) {
	GinkgoHelper()
	c := suite.KCPClient(o.config)
	schema := &apisv1alpha1.APIResourceSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + gadgets},
		Spec: apisv1alpha1.APIResourceSchemaSpec{
			Group: "example.io",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"},
			Scope: apiextensionsv1.ClusterScoped,
			Versions: []apisv1alpha1.APIResourceVersion{{
				Name: "v1", Served: true, Storage: true, Schema: runtime.RawExtension{Raw: []byte(`{"type":"object"}`)},
			}},
		},
	}
	Expect(c.Create(ctx, schema)).To(Succeed())
	export := &apisv1alpha2.APIExport{
		ObjectMeta: metav1.ObjectMeta{Name: gadgets},
		Spec: apisv1alpha2.APIExportSpec{Resources: []apisv1alpha2.ResourceSchema{{
			Name: "gadgets", Group: "example.io", Schema: schema.Name,
			Storage: apisv1alpha2.ResourceSchemaStorage{CRD: &apisv1alpha2.ResourceSchemaStorageCRD{}},
		}}},
	}
	Expect(c.Create(ctx, export)).To(Succeed())
	for _, subject := range []rbacv1.Subject{kcptest.ServiceAccountSubject(metav1.NamespaceDefault, "bot"), kcptest.User(o.globalName())} {
		Expect(kcptest.Grant(ctx, o.admin, subject, kcptest.AccessRule(), kcptest.BindRule(gadgets))).To(Succeed())
	}
}

// typeThatBinds creates a WorkspaceType whose workspaces bind the gadgets of another tenant. kcp also requires its author to have
// the permission to bind them, and accepts an impersonated user as the service account.
func (o owner) typeThatBinds(ctx context.Context, of owner) kcptest.WorkspaceOption {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, o.config, kcptest.User(of.globalName()),
		append(kcptest.CreatorRules(), kcptest.Rule("tenancy.kcp.io", []string{"workspacetypes"}, []string{"create"}))...)).To(Succeed())
	ofType, err := kcptest.CreateWorkspaceType(ctx, o.impersonating(bot(of)), o.path, &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen"},
		Spec: tenancyv1alpha1.WorkspaceTypeSpec{
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Path: of.path, Export: gadgets}},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return ofType
}

// bot is a user info with the name of the service account of exportGadgets, which any user can claim by impersonation.
func bot(of owner) identity.Owner {
	return identity.Owner{
		Username: "system:serviceaccount:default:bot",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		Extra:    map[string][]string{identity.ClusterNameKey: {of.cluster}},
	}
}

// impersonating is a config of a user that the tenant impersonates in its own workspace.
func (o owner) impersonating(who identity.Owner) *rest.Config {
	config := rest.CopyConfig(o.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: who.Username, UID: who.UID, Groups: who.Groups, Extra: who.Extra}
	return config
}

// admit lets a user create workspaces in the tenant's own one.
func (o owner) admit(ctx context.Context, username string) {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, o.config, kcptest.User(username), kcptest.CreatorRules()...)).To(Succeed())
}

// createAs creates a workspace in the tenant's own one as an impersonated user.
func (o owner) createAs(ctx context.Context, who identity.Owner, ofType kcptest.WorkspaceOption) string {
	GinkgoHelper()
	name := "child-" + rand.String(6)
	suite.CreateWorkspace(ctx, o.impersonating(who), name, ofType)
	return name
}

func (o owner) workspace(ctx context.Context, name string) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.GetWorkspace(ctx, o.config, name)
	Expect(err).NotTo(HaveOccurred())
	return ws
}

// placed waits until a workspace has a logical cluster, and returns its name.
func (o owner) placed(ctx context.Context, name string) string {
	GinkgoHelper()
	cluster := ""
	Eventually(ctx, func() string {
		cluster = o.workspace(ctx, name).Spec.Cluster
		return cluster
	}).ShouldNot(BeEmpty())
	return cluster
}

// recordedOwner is the owner in a LogicalCluster, as which kcp acts there.
func recordedOwner(ctx context.Context, w *kcpWorld, cluster string) string {
	GinkgoHelper()
	lc, err := kcptest.GetLogicalCluster(ctx, w.kcp.ShardAdmin(cluster))
	Expect(err).NotTo(HaveOccurred())
	return kcpapi.RecordedOwner(lc)
}

// expectUnbound waits until kcp has tried to initialize a workspace, and expects that it could not bind the gadgets, which only the victim's
// service account may do.
func (w *kcpWorld) expectUnbound(ctx context.Context, cluster string) {
	GinkgoHelper()
	Eventually(ctx, w.kcp.InitializationError).WithArguments(cluster).ShouldNot(BeEmpty())
	bindings := &apisv1alpha2.APIBindingList{}
	Expect(suite.KCPClient(w.kcp.ShardAdmin(cluster)).List(ctx, bindings)).To(Succeed())
	Expect(bindings.Items).NotTo(ContainElement(HaveField("Spec.Reference.Export.Name", gadgets)))
}
