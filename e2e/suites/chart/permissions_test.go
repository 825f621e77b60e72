//go:build e2e

package chart_test

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/suite"
)

// Every RBAC rule of the chart is necessary: for each rule, a function works with all rules, and fails without this rule.
var _ = Describe("The permissions of the service account", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
	}, NodeTimeout(timeout))

	DescribeTable("are needed to become ready", func(ctx SpecContext, resource string) {
		w.without(ctx, resource, "list")
		w.pod.start(ctx, w.admin)
		Eventually(w.pod.logged).Should(ContainSubstring(`cannot list resource \"` + resource + `\"`))
		Expect(w.pod.probe(ctx, "/readyz")).To(Equal(http.StatusInternalServerError))
		Expect(w.pod.probe(ctx, "/healthz")).To(Equal(http.StatusOK))
	},
		Entry("clusters of CloudSigma", "cloudsigmaclusters", SpecTimeout(timeout)),
		Entry("machines of CloudSigma", "cloudsigmamachines", SpecTimeout(timeout)),
		Entry("clusters of OpenStack", "openstackclusters", SpecTimeout(timeout)),
		Entry("machines of OpenStack", "openstackmachines", SpecTimeout(timeout)),
		Entry("Machines of Cluster API", "machines", SpecTimeout(timeout)),
	)

	DescribeTable("are needed to evaluate", func(ctx SpecContext, resource, verb string, object client.Object) {
		try := func() error { return w.author.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll) } //nolint:errcheck,forcetypeassert // a copy is of the same kind
		w.startCalled(ctx)
		object.SetNamespace(w.newTenancy(ctx))
		Expect(apierrors.IsServiceUnavailable(try())).To(BeFalse())
		w.without(ctx, resource, verb)
		Eventually(func() bool { return apierrors.IsServiceUnavailable(try()) }).Should(BeTrue())
	},
		Entry("a user by a Secret of another namespace", "subjectaccessreviews", "create", cluster("", "another", map[string]any{
			"userRef": map[string]any{"name": "user", "namespace": metav1.NamespaceDefault},
		}), SpecTimeout(timeout)),
		Entry("a user by a Secret", "secrets", "get", cluster("", "another", map[string]any{"userRef": map[string]any{"name": "user"}}), SpecTimeout(timeout)),
		Entry("a controller manager by its cluster", "cloudsigmaclusters", "get", manager("metal"), SpecTimeout(timeout)),
		Entry("a controller manager by the Secret of its cluster", "secrets", "get", manager("by-secret"), SpecTimeout(timeout)),
	)

	It("are needed to find the owner Machine of a machine", func(ctx SpecContext) {
		w.startCalled(ctx)
		namespace := w.newTenancy(ctx)
		user := w.cloud.AddUser(tenant)
		Expect(w.cloud.AllowImpersonation(accountName, tenant)).To(Succeed())
		ofMetal := map[string]string{"cluster.x-k8s.io/cluster-name": "metal"}
		owner := suite.NewObject(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}, namespace, "node",
			suite.With("spec", map[string]any{}))
		owner.SetLabels(ofMetal)
		Expect(w.admin.Create(ctx, owner)).To(Succeed())
		machine := ofProvider("CloudSigmaMachine", map[string]any{"providerID": "cloudsigma://" + w.cloud.AddServer(region, user, "node").UUID})
		machine.SetNamespace(namespace)
		machine.SetLabels(ofMetal)
		machine.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
		}})
		try := func() error { return w.admin.Create(ctx, machine.DeepCopy(), client.DryRunAll) }
		// serve observes the clusters a moment after they are stored.
		Eventually(try).Should(Succeed())
		w.without(ctx, "machines", "get")
		Eventually(func() bool { return apierrors.IsServiceUnavailable(try()) }).Should(BeTrue())
	}, SpecTimeout(timeout))

	It("are needed to compare a cluster with its KdcCluster", func(ctx SpecContext) {
		w.startCalled(ctx)
		named := cluster(w.newTenancy(ctx), "another", map[string]any{"region": region, "userEmail": tenant})
		Expect(w.admin.Create(ctx, named.DeepCopy(), client.DryRunAll)).To(Succeed())
		Expect(w.pod.logged()).NotTo(ContainSubstring("OwnerEmailNotCompared"))
		w.without(ctx, "kdcclusters", "get")
		Eventually(func(g Gomega) {
			g.Expect(w.admin.Create(ctx, named.DeepCopy(), client.DryRunAll)).To(Succeed())
			g.Expect(w.pod.logged()).To(ContainSubstring("OwnerEmailNotCompared"))
		}).Should(Succeed())
	}, SpecTimeout(timeout))

	It("are needed to find the cluster of a machine of OpenStack by the Cluster", func(ctx SpecContext) {
		w.startCalled(ctx)
		machine := ofProvider("OpenStackMachine", map[string]any{"providerID": "openstack:///5d0c3e1f-9a47-4b6e-8f21-4d0b8b3a6c11"})
		machine.SetNamespace(w.newTenancy(ctx))
		machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "metal"})
		try := func() error { return w.admin.Create(ctx, machine.DeepCopy(), client.DryRunAll) }
		Expect(apierrors.IsForbidden(try())).To(BeTrue(), "there is no such cluster")
		w.without(ctx, "clusters", "get")
		Eventually(func() bool { return apierrors.IsServiceUnavailable(try()) }).Should(BeTrue())
	}, SpecTimeout(timeout))

	It("are needed to write Events", func(ctx SpecContext) {
		w.without(ctx, "events", "create")
		w.startCalled(ctx)
		object := policy(w.newTenancy(ctx), "policy", sound)
		Expect(w.author.Create(ctx, object)).To(Succeed())
		object.Data = policy("", "", broken).Data
		Expect(apierrors.IsForbidden(w.admin.Update(ctx, object))).To(BeTrue())
		Eventually(func() (float64, error) {
			return w.pod.metric(ctx, "warrantgate_events_total", map[string]string{"outcome": "off"})
		}).Should(BeNumerically(">", 0))
	}, SpecTimeout(timeout))

	It("are needed to delete the reports of an earlier configuration", func(ctx SpecContext) {
		w.without(ctx, "reports", "list")
		w.pod.start(ctx, w.admin)
		Eventually(w.pod.logged).Should(And(
			ContainSubstring("reports of an earlier configuration could not be deleted"), ContainSubstring(`cannot list resource \"reports\"`)))
	}, SpecTimeout(timeout))

	DescribeTable("are needed for leader election", func(ctx SpecContext, verb string) {
		Expect(client.IgnoreNotFound(w.admin.Delete(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: lease.Name},
		}))).To(Succeed())
		w.without(ctx, "leases", verb)
		w.pod.start(ctx, w.admin)
		Eventually(w.pod.logged).Should(ContainSubstring("cannot " + verb + ` resource \"leases\"`))
	},
		Entry("of the first holder of the Lease", "create", SpecTimeout(timeout)),
		Entry("of the audit, afterwards", "get", SpecTimeout(timeout)),
	)

	It("do not allow changes of webhook configurations or of their CA", func(ctx SpecContext) {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(w.pod.dir, "kubernetes", "kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		thief, err := client.New(config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		// The token has the permissions that the gates need.
		Expect(thief.Get(ctx, client.ObjectKeyFromObject(w.certificate(ctx)), &corev1.Secret{})).To(Succeed())

		meta := metav1.ObjectMeta{Name: release}
		for _, object := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
			&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta},
			w.certificate(ctx),
		} {
			kind, err := w.admin.GroupVersionKindFor(object)
			Expect(err).NotTo(HaveOccurred())
			label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"true"}}}`))
			for verb, try := range map[string]func() error{
				"create": func() error {
					created := object.DeepCopyObject().(client.Object) //nolint:errcheck,forcetypeassert // a copy is of the same kind
					created.SetName("of-the-thief")
					created.SetResourceVersion("")
					return thief.Create(ctx, created)
				},
				"update": func() error {
					return thief.Update(ctx, object.DeepCopyObject().(client.Object)) //nolint:errcheck,forcetypeassert // see above
				},
				"patch": func() error {
					return thief.Patch(ctx, object.DeepCopyObject().(client.Object), label) //nolint:errcheck,forcetypeassert // see above
				},
				"delete":           func() error { return thief.Delete(ctx, object) },
				"deletecollection": func() error { return thief.DeleteAllOf(ctx, object, client.InNamespace(object.GetNamespace())) },
			} {
				Expect(apierrors.IsForbidden(try())).To(BeTrue(), "%s %s", verb, kind.Kind)
			}
		}
	}, SpecTimeout(timeout))

	It("are all tested by these specs", func(ctx SpecContext) {
		Expect(w.untried(ctx)).To(BeEmpty())
	}, SpecTimeout(timeout))
})

// without removes the rule with a resource and a verb from the release's roles until the spec ends. The rule must exist.
func (w *world) without(ctx context.Context, resource, verb string) {
	GinkgoHelper()
	has := func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
	}
	everywhere, local := w.roles(ctx)
	left := [][]rbacv1.PolicyRule{slices.DeleteFunc(slices.Clone(everywhere.Rules), has), slices.DeleteFunc(slices.Clone(local.Rules), has)}
	Expect(len(left[0])+len(left[1])).To(Equal(len(everywhere.Rules)+len(local.Rules)-1), "rules to %s %s", verb, resource)
	for _, rule := range access.RuleNames(release, slices.Concat(everywhere.Rules, local.Rules)) {
		if !slices.Contains(access.RuleNames(release, slices.Concat(left...)), rule) {
			w.tried = append(w.tried, rule)
		}
	}
	DeferCleanup(w.setRules, everywhere.Rules, local.Rules)
	w.setRules(ctx, left[0], left[1])
}

// untried are the rules of the release's roles that no spec has removed.
func (w *world) untried(ctx context.Context) []string {
	GinkgoHelper()
	ofRelease := client.MatchingLabels{"app.kubernetes.io/instance": release}
	everywhere, local := &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}
	Expect(w.admin.List(ctx, everywhere, ofRelease)).To(Succeed())
	Expect(w.admin.List(ctx, local, ofRelease)).To(Succeed())
	var all []string
	for i := range everywhere.Items {
		all = append(all, access.RuleNames(everywhere.Items[i].Name, everywhere.Items[i].Rules)...)
	}
	for i := range local.Items {
		all = append(all, access.RuleNames(local.Items[i].Name, local.Items[i].Rules)...)
	}
	Expect(all).NotTo(BeEmpty())
	return slices.DeleteFunc(all, func(rule string) bool { return slices.Contains(w.tried, rule) })
}

// setRules replaces the rules of the service account's roles, in the cluster and in its own namespace.
func (w *world) setRules(ctx context.Context, everywhere, local []rbacv1.PolicyRule) {
	GinkgoHelper()
	clusterRole, role := w.roles(ctx)
	clusterRole.Rules, role.Rules = everywhere, local
	Expect(w.admin.Update(ctx, role)).To(Succeed())
	Expect(w.admin.Update(ctx, clusterRole)).To(Succeed())
}

// roles are the roles of the release.
func (w *world) roles(ctx context.Context) (everywhere *rbacv1.ClusterRole, local *rbacv1.Role) {
	GinkgoHelper()
	everywhere, local = &rbacv1.ClusterRole{}, &rbacv1.Role{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Name: release}, everywhere)).To(Succeed())
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release}, local)).To(Succeed())
	return everywhere, local
}
