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
	)

	DescribeTable("are needed to judge", func(ctx SpecContext, resource, verb string, spec map[string]any) {
		namespace := w.newNamespace(ctx)
		judged := func() bool {
			return apierrors.IsServiceUnavailable(w.author.Create(ctx, cluster(namespace, "metal", spec)))
		}
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		Expect(judged()).To(BeFalse())
		w.without(ctx, resource, verb)
		Eventually(judged).Should(BeTrue())
	},
		Entry("a user by name", "subjectaccessreviews", "create", map[string]any{"userEmail": "tenant@example.com"}, SpecTimeout(timeout)),
		Entry("a user by a Secret", "secrets", "get", map[string]any{"userRef": map[string]any{"name": "user"}}, SpecTimeout(timeout)),
	)

	It("are needed to write Events", func(ctx SpecContext) {
		namespace := w.newNamespace(ctx)
		w.without(ctx, "events", "create")
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		Expect(w.author.Create(ctx, policy(namespace, "policy", sound))).To(Succeed())
		Expect(refusedByGate(w.admin.Update(ctx, policy(namespace, "policy", broken)))).To(Succeed())
		Eventually(func() (float64, error) {
			return w.pod.metric(ctx, "warrantgate_events_total", map[string]string{"outcome": "off"})
		}).Should(BeNumerically(">", 0))
	}, SpecTimeout(timeout))

	DescribeTable("are needed to agree on a leader", func(ctx SpecContext, verb string) {
		Expect(client.IgnoreNotFound(w.admin.Delete(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
		}))).To(Succeed())
		w.without(ctx, "leases", verb)
		w.pod.startReady(ctx, w.admin)
		Eventually(w.pod.logged).Should(ContainSubstring("cannot " + verb + ` resource \"leases\"`))
	},
		Entry("for the first time", "create", SpecTimeout(timeout)),
		Entry("from then on", "get", SpecTimeout(timeout)),
	)
})

// without takes the rule with a resource and a verb out of the release's roles until the spec ends. There has to be one.
func (w *world) without(ctx context.Context, resource, verb string) {
	GinkgoHelper()
	has := func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
	}
	everywhere, local := w.roles(ctx)
	left := [][]rbacv1.PolicyRule{slices.DeleteFunc(slices.Clone(everywhere.Rules), has), slices.DeleteFunc(slices.Clone(local.Rules), has)}
	Expect(len(left[0])+len(left[1])).To(Equal(len(everywhere.Rules)+len(local.Rules)-1), "rules to %s %s", verb, resource)
	DeferCleanup(w.setRules, everywhere.Rules, local.Rules)
	w.setRules(ctx, left[0], left[1])
}

// setRules gives the service account rules in the cluster and in its own namespace, and takes all others from it.
func (w *world) setRules(ctx context.Context, everywhere, local []rbacv1.PolicyRule) {
	GinkgoHelper()
	clusterRole, role := w.roles(ctx)
	clusterRole.Rules, role.Rules = everywhere, local
	Expect(w.admin.Update(ctx, clusterRole)).To(Succeed())
	Expect(w.admin.Update(ctx, role)).To(Succeed())
}

func (w *world) roles(ctx context.Context) (everywhere *rbacv1.ClusterRole, local *rbacv1.Role) {
	GinkgoHelper()
	everywhere, local = &rbacv1.ClusterRole{}, &rbacv1.Role{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Name: release}, everywhere)).To(Succeed())
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release}, local)).To(Succeed())
	return everywhere, local
}
