//go:build e2e

package openstack_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/process"
)

// Permissions for OpenStack are granted only if OpenStack is configured, and all of them are needed.
var _ = Describe("The permissions that install grants", Ordered, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, "") }, NodeTimeout(setupTimeout))

	It("allow warrantgate to read, and to change nothing", func(ctx SpecContext) {
		for _, resource := range []string{"openstackclusters", "openstackmachines"} {
			Expect(w.mayDo(ctx, infrastructure.Group, resource)).To(ConsistOf("get", "list", "watch"), resource)
		}
		Expect(w.mayDo(ctx, "", "secrets")).To(ConsistOf("get"))
	}, SpecTimeout(timeout))

	It("are named in the log if the permission to read credentials is missing, and requests that need it are undecided", func(ctx SpecContext) {
		s := w.begin(ctx, member, loadBalancer)
		machine := s.machine(ctx, "worker")
		restore := w.removePermission(ctx, "", "secrets", "get")
		already := len(w.log())
		create := func() error { return s.createCluster(ctx, clusterName, actsWith(credentials)) }
		const own = "the credentials of warrantgate are rejected; its operator has to renew them"
		err := create()
		expectDenial(err, "DelegationUnknown", identityRefPath, own)
		Expect(err).NotTo(MatchError(ContainSubstring("cannot get")), "a tenant must not see which permission warrantgate lacks")
		Expect(w.log()[already:]).To(MatchRegexp(
			`"decision":"error","reason":"DelegationUnknown".*User \\"warrantgate\\" cannot get resource \\"secrets\\"`))
		restore()
		Eventually(create).WithContext(ctx).Should(Succeed())

		By("for machines as well")
		restore = w.removePermission(ctx, "", "secrets", "get")
		expectDenial(s.set(ctx, machine, instanceIDPath, s.server(ctx, "worker").ID), "OwnershipUnknown", instanceIDPath, own)
		Expect(w.log()[already:]).To(MatchRegexp(
			`"decision":"error","reason":"OwnershipUnknown".*User \\"warrantgate\\" cannot get resource \\"secrets\\"`))
		restore()
	}, SpecTimeout(timeout))

	It("are needed to become ready, and named if missing, for clusters and machines", func(ctx SpecContext) {
		Expect(w.gate.Stop()).To(Succeed())
		DeferCleanup(w.gate.Start)
		restore := map[string]func(){}
		for _, resource := range []string{"openstackclusters", "openstackmachines"} {
			// One of them is enough: an API server can send a list with a watch.
			restore[resource] = w.removePermission(ctx, infrastructure.Group, resource, "list", "watch")
		}
		health := w.serveUnready(ctx)
		for resource := range restore {
			want := `User "warrantgate" cannot list resource "` + resource + `"`
			Eventually(func() (string, error) { return process.Body(ctx, health+"/readyz/objects") }).WithContext(ctx).Should(ContainSubstring(want))
			Expect(w.log()).To(ContainSubstring(strings.ReplaceAll(want, `"`, `\"`)), "the log is JSON")
		}
		restore["openstackmachines"]()
		restore["openstackclusters"]()
		// A failed watch is retried with exponential backoff, up to about 30 seconds.
		Eventually(func() (string, error) { return process.Body(ctx, health+"/readyz") }).WithContext(ctx).WithTimeout(timeout).Should(Equal("ok"))
	}, SpecTimeout(2*timeout))

	It("are removed with the webhooks when OpenStack is no longer configured", func(ctx SpecContext) {
		Expect(w.hooks(ctx)).To(ContainElements("openstackclusters.delegation.warrantgate.dev",
			"openstackmachines.delegation.warrantgate.dev", "openstackmachines.machine.warrantgate.dev"))
		bare, err := kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = bare.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.hooks(ctx)).To(And(Not(BeEmpty()), Not(ContainElement(HavePrefix("openstack")))))
		for _, resource := range []string{"openstackclusters", "openstackmachines"} {
			Eventually(w.mayDo).WithContext(ctx).WithArguments(infrastructure.Group, resource).Should(BeEmpty(), resource)
		}
		_, err = w.gate.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.hooks(ctx)).To(ContainElement("openstackclusters.delegation.warrantgate.dev"))
	}, SpecTimeout(timeout))
})

// mayDo are the verbs on a resource that warrantgate may use.
func (w *world) mayDo(ctx context.Context, group, resource string) []string {
	GinkgoHelper()
	var may []string
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: kubetest.WarrantgateUser, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: metav1.NamespaceDefault},
		}}
		Expect(w.client.Create(ctx, review)).To(Succeed())
		if review.Status.Allowed {
			may = append(may, verb)
		}
	}
	return may
}

// removePermission removes verbs on a resource from warrantgate, and waits until the API server applies that. The returned function
// restores them, and so does the end of the spec.
func (w *world) removePermission(ctx context.Context, group, resource string, verbs ...string) (restore func()) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"}}
	Expect(w.client.Get(ctx, keyOf(role), role)).To(Succeed())
	full, had := role.Rules, w.mayDo(ctx, group, resource)
	write := func(ctx context.Context, rules []rbacv1.PolicyRule) {
		GinkgoHelper()
		Expect(w.client.Get(ctx, keyOf(role), role)).To(Succeed())
		role.Rules = rules
		Expect(w.client.Update(ctx, role)).To(Succeed())
	}
	write(ctx, without(full, resource, verbs))
	DeferCleanup(write, full)
	Eventually(w.mayDo).WithContext(ctx).WithArguments(group, resource).Should(HaveLen(len(had) - len(verbs)))
	return func() {
		GinkgoHelper()
		write(ctx, full)
		Eventually(w.mayDo).WithContext(ctx).WithArguments(group, resource).Should(ConsistOf(had))
	}
}

// without are the rules without verbs on a resource.
func without(rules []rbacv1.PolicyRule, resource string, verbs []string) []rbacv1.PolicyRule {
	var kept []rbacv1.PolicyRule
	for _, rule := range rules {
		if slices.Contains(rule.Resources, resource) {
			rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return slices.Contains(verbs, v) })
		}
		if len(rule.Verbs) > 0 {
			kept = append(kept, rule)
		}
	}
	return kept
}

// serveUnready starts serve by the same command as before until the end of the spec, and does not wait. It returns the URL of
// its health.
func (w *world) serveUnready(ctx context.Context) (health string) {
	GinkgoHelper()
	command := w.gate.ServeCommand()
	serve, err := process.Start(process.Options{Name: "warrantgate", LogFile: w.gate.LogFile(), Binary: command[0], Args: command[1:]})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(serve.Stop)
	for _, arg := range command {
		if address, is := strings.CutPrefix(arg, "--health-address="); is {
			health = "http://" + address
		}
	}
	Eventually(func() (string, error) { return process.Body(ctx, health+"/healthz") }).WithContext(ctx).Should(Equal("ok"))
	return health
}
