//go:build e2e

package chart_test

import (
	"context"
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// None of the rights is spare: without any one of its rules, something that works with all of them does not.
var _ = Describe("The rights of the service account", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
	}, NodeTimeout(3*time.Minute))

	DescribeTable("are needed to become ready", func(ctx SpecContext, resource string) {
		w.without(ctx, release, resource, "list")
		w.pod.start(ctx, w.admin)
		Eventually(w.pod.logged).Should(ContainSubstring(`cannot list resource \"` + resource + `\"`))
		Expect(w.pod.probe(ctx, "/readyz")).To(Equal(http.StatusInternalServerError))
		Expect(w.pod.probe(ctx, "/healthz")).To(Equal(http.StatusOK))
	},
		Entry("clusters of CloudSigma", "cloudsigmaclusters", SpecTimeout(timeout)),
		Entry("machines of CloudSigma", "cloudsigmamachines", SpecTimeout(timeout)),
		Entry("clusters of OpenStack", "openstackclusters", SpecTimeout(timeout)),
		Entry("machines of OpenStack", "openstackmachines", SpecTimeout(timeout)),
	)

	DescribeTable("are needed to judge", func(ctx SpecContext, resource, verb string, spec map[string]any) {
		namespace := w.newNamespace(ctx)
		judged := func() bool {
			return apierrors.IsServiceUnavailable(w.author.Create(ctx, cluster(namespace, "metal", spec)))
		}
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		Expect(judged()).To(BeFalse())
		w.without(ctx, release, resource, verb)
		Eventually(judged).Should(BeTrue())
	},
		Entry("a user by name", "subjectaccessreviews", "create", map[string]any{"userEmail": "tenant@example.com"}, SpecTimeout(timeout)),
		Entry("a user by a Secret", "secrets", "get", map[string]any{"userRef": map[string]any{"name": "user"}}, SpecTimeout(timeout)),
	)

	It("are needed to write Events", func(ctx SpecContext) {
		namespace := w.newNamespace(ctx)
		w.without(ctx, release, "events", "create")
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		Expect(w.author.Create(ctx, policy(namespace, "policy", sound))).To(Succeed())
		Expect(refusedByGate(w.admin.Update(ctx, policy(namespace, "policy", broken)))).To(Succeed())
		Eventually(func() (float64, error) {
			return w.pod.metric(ctx, "warrantgate_events_total", map[string]string{"outcome": "off"})
		}).Should(BeNumerically(">", 0))
	}, SpecTimeout(timeout))

	DescribeTable("are needed to agree on a leader", func(ctx SpecContext, role, verb string) {
		for _, name := range []string{lease.Name, certificateName} {
			Expect(client.IgnoreNotFound(w.admin.Delete(ctx, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			}))).To(Succeed())
		}
		w.without(ctx, role, "leases", verb)
		w.pod.start(ctx, w.admin)
		Eventually(w.pod.logged).Should(ContainSubstring("cannot " + verb + ` resource \"leases\"`))
	},
		Entry("for the first time", release, "create", SpecTimeout(timeout)),
		Entry("of the audit, from then on", release, "get", SpecTimeout(timeout)),
		Entry("of the certificate, from then on", certificateName, "get", SpecTimeout(timeout)),
	)

	It("are needed to keep a certificate", func(ctx SpecContext) {
		w.emptyCertificate(ctx)
		w.without(ctx, certificateName, "secrets", "update")
		w.pod.start(ctx, w.admin)
		Eventually(w.pod.logged).Should(ContainSubstring(`cannot update resource \"secrets\"`))
		Eventually(w.pod.probe).WithArguments(ctx, "/healthz").Should(Equal(http.StatusOK))
		Expect(w.pod.probe(ctx, "/readyz")).To(Equal(http.StatusInternalServerError))
	}, SpecTimeout(timeout))

	DescribeTable("are needed to be trusted", func(ctx SpecContext, resource string) {
		w.without(ctx, certificateName, resource, "patch")
		w.pod.startReady(ctx, w.admin)
		Eventually(w.pod.logged).Should(ContainSubstring(`cannot get resource \"` + resource + `\"`))
	},
		Entry("by mutating webhooks", "mutatingwebhookconfigurations", SpecTimeout(timeout)),
		Entry("by validating webhooks", "validatingwebhookconfigurations", SpecTimeout(timeout)),
	)
})

// without takes the rule with a resource and a verb out of the release's roles of a name until the spec ends. There has to be
// one.
func (w *world) without(ctx context.Context, name, resource, verb string) {
	GinkgoHelper()
	has := func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
	}
	everywhere, local := w.roles(ctx, name)
	left := [][]rbacv1.PolicyRule{slices.DeleteFunc(slices.Clone(everywhere.Rules), has), slices.DeleteFunc(slices.Clone(local.Rules), has)}
	Expect(len(left[0])+len(left[1])).To(Equal(len(everywhere.Rules)+len(local.Rules)-1), "rules to %s %s", verb, resource)
	DeferCleanup(w.setRules, name, everywhere.Rules, local.Rules)
	w.setRules(ctx, name, left[0], left[1])
}

// setRules gives the service account rules in the cluster and in its own namespace, in place of those of the roles of a name.
func (w *world) setRules(ctx context.Context, name string, everywhere, local []rbacv1.PolicyRule) {
	GinkgoHelper()
	clusterRole, role := w.roles(ctx, name)
	clusterRole.Rules, role.Rules = everywhere, local
	Expect(w.admin.Update(ctx, role)).To(Succeed())
	if clusterRole.UID != "" {
		Expect(w.admin.Update(ctx, clusterRole)).To(Succeed())
	}
}

// roles are those of a name. Next to a kcp there is none in the cluster.
func (w *world) roles(ctx context.Context, name string) (everywhere *rbacv1.ClusterRole, local *rbacv1.Role) {
	GinkgoHelper()
	everywhere, local = &rbacv1.ClusterRole{}, &rbacv1.Role{}
	Expect(client.IgnoreNotFound(w.admin.Get(ctx, client.ObjectKey{Name: name}, everywhere))).To(Succeed())
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, local)).To(Succeed())
	return everywhere, local
}
