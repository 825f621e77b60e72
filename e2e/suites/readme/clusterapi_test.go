//go:build e2e

package readme_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// clusterAPI is the page of the gates on objects of Cluster API. The others are its sections with commands.
const (
	clusterAPI          = "webhooks/machine/README.md"
	clusterAPIInstall   = "## Install on CloudSigma"
	clusterAPIUninstall = "### Uninstall"
	// editors is the group of users who may write all objects of the provider.
	editors = "editors"
)

var infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

var _ = Describe("The page of the gates on Cluster API", func() {
	It("installs the gates, lets an author act for a user, and uninstalls", func(ctx SpecContext) {
		api := suite.KubeAPIServer(ctx)
		c := api.Client()
		cloud, err := cloudsigmatest.Start(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cloud.Stop)
		account, user := cloud.AddClient("partner"), cloud.AddUser("tenant@example.com")
		Expect(cloud.AllowImpersonation("partner", user.Email)).To(Succeed())
		for _, object := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capcs-system"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}},
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "capcs-system", Name: "cloudsigma-impersonation"},
				StringData: map[string]string{"oauth-url": cloud.OAuthURL(), "client-id": account.ID, "client-secret": account.Secret},
			},
			clusterOf(user, "metal"),
		} {
			Expect(c.Create(ctx, object)).To(Succeed())
		}
		Expect(access.Grant(ctx, c, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: editors}, rbacv1.PolicyRule{
			APIGroups: []string{infrastructure.Group}, Resources: []string{"*"}, Verbs: []string{"*"},
		})).To(Succeed())

		content, err := os.ReadFile(api.AdminKubeconfig())
		Expect(err).NotTo(HaveOccurred())
		gate, err := api.User(kubetest.WarrantgateUser)
		Expect(err).NotTo(HaveOccurred())
		caFile, err := cloud.CAFile(api.Dir())
		Expect(err).NotTo(HaveOccurred())
		t := newWarrantgateTerminal(ctx, map[string]string{}, "KUBECONFIG="+api.AdminKubeconfig())
		dir, _ := t.run("pwd", false)
		for name, content := range map[string][]byte{
			"admin.kubeconfig": content, "warrantgate.kubeconfig": kubeconfigOf("warrantgate", gate),
			"config.yaml": fmt.Appendf(nil, "%s  api: %s\n  serviceProviderAPI: %s\n  caFile: %s\n",
				configurationOf(clusterAPI, clusterAPIInstall), cloud.APITemplate(), cloud.ServiceProviderTemplate(), caFile),
		} {
			Expect(os.WriteFile(filepath.Join(strings.TrimSpace(dir), name), content, 0o600)).To(Succeed())
		}
		t.run(selfSigned, false)
		t.run("openssl rand -hex 32 >webhook-path", false)

		t.execute(section(clusterAPI, clusterAPIInstall)...)
		alice, bob := as(api, "alice"), as(api, "bob")
		Eventually(ctx, func() error { return alice.Create(ctx, clusterOf(user, "alices"), client.DryRunAll) }).Should(Succeed())
		err = bob.Create(ctx, clusterOf(user, "bobs"), client.DryRunAll)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("tenant@example.com")))

		By("checking it as another user, and a removal that removes nothing")
		printed, status := t.run("warrantgate check admission kubernetes --kubeconfig=admin.kubeconfig --as=root --as-group=system:masters --config=config.yaml -o json", true)
		Expect(status).To(BeZero(), "%s%s", printed, t.logs())
		Expect(json.Valid([]byte(printed))).To(BeTrue(), printed)
		printed, _ = t.run("warrantgate uninstall kubernetes --kubeconfig=admin.kubeconfig --dry-run", false)
		Expect(printed).To(ContainSubstring("deleted (dry run)"))
		Expect(apierrors.IsForbidden(bob.Create(ctx, clusterOf(user, "bobs"), client.DryRunAll))).To(BeTrue())

		t.execute(section(clusterAPI, clusterAPIUninstall)...)
		Eventually(ctx, func() error { return bob.Create(ctx, clusterOf(user, "bobs"), client.DryRunAll) }).Should(Succeed())

		By("clearing the fields of a machine as the page about denials says")
		const server = "9f6a1c52-3d0e-4b7a-8c11-2e5d7f904b36"
		machine := suite.NewObject(infrastructure.WithKind("CloudSigmaMachine"), "tenant", "worker-1",
			suite.With("spec.providerID", "cloudsigma://"+server), suite.With("status.instanceID", server))
		Expect(c.Create(ctx, machine.DeepCopy())).To(Succeed())
		Expect(c.Status().Patch(ctx, machine.DeepCopy(), client.Merge)).To(Succeed())
		patches := regexp.MustCompile("`(kubectl [^`|]* patch [^`|]*)`").FindAllStringSubmatch(file("webhooks/machine/DENIED.md"), -1)
		Expect(patches).To(HaveLen(2))
		for _, patch := range patches {
			printed, _ := t.run(patch[1], false)
			Expect(printed).To(HaveSuffix(" patched\n"))
		}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		Expect(machine.Object).NotTo(Or(HaveKeyWithValue("status", HaveKey("instanceID")), HaveKeyWithValue("spec", HaveKey("providerID"))))
	}, SpecTimeout(specTimeout))
})

// clusterOf is a cluster that acts as a user.
func clusterOf(user cloudsigmatest.User, name string) *unstructured.Unstructured {
	return suite.NewObject(infrastructure.WithKind("CloudSigmaCluster"), "tenant", name, suite.With("spec.region", "next"), suite.With("spec.userEmail", user.Email))
}

// configurationOf is the YAML that a section shows first.
func configurationOf(document, heading string) string {
	GinkgoHelper()
	_, text, _ := strings.Cut(file(document), "\n"+heading+"\n")
	_, text, found := strings.Cut(text, "```yaml\n")
	Expect(found).To(BeTrue(), "%s of %s shows no configuration", heading, document)
	text, _, _ = strings.Cut(text, "```")
	return text
}

// as is a client of a user who is one of the editors.
func as(api *kubetest.Server, name string) client.Client {
	GinkgoHelper()
	config, err := api.User(name, editors)
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Mapper: api.Client().RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	return c
}
