//go:build e2e

package workspace_test

import (
	"context"
	"encoding/json"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

// A provider's controller creates workspaces for consumers who bind its API and accept its claim on workspaces. kcp gives it an
// administrator's warrant for each such request, and records the warrant permanently as a part of the owner.
var _ = Describe("A workspace that a service account creates through an APIExport virtual workspace", func() {
	It("becomes Ready, and its recorded owner has no administrator's group", func(ctx SpecContext) {
		provider, consumer := newPlace(ctx), newPlace(ctx)
		bot := provider.ServiceAccount(ctx, "bot")
		provider.exportWithClaim(ctx)
		consumer.bindWithClaim(ctx, provider)
		held := consumer.heldType(ctx)

		consumer.createThrough(ctx, provider, bot, "child")
		child := consumer.WaitReady(ctx, "child")
		expectAtHome(ctx, bot, child.Spec.Cluster)
		Eventually(ctx, consumer.Reasons).WithArguments(child).Should(Equal([]string{"Normal OwnerRewritten", "Normal WarrantDropped"}))

		By("reading the whole recorded owner, which kcp keeps until the workspace is Ready")
		consumer.createThrough(ctx, provider, bot, "held", held)
		owner, err := json.Marshal(consumer.recordedOwner(ctx, "held"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(owner)).To(ContainSubstring(provider.GlobalName("bot")))
		Expect(string(owner)).NotTo(Or(ContainSubstring("system:kcp:admin"), ContainSubstring("system:serviceaccount:default:rest")))
		ws, err := kcptest.GetWorkspace(ctx, consumer.Admin(), "held")
		Expect(err).NotTo(HaveOccurred())
		Expect(ws.Annotations[kcptest.OwnerAnnotation]).NotTo(ContainSubstring("system:kcp:admin"))
	}, SpecTimeout(specTimeout))
})

// exportWithClaim exports an API together with a permission claim on the workspaces of its consumers.
func (p place) exportWithClaim(ctx context.Context) {
	GinkgoHelper()
	p.exportWidgets(ctx, p.workspacesClaim(ctx))
	Expect(kcptest.Grant(ctx, p.Admin(), kcptest.ServiceAccountSubject("default", "bot"),
		kcptest.Rule("apis.kcp.io", []string{"apiexports/content"}, []string{"*"}))).To(Succeed())
}

func (p place) workspacesClaim(ctx context.Context) apisv1alpha2.PermissionClaim {
	GinkgoHelper()
	identity, err := root().identityOf(ctx, "tenancy.kcp.io")
	Expect(err).NotTo(HaveOccurred())
	return apisv1alpha2.PermissionClaim{
		GroupResource: apisv1alpha2.GroupResource{Group: "tenancy.kcp.io", Resource: "workspaces"},
		Verbs:         []string{"*"},
		IdentityHash:  identity,
	}
}

// bindWithClaim binds the provider's API here and accepts its claim.
func (p place) bindWithClaim(ctx context.Context, provider place) {
	GinkgoHelper()
	binding := &apisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
		Spec: apisv1alpha2.APIBindingSpec{
			Reference: apisv1alpha2.BindingReference{Export: &apisv1alpha2.ExportBindingReference{Path: provider.Path, Name: exportName}},
			PermissionClaims: []apisv1alpha2.AcceptablePermissionClaim{{
				ScopedPermissionClaim: apisv1alpha2.ScopedPermissionClaim{
					PermissionClaim: p.workspacesClaim(ctx),
					Selector:        apisv1alpha2.PermissionClaimSelector{MatchAll: true},
				},
				State: apisv1alpha2.ClaimAccepted,
			}},
		},
	}
	Expect(p.Client().Create(ctx, binding)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		g.Expect(p.Client().Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		g.Expect(binding.Status.Phase).To(Equal(apisv1alpha2.APIBindingPhaseBound))
		g.Expect(binding.Status.AppliedPermissionClaims).NotTo(BeEmpty())
	}).Should(Succeed())
}

// createThrough creates a workspace here as the provider's service account, through the provider's virtual workspace. kcp v0.30 denies
// service accounts access to virtual workspaces. On that release, the spec verifies this, and creates a workspace with the owner that later
// releases record.
func (p place) createThrough(ctx context.Context, provider place, bot *rest.Config, name string, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	through := rest.CopyConfig(bot)
	through.Host = provider.virtualWorkspaceURL(ctx) + "/clusters/" + p.Cluster
	tryCreate := func() error {
		_, err := kcptest.TryCreateWorkspace(ctx, through, name, options...)
		return err
	}
	admitted, err := p.Server.AdmitsServiceAccounts()
	Expect(err).NotTo(HaveOccurred())
	if admitted {
		Eventually(ctx, tryCreate).Should(Succeed())
		return
	}
	err = tryCreate()
	Expect(err).To(beNotAllowed)
	AddReportEntry("kcp says", err.Error())
	warrant := `{"user":"system:serviceaccount:default:rest","groups":["system:kcp:admin"],` +
		`"extra":{"authentication.kcp.io/cluster-name":["` + p.Cluster + `"]}}`
	p.createAs(ctx, authenticationv1.UserInfo{
		Username: "system:serviceaccount:default:bot",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kcp.io/cluster-name": {provider.Cluster},
			"authorization.kcp.io/warrant":       {warrant},
		},
	}, name, options...)
}

// virtualWorkspaceURL waits until there is a virtual workspace of the export, and returns its URL.
func (p place) virtualWorkspaceURL(ctx context.Context) string {
	GinkgoHelper()
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	Eventually(ctx, func(g Gomega) {
		g.Expect(p.Client().Get(ctx, client.ObjectKey{Name: exportName}, slice)).To(Succeed())
		g.Expect(slice.Status.APIExportEndpoints).NotTo(BeEmpty())
	}).Should(Succeed())
	return slice.Status.APIExportEndpoints[0].URL
}
