//go:build e2e

package repair_test

import (
	"context"
	"slices"
	"strconv"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// The author of a WorkspaceType with an initializer acts as the owner in workspaces that are Initializing, and can register webhooks there.
// kcp calls them for every update of the LogicalCluster, even for its own (measured on v0.32.3), and no user outside the workspace can
// prevent that.
var _ = Describe("a tenant whose webhook changes the writes of the repair", func() {
	It("is reported", func(ctx SpecContext) {
		const author, ofType, export, boss = "mallory", "trap", "core.example.io", `{"username":"kcp-boss","groups":["system:masters"]}`
		p := newPlace(ctx)
		Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User(author), kcptest.AccessRule(),
			rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})).To(Succeed())
		as := kcp.User(p.Path, author)
		own := suite.KCPClient(as)
		Expect(own.Create(ctx, &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: export}})).To(Succeed())
		trap, err := kcptest.CreateWorkspaceType(ctx, as, p.Path, &tenancyv1alpha1.WorkspaceType{
			ObjectMeta: metav1.ObjectMeta{Name: ofType},
			Spec: tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true, DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{
				{Path: p.Path, Export: export},
			}},
		})
		Expect(err).NotTo(HaveOccurred())
		// In the name of an owner who lacks a permission: kcp v0.33 denies its creation for the owner (kcp-dev/kcp#4311).
		suite.CreateWorkspace(ctx, kcp.ShardAdmin(p.Path), "child", trap,
			kcptest.WithAnnotation(kcptest.OwnerAnnotation, `{"username":"carol","groups":["system:authenticated"]}`))
		child := p.WaitInitializing(ctx, "child")
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(child.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		patch := `[{"op":"add","path":"/metadata/annotations/experimental.tenancy.kcp.io~1owner","value":` + strconv.Quote(boss) + `}]`
		if lc.Spec.CreatedBy != nil {
			patch = `[{"op":"replace","path":"/spec/createdBy","value":` + boss + `}]`
		}

		By("registering the webhook, through the virtual workspace of the initializer")
		called := suite.Webhook(func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if !slices.Contains(request.UserInfo.Groups, kcptest.LogicalClusterAdmins) {
				return &admissionv1.AdmissionResponse{Allowed: true}
			}
			return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
		})
		config := rest.CopyConfig(as)
		config.Host = p.initializingURL(ctx, ofType) + "/clusters/" + child.Spec.Cluster
		inside := suite.KCPClient(config)
		Eventually(ctx, func() error {
			return inside.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: ofType},
				Webhooks: []admissionregistrationv1.MutatingWebhook{{
					Name: "trap.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
					ClientConfig: called,
					Rules: []admissionregistrationv1.RuleWithOperations{{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{"core.kcp.io"}, APIVersions: []string{"*"}, Resources: []string{"logicalclusters"}},
					}},
				}},
			})
		}).Should(Succeed())

		By("granting the missing permission, so that the repair retriggers the initialization")
		serve(ctx, "Enforce")
		describe := func() string { return kcptest.Describe(ctx, p.Admin(), "child") }
		// kcp retries within a second, after a conflict.
		Eventually(ctx, describe).Should(ContainSubstring("BindPermissionMissing"))
		Expect(kcptest.Grant(ctx, p.Admin(), kcptest.User("carol"), kcptest.AccessRule(), kcptest.BindRule(export))).To(Succeed())
		if lc.Spec.CreatedBy == nil {
			return // kcp v0.30 may retry before warrantgate does
		}
		Eventually(ctx, describe).Should(And(ContainSubstring("OwnerDiffers"),
			ContainSubstring(`the update of the LogicalCluster contained user "carol" as the owner, but kcp stored user "kcp-boss"`)))
	}, SpecTimeout(specTimeout))
})
