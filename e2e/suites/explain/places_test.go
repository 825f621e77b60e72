//go:build e2e

package explain_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// place is a workspace that an administrator created for one spec.
type place struct{ suite.Place }

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	return place{suite.NewPlace(ctx, kcp)}
}

// requireGroups requires groups here, and returns once kcp denies access to a user who is in none.
func (p place) requireGroups(ctx context.Context, groups string) {
	GinkgoHelper()
	alice := suite.KCPClient(p.User(ctx, "alice"))
	p.RequireGroups(ctx, groups)
	Eventually(ctx, func() error { return alice.List(ctx, &tenancyv1alpha1.WorkspaceList{}) }).Should(MatchError(apierrors.IsForbidden, "is refused"))
}

// export exports an API from this workspace.
func (p place) export(ctx context.Context, plural string) tenancyv1alpha1.APIExportReference {
	GinkgoHelper()
	group := plural + ".example.io"
	crd := kcptest.Widgets(group)
	crd.Name, crd.Spec.Names.Plural = plural+"."+group, plural
	Expect(kcptest.Export(ctx, p.Admin(), group, crd)).To(Succeed())
	export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: group}}
	Eventually(ctx, func() (string, error) {
		err := p.Client().Get(ctx, client.ObjectKeyFromObject(export), export)
		return export.Status.IdentityHash, err
	}).ShouldNot(BeEmpty())
	return tenancyv1alpha1.APIExportReference{Path: p.Path, Export: group}
}

// apply applies objects in YAML as a user does.
func apply(ctx context.Context, config *rest.Config, objects string) {
	GinkgoHelper()
	kubeconfig, err := kcp.KubeconfigFile("apply-"+rand.String(6), config)
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, "kubectl", "--kubeconfig="+kubeconfig, "--cache-dir="+GinkgoT().TempDir(), "apply", "-f", "-")
	command.Stdin = strings.NewReader(objects)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "this spec needs kubectl in $PATH: %s", output)
}

// touch makes kcp reconcile the workspaces of a type again.
func (p place) touch(ctx context.Context, typeName string) {
	GinkgoHelper()
	wt := &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: typeName}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"warrantgate.dev/touched":%q}}}`, rand.String(6))
	Expect(suite.KCPClient(p.Admin()).Patch(ctx, wt, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

// alicesOwner is the owner that kcp records for a workspace of alice.
const alicesOwner = `{"username":"alice","groups":["system:authenticated"]}`

// botsOwner is the owner that kcp records for a workspace of the service account of bot.
func (p place) botsOwner() string {
	return fmt.Sprintf(`{"username":"system:serviceaccount:default:bot","uid":"cad8af27-6d62-4812-8aed-58a3534c1388",`+
		`"groups":["system:serviceaccounts","system:serviceaccounts:default","system:authenticated"],`+
		`"extra":{"authentication.kcp.io/cluster-name":[%q],"authentication.kcp.io/scopes":[%q]}}`, p.Cluster, "cluster:"+p.Cluster)
}

// createFor creates the workspace "child" in the name of its owner: kcp v0.33 denies it to a user who may not bind what its type binds
// (kcp-dev/kcp#4311).
func (p place) createFor(ctx context.Context, owner string, ofType kcptest.WorkspaceOption) {
	GinkgoHelper()
	suite.CreateWorkspace(ctx, kcp.ShardAdmin(p.Path), "child", ofType, kcptest.WithAnnotation(kcptest.OwnerAnnotation, owner))
}

// waitDenied waits until kcp has failed to create the default API bindings of the workspace "child".
func (p place) waitDenied(ctx context.Context, because string) {
	GinkgoHelper()
	ws := p.WaitInitializing(ctx, "child")
	Eventually(ctx, kcp.InitializationError).WithArguments(ws.Spec.Cluster).Should(ContainSubstring(because))
}
