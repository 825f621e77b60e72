//go:build e2e

package install_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

var _ = Describe("install and uninstall", func() {
	It("write exactly the objects that --dry-run prints, and remove only these", func(ctx SpecContext) {
		before := inventory(ctx)
		w := serve(ctx, "")
		plan := planned(ctx, w)
		Expect(inventory(ctx)).To(Equal(before), "a dry run has written something")

		_, err := w.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		var added []string
		for _, name := range inventory(ctx) {
			if !slices.Contains(before, name) {
				added = append(added, name)
			}
		}
		var wanted []string
		for _, object := range plan {
			wanted = append(wanted, object.GetKind()+"/"+object.GetName())
			Expect(asInstalled(ctx, object)).To(ContainEverythingOf(object.Object), "%s differs from what was printed", object.GetName())
		}
		Expect(added).To(ConsistOf(wanted))

		output, err := w.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(ContainSubstring(`root: MutatingWebhookConfiguration "warrantgate" deleted`))
		Expect(inventory(ctx)).To(Equal(before))

		output, err = w.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(And(ContainSubstring("root: nothing to remove\n"), Not(ContainSubstring("deleted"))))
	}, SpecTimeout(specTimeout))

	It("change no object in a second run, and repair an object that an administrator has changed", func(ctx SpecContext) {
		w := serve(ctx, "")
		install(ctx, w)
		before := contents(ctx)
		output, err := w.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(output).NotTo(Or(ContainSubstring("created"), ContainSubstring("configured")))
		Expect(contents(ctx)).To(Equal(before))

		root := suite.KCPClient(kcp.Admin("root"))
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate-owner-integrity"}}
		Expect(root.Delete(ctx, binding)).To(Succeed())
		output, err = w.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(ContainSubstring(`ValidatingAdmissionPolicyBinding "warrantgate-owner-integrity" created`))

		By("without --user, which keeps another user")
		output, err = w.Install(ctx, "--user=gate")
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(ContainSubstring(`root: ClusterRoleBinding "warrantgate-repair" configured`))
		Expect(runInstall(ctx, w)).NotTo(ContainSubstring("configured"))
	}, SpecTimeout(specTimeout))

	It("do not change an object of the same name that install did not create", func(ctx SpecContext) {
		root := suite.KCPClient(kcp.Admin("root"))
		foreign := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"}}
		Expect(root.Create(ctx, foreign)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) error { return root.Delete(ctx, foreign) })

		w := serve(ctx, "")
		output, err := w.Install(ctx)
		Expect(err).To(HaveOccurred())
		Expect(output).To(ContainSubstring(`ValidatingWebhookConfiguration "warrantgate" exists and was not installed by warrantgate`))

		output, err = w.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(ContainSubstring(`ValidatingWebhookConfiguration "warrantgate" not changed, because warrantgate did not install it`))
		Expect(root.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("report that Events and the repair are off without the kubeconfigs of the shards, while the gates work", func(ctx SpecContext) {
		w := serve(ctx, "")
		output := runInstall(ctx, w)
		Expect(output).To(ContainSubstring(`user "warrantgate" was not granted permissions on the shards`))
		Expect(output).To(ContainSubstring("no workspace is repaired. The gates work."))
		Eventually(suite.Log).WithArguments(w).Should(ContainSubstring("Events are off; gates and controllers work without them"))
		Expect(suite.Log(w)).To(ContainSubstring("--shard-kubeconfig"))

		waiting := createAs(ctx, bot, "early")
		Expect(eventReasons(ctx, waiting)()).To(BeEmpty())

		By("granting the permission while serve runs and an Event waits for it")
		_, err := w.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(eventReasons(ctx, waiting)).Should(ConsistOf("OwnerRewritten"))
	}, SpecTimeout(specTimeout))
})

// planned returns the output of "install --dry-run", in order.
func planned(ctx context.Context, w *kcptest.Warrantgate) []*unstructured.Unstructured {
	GinkgoHelper()
	// For a kcp before v0.32, the output also contains a note from standard error.
	printed := strings.Replace(runInstall(ctx, w, "--dry-run"),
		"This kcp has no MutatingAdmissionPolicies, which kcp has from v0.32 on: the webhook rewrites the owners of all service accounts.\n", "", 1)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(printed), 4096)
	var plan []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			Expect(plan).NotTo(BeEmpty())
			return plan
		}
		Expect(err).NotTo(HaveOccurred())
		plan = append(plan, object)
	}
}

// runInstall runs install without the kubeconfig of the shard, and returns its output.
func runInstall(ctx context.Context, w *kcptest.Warrantgate, args ...string) string {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, suite.Binary(asset.Warrantgate), slices.Concat(
		[]string{"install", "kcp", "--kubeconfig=" + kcp.AdminKubeconfig(), "--context=root"}, w.InstallArgs(), args,
	)...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// places are the logical clusters that install writes into, each with the lists of the kinds that it writes there.
func places() map[*rest.Config][]client.ObjectList {
	var mutating []client.ObjectList
	if suite.ByPolicy(kcp) {
		mutating = []client.ObjectList{&admissionregistrationv1.MutatingAdmissionPolicyList{}, &admissionregistrationv1.MutatingAdmissionPolicyBindingList{}}
	}
	return map[*rest.Config][]client.ObjectList{
		kcp.Admin("root"): append(mutating,
			&admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{},
			&admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
			&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &tenancyv1alpha1.WorkspaceTypeList{},
		),
		kcp.ShardAdmin("system:admin"): {&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}},
	}
}

// objects returns all objects of the kinds that install writes, in the logical clusters that it writes into.
func objects(ctx context.Context) []unstructured.Unstructured {
	GinkgoHelper()
	var all []unstructured.Unstructured
	for config, lists := range places() {
		c := suite.KCPClient(config)
		for _, list := range lists {
			kind, err := c.GroupVersionKindFor(list)
			Expect(err).NotTo(HaveOccurred())
			found := &unstructured.UnstructuredList{}
			found.SetGroupVersionKind(kind)
			Expect(c.List(ctx, found)).To(Succeed())
			all = append(all, found.Items...)
		}
	}
	return all
}

func inventory(ctx context.Context) []string {
	GinkgoHelper()
	var names []string
	for _, object := range objects(ctx) {
		names = append(names, object.GetKind()+"/"+object.GetName())
	}
	slices.Sort(names)
	return names
}

// contents returns the installed objects without the fields that the API server sets.
func contents(ctx context.Context) map[string]map[string]any {
	GinkgoHelper()
	all := map[string]map[string]any{}
	for _, object := range objects(ctx) {
		if object.GetLabels()["app.kubernetes.io/managed-by"] == "warrantgate" {
			object.SetResourceVersion("")
			object.SetManagedFields(nil)
			unstructured.RemoveNestedField(object.Object, "status")
			all[object.GetKind()+"/"+object.GetName()] = object.Object
		}
	}
	installed := 13
	if suite.ByPolicy(kcp) {
		installed += 4 // the policies that rewrite owners and restore Workspaces, and their bindings
	}
	Expect(all).To(HaveLen(installed))
	return all
}

func asInstalled(ctx context.Context, wanted *unstructured.Unstructured) map[string]any {
	GinkgoHelper()
	for _, object := range objects(ctx) {
		if object.GetKind() == wanted.GetKind() && object.GetName() == wanted.GetName() {
			return object.Object
		}
	}
	Fail(wanted.GetKind() + " " + wanted.GetName() + " is not installed")
	return nil
}
