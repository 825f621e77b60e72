//go:build e2e

package explain_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// platform-mesh/platform-mesh#70: an operator creates the workspaces of organizations as a service account of its own workspace, and no
// longer as an administrator. The WorkspaceType and the APIs that it binds are in another workspace.
var _ = Describe("An operator with a scoped service account", func() {
	const operator = "system:serviceaccount:default:account-operator"

	It("creates the workspaces of organizations after it has the permissions that explain prints", func(ctx SpecContext) {
		home, platform := newPlace(ctx), newPlace(ctx)
		guard(ctx, "")
		ofType := platform.WorkspaceType(ctx, "org", tenancyv1alpha1.WorkspaceTypeSpec{
			Extend:             tenancyv1alpha1.WorkspaceTypeExtension{With: []tenancyv1alpha1.WorkspaceTypeReference{{Name: "universal", Path: "root"}}},
			DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{platform.export(ctx, "accounts")},
		})
		config, err := kcptest.ServiceAccount(ctx, home.Admin(), "default", "account-operator")
		Expect(err).NotTo(HaveOccurred())
		Expect(kcptest.Grant(ctx, home.Admin(), kcptest.ServiceAccountSubject("default", "account-operator"),
			kcptest.AccessRule(), kcptest.WorkspacesRule())).To(Succeed())

		By("creating the workspace without the permission to use its type")
		org := home.Path + ":acme"
		_, err = kcptest.TryCreateWorkspace(ctx, config, "acme", ofType)
		Expect(err).To(MatchError(fmt.Sprintf(`create workspace acme: workspaces.tenancy.kcp.io "acme" is forbidden: unable to use workspace type %s:org: `+
			`missing verb='use' permission on workspacetype`, platform.Path)))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)

		By("running explain")
		text := explain(ctx, kcp.AdminKubeconfig(), org, "--context=root")
		Expect(text.code).To(Equal(2))
		Expect(text.errText).To(ContainSubstring("`warrantgate explain workspace " + org + " --creator=USER --type=PATH:NAME` says what USER lacks"))
		run := func() explanation {
			return explain(ctx, kcp.AdminKubeconfig(), org, "--context=root", "--creator="+operator, "--type="+platform.Path+":org")
		}
		text = run()
		Expect(text.code).To(Equal(1), text.out)
		AddReportEntry(org, ReportEntryVisibilityNever, text.out)
		who := "service account default/account-operator of " + home.Path
		Expect(text.out).To(And(
			MatchRegexp(`Type: +%s:org\n`, platform.Path), MatchRegexp(`Created by: +%s\n`, who),
			ContainSubstring("in its home workspace %s kcp treats it as\n    %s, in system:serviceaccounts", home.Path, operator),
			ContainSubstring("Something is missing to create it:\n"),
			ContainSubstring("UsePermissionMissing\n    %s lacks \"use\" on the type %s:org\n", who, platform.Path),
			ContainSubstring("BindPermissionMissing\n    %s lacks \"bind\" on the APIExport \"accounts.example.io\" in %s\n", who, platform.Path),
			MatchRegexp(`root:tenancy\.kcp\.io +yes`), MatchRegexp(`%s:accounts\.example\.io +no`, platform.Path),
		))

		By("granting only the printed permissions")
		printed := printedObjects(text.out)
		Expect(printed).To(HaveLen(4))
		for _, p := range printed {
			Expect(p.workspace).To(Equal(platform.Path), "kcp checks the permission in the workspace of the type, not in the home workspace")
			if p.object.GetKind() == "ClusterRoleBinding" {
				Expect(p.object.Object["subjects"]).To(ConsistOf(HaveKeyWithValue("name", "system:kcp:serviceaccount:"+home.Cluster+":default:account-operator")))
			}
			Expect(suite.KCPClient(kcp.Admin(p.workspace)).Create(ctx, p.object)).To(Succeed())
		}
		Eventually(ctx, func() int { // kcp activates permissions with a delay
			text = run()
			return text.code
		}).Should(Equal(0), func() string { return text.out })
		Expect(text.out).To(ContainSubstring("The creator lacks no permission for it.\n"))

		By("creating the workspace again")
		suite.CreateWorkspace(ctx, config, "acme", ofType)
		ws := home.WaitReady(ctx, "acme")
		Expect(ws.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, home.Cluster+":default:account-operator"))
		within := kcptest.In(config, org)
		Eventually(ctx, func() error { return works(ctx, within) }).Should(Succeed())
		text, _ = explainAsAdmin(ctx, org)
		Expect(text.code).To(Equal(0), text.out)
	}, SpecTimeout(specTimeout))

	It("gets the message that it may not create workspaces", func(ctx SpecContext) {
		home := newPlace(ctx)
		config, err := kcptest.ServiceAccount(ctx, home.Admin(), "default", "account-operator")
		Expect(err).NotTo(HaveOccurred())
		run := func() explanation {
			return explain(ctx, kcp.AdminKubeconfig(), home.Path+":acme", "--context=root", "--creator="+operator)
		}
		text := run()
		Expect(text.code).To(Equal(1), text.out)
		Expect(text.out).To(And(
			MatchRegexp(`Type: +root:universal\n`), // the default of the parent's type
			ContainSubstring("CreatePermissionMissing\n    service account default/account-operator of %s may not create Workspaces in %s\n", home.Path, home.Path)))
		for _, p := range printedObjects(text.out) {
			Expect(suite.KCPClient(kcp.Admin(p.workspace)).Create(ctx, p.object)).To(Succeed())
		}
		Eventually(ctx, func() string {
			text = run()
			return text.out
		}).ShouldNot(ContainSubstring("CreatePermissionMissing"))
		Expect(text.code).To(Equal(1), "nothing rewrites the owner")
		Expect(text.out).To(ContainSubstring("OwnerForeign\n    service account default/account-operator of %s is foreign in the new workspace, which is stuck ", home.Path))
		suite.CreateWorkspace(ctx, config, "acme")
	}, SpecTimeout(specTimeout))
})

// works creates a namespace in a workspace.
func works(ctx context.Context, config *rest.Config) error {
	return kcptest.EnsureNamespace(ctx, config, "works")
}

// printed is an object that explain has printed, and the workspace that it says to apply it in.
type printed struct {
	workspace string
	object    *unstructured.Unstructured
}

var applyIn = regexp.MustCompile(`apply the objects below in ([a-z0-9:-]+)[,;]`)

// printedObjects copies the objects out of an explanation as users do: from a line of dashes to the next empty line or line of dashes.
func printedObjects(text string) []printed {
	GinkgoHelper()
	var all []printed
	workspace := ""
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if in := applyIn.FindStringSubmatch(paragraph); in != nil {
			workspace = in[1]
			continue
		}
		document, is := strings.CutPrefix(paragraph, "---\n")
		if !is {
			continue
		}
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict([]byte(document), &object.Object)).To(Succeed(), document)
		all = append(all, printed{workspace: workspace, object: object})
	}
	return all
}
