//go:build e2e

package explain_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// place is a workspace that an administrator created for one spec.
type place struct{ path, cluster string }

func newPlace(ctx context.Context) place {
	GinkgoHelper()
	name := "place-" + rand.String(6)
	create(ctx, kcp.Admin("root"), name)
	ws, err := kcptest.WaitReady(ctx, kcp.Admin("root"), name)
	Expect(err).NotTo(HaveOccurred())
	p := place{path: "root:" + name, cluster: ws.Spec.Cluster}
	Eventually(ctx, func() error { // kcp reports a workspace as Ready somewhat before it serves the bound APIs
		return suite.KCPClient(p.admin()).List(ctx, &tenancyv1alpha1.WorkspaceList{})
	}).Should(Succeed())
	return p
}

func (p place) admin() *rest.Config { return kcp.Admin(p.path) }

// bot is a service account that may create workspaces here.
func (p place) bot(ctx context.Context) *rest.Config {
	GinkgoHelper()
	config, err := kcptest.ServiceAccount(ctx, p.admin(), "default", "bot")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Grant(ctx, p.admin(), kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
	return config
}

// alice is a user who may create workspaces here.
func (p place) alice(ctx context.Context) *rest.Config {
	GinkgoHelper()
	Expect(kcptest.Grant(ctx, p.admin(), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
	return kcp.User(p.path, "alice")
}

// requireGroups denies access to users who are not in the groups. Workspaces that are created here require them, too.
func (p place) requireGroups(ctx context.Context, groups string) {
	GinkgoHelper()
	alice := suite.KCPClient(p.alice(ctx))
	lc, err := kcptest.GetLogicalCluster(ctx, p.admin())
	Expect(err).NotTo(HaveOccurred())
	before := lc.DeepCopy()
	metav1.SetMetaDataAnnotation(&lc.ObjectMeta, "authorization.kcp.io/required-groups", groups)
	Expect(suite.KCPClient(kcp.ShardAdmin(p.path)).Patch(ctx, lc, client.MergeFrom(before))).To(Succeed())
	Eventually(ctx, func() error { return alice.List(ctx, &tenancyv1alpha1.WorkspaceList{}) }).Should(MatchError(apierrors.IsForbidden, "is refused"))
}

// export exports an API from this workspace.
func (p place) export(ctx context.Context, plural string) tenancyv1alpha1.APIExportReference {
	GinkgoHelper()
	group := plural + ".example.io"
	schema := &apisv1alpha1.APIResourceSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + plural + "." + group},
		Spec: apisv1alpha1.APIResourceSchemaSpec{
			Group: group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural + "one", Kind: "Thing", ListKind: "ThingList"},
			Scope: apiextensionsv1.ClusterScoped,
			Versions: []apisv1alpha1.APIResourceVersion{{
				Name: "v1", Served: true, Storage: true, Schema: runtime.RawExtension{Raw: []byte(`{"type":"object"}`)},
			}},
		},
	}
	export := &apisv1alpha2.APIExport{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		Spec: apisv1alpha2.APIExportSpec{Resources: []apisv1alpha2.ResourceSchema{{
			Name: plural, Group: group, Schema: schema.Name,
			Storage: apisv1alpha2.ResourceSchemaStorage{CRD: &apisv1alpha2.ResourceSchemaStorageCRD{}},
		}}},
	}
	c := suite.KCPClient(p.admin())
	Expect(c.Create(ctx, schema)).To(Succeed())
	Expect(c.Create(ctx, export)).To(Succeed())
	Eventually(ctx, func() (string, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(export), export)
		return export.Status.IdentityHash, err
	}).ShouldNot(BeEmpty())
	return tenancyv1alpha1.APIExportReference{Path: p.path, Export: group}
}

// workspaceType creates a WorkspaceType here, and waits until kcp observes it.
func (p place) workspaceType(ctx context.Context, name string, spec tenancyv1alpha1.WorkspaceTypeSpec) kcptest.WorkspaceOption {
	GinkgoHelper()
	ofType, err := kcptest.CreateWorkspaceType(ctx, p.admin(), p.path, &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	Expect(err).NotTo(HaveOccurred())
	return ofType
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
	Expect(suite.KCPClient(p.admin()).Patch(ctx, wt, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

// alicesOwner is the owner that kcp records for a workspace of alice.
const alicesOwner = `{"username":"alice","groups":["system:authenticated"]}`

// botsOwner is the owner that kcp records for a workspace of the service account of bot.
func (p place) botsOwner() string {
	return fmt.Sprintf(`{"username":"system:serviceaccount:default:bot","uid":"cad8af27-6d62-4812-8aed-58a3534c1388",`+
		`"groups":["system:serviceaccounts","system:serviceaccounts:default","system:authenticated"],`+
		`"extra":{"authentication.kcp.io/cluster-name":[%q],"authentication.kcp.io/scopes":[%q]}}`, p.cluster, "cluster:"+p.cluster)
}

// createFor creates the workspace "child" in the name of its owner: kcp v0.33 denies it to a user who may not bind what its type binds
// (kcp-dev/kcp#4311).
func (p place) createFor(ctx context.Context, owner string, ofType kcptest.WorkspaceOption) {
	GinkgoHelper()
	create(ctx, kcp.ShardAdmin(p.path), "child", ofType, kcptest.WithAnnotation(kcptest.OwnerAnnotation, owner))
}

func create(ctx context.Context, config *rest.Config, name string, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	_, err := kcptest.CreateWorkspace(ctx, config, name, options...)
	Expect(err).NotTo(HaveOccurred())
}

// waitDenied waits until kcp has failed to create the default API bindings of the workspace "child".
func (p place) waitDenied(ctx context.Context, because string) {
	GinkgoHelper()
	ws := p.waitChild(ctx, func(ws *tenancyv1alpha1.Workspace) bool {
		return ws.Status.Phase == corev1alpha1.LogicalClusterPhaseInitializing
	})
	Eventually(ctx, kcp.InitializationError).WithArguments(ws.Spec.Cluster).Should(ContainSubstring(because))
}

// waitChild waits for a state of the workspace "child".
func (p place) waitChild(ctx context.Context, state func(*tenancyv1alpha1.Workspace) bool) *tenancyv1alpha1.Workspace {
	GinkgoHelper()
	ws, err := kcptest.WaitWorkspace(ctx, p.admin(), "child", func(ws *tenancyv1alpha1.Workspace) error {
		if !state(ws) {
			return errors.New("not in the state that was waited for")
		}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
	return ws
}
