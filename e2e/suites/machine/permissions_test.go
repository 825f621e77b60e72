//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// warrantgate has the permissions that "install kubernetes" grants. It needs all of them, and no other user gets any.
var _ = Describe("the permissions that install grants", Ordered, func() {
	var (
		w *world
		// before are the objects from before the installation, by kind, namespace and name.
		before map[string]string
		// mayBefore are the permissions of a user in no special group before the installation.
		mayBefore []string
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: oftenAudited, before: func(w *world) {
			before, mayBefore = w.installed(ctx), w.mayDo(ctx, "alice")
		}})
	}, NodeTimeout(setupTimeout))

	It("are all permissions of warrantgate", func(ctx SpecContext) {
		want := append(slices.Clone(mayBefore),
			"get cloudsigmaclusters", "list cloudsigmaclusters", "watch cloudsigmaclusters",
			"get kdcclusters",
			"get cloudsigmamachines", "list cloudsigmamachines", "watch cloudsigmamachines",
			"get machines", "list machines", "watch machines",
			"get secrets", "create events", "patch events", "create subjectaccessreviews", "create leases",
			"get leases/warrantgate-audit", "update leases/warrantgate-audit")
		Expect(w.mayDo(ctx, kubetest.WarrantgateUser)).To(ConsistOf(want))
	}, SpecTimeout(timeout))

	It("do not change in a second installation", func(ctx SpecContext) {
		_, err := w.gate.Install(ctx) // this suite has changed timeouts of webhooks
		Expect(err).NotTo(HaveOccurred())
		installed := w.installed(ctx)
		printed, err := w.gate.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.installed(ctx)).To(Equal(installed))
		for line := range strings.Lines(printed) {
			Expect(line).To(HaveSuffix(" unchanged\n"))
		}
	}, SpecTimeout(timeout))

	It("are granted to no other user", func(ctx SpecContext) {
		Expect(w.mayDo(ctx, "alice")).To(ConsistOf(mayBefore))
		var bindings rbacv1.ClusterRoleBindingList
		Expect(w.client.List(ctx, &bindings, client.MatchingLabels{"app.kubernetes.io/managed-by": "warrantgate"})).To(Succeed())
		Expect(bindings.Items).To(HaveExactElements(HaveField("Subjects", HaveExactElements(rbacv1.Subject{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubetest.WarrantgateUser,
		}))))
		var roles rbacv1.ClusterRoleList
		Expect(w.client.List(ctx, &roles, client.MatchingLabels{"app.kubernetes.io/managed-by": "warrantgate"})).To(Succeed())
		for i := range roles.Items { // a label could aggregate a role into one that all users have
			Expect(roles.Items[i].Labels).To(HaveLen(1))
		}
	}, SpecTimeout(timeout))

	// The chart has the same permissions. Its suite removes each of them.
	It("are needed to become ready, and named if missing", func(ctx SpecContext) {
		Expect(w.gate.Stop()).To(Succeed())
		DeferCleanup(w.gate.Start)
		// One of list and watch is enough to read the objects: an API server can send a list by a watch.
		restore := w.removePermission(ctx, rule(infrastructure.Group, "cloudsigmamachines", "list", "watch"))
		command := w.gate.ServeCommand() // its own start would wait
		serve, err := process.Start(process.Options{Name: "warrantgate", LogFile: w.gate.LogFile(), Binary: command[0], Args: command[1:]})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(serve.Stop)
		_, address, found := strings.Cut(strings.Join(command, " "), "--health-address=")
		Expect(found).To(BeTrue())
		address, _, _ = strings.Cut(address, " ")
		health := "http://" + address
		want := fmt.Sprintf("User %q cannot list resource %q", kubetest.WarrantgateUser, "cloudsigmamachines")
		Eventually(func() (string, error) { return process.Body(ctx, health+"/readyz/objects") }).Should(ContainSubstring(want))
		Expect(suite.Log(w.gate)).To(ContainSubstring(strings.ReplaceAll(want, `"`, `\"`)), "the log is JSON")
		Expect(process.Body(ctx, health+"/readyz")).To(ContainSubstring("[-]objects failed"))
		Expect(process.Body(ctx, health+"/healthz")).To(Equal("ok"), "a restart would not help")

		By("becoming ready without a restart once the permission is granted")
		restore()
		// A failed watch is retried with exponential backoff, up to about 30 seconds.
		Eventually(func() (string, error) { return process.Body(ctx, health+"/readyz") }).WithTimeout(timeout).Should(Equal("ok"))
		Expect(serve.Stop()).To(Succeed())
	}, SpecTimeout(2*timeout))

	// lacking is the creation of an object that is undecided without a permission.
	type lacking struct {
		group, resource, verb string
		// reason is the reason of the denial.
		reason string
		// object is called while warrantgate has the permission.
		object func(ctx context.Context, s story) *unstructured.Unstructured
		// forgetful is true if warrantgate is restarted without the permission, because the audit may have cached tokens.
		forgetful bool
	}
	DescribeTable("are named in the log if missing, and not to tenants, whose requests that need them are undecided:", func(ctx SpecContext, l lacking) {
		s := w.begin(ctx)
		object := l.object(ctx, s)
		restore := w.removePermission(ctx, rule(l.group, l.resource, l.verb))
		if l.forgetful {
			Expect(w.gate.Stop()).To(Succeed())
			Expect(w.gate.Start(ctx)).To(Succeed())
		}
		create := func() error { return s.client.Create(ctx, object.DeepCopy(), client.DryRunAll) }
		already := len(suite.Log(w.gate))
		err := create()
		Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, metav1.CauseType(l.reason))).To(BeTrue(), "%v", err)
		Expect(err).NotTo(MatchError(ContainSubstring("cannot "+l.verb)), "a tenant must not see which permission warrantgate lacks")
		Expect(suite.Log(w.gate)[already:]).To(MatchRegexp(`"decision":"error","reason":"%s".*User \\"warrantgate\\" cannot %s resource \\"%s\\"`,
			l.reason, l.verb, l.resource))
		restore()
		Eventually(create).Should(Succeed())
	},
		Entry("to read its own credentials", lacking{
			resource: "secrets", verb: "get", reason: "OwnershipUnknown", forgetful: true,
			object: func(_ context.Context, s story) *unstructured.Unstructured {
				return newMachine(s.namespace, "worker", clusterName, providerID(s.server("worker").UUID))
			},
		}, SpecTimeout(timeout)),
		Entry("to read the Secret that names the user of a machine's cluster", lacking{
			resource: "secrets", verb: "get", reason: "ObjectsUnknown",
			object: func(ctx context.Context, s story) *unstructured.Unstructured {
				s.putUser(ctx, s.namespace, s.user.Email)
				Expect(s.client.Create(ctx, s.referringCluster("by-secret", ""))).To(Succeed())
				return newMachine(s.namespace, "worker", "by-secret", providerID(s.server("worker").UUID))
			},
		}, SpecTimeout(timeout)),
		Entry("to check the permissions of users", lacking{
			group: authorizationv1.GroupName, resource: "subjectaccessreviews", verb: "create", reason: "ImpersonationUnknown",
			object: func(_ context.Context, s story) *unstructured.Unstructured {
				return newCluster(s.namespace, "another", s.user.Email)
			},
		}, SpecTimeout(timeout)),
	)

	It("are named in the log if it cannot write Events, and everything else works", func(ctx SpecContext) {
		s := w.begin(ctx)
		restore := w.removePermission(ctx, rule("", "events", "create"))
		Expect(w.gate.Stop()).To(Succeed())
		already := len(suite.Log(w.gate))
		Expect(w.gate.Start(ctx)).To(Succeed())
		Eventually(func() string { return suite.Log(w.gate)[already:] }).Should(ContainSubstring(
			`"Events are off; gates and controllers work without them","reason":"no permission to create events; grant it with ` + "`warrantgate install kubernetes`"))
		machine := s.createMachine(ctx, "worker")
		expectDenial(s.setInstanceID(ctx, machine, noServer), "InstanceNotFound", instanceIDPath)

		restore()
		Eventually(func() string { return suite.Log(w.gate)[already:] }).Should(ContainSubstring("Events are on"))
		expectDenial(s.setInstanceID(ctx, machine, noServer), "InstanceNotFound", instanceIDPath)
		// Of one or of both denials: an Event waits for the permission for a minute.
		Eventually(w.eventsOn).WithContext(ctx).WithArguments(machine).Should(ConsistOf(
			And(HaveField("Reason", "InstanceNotFound"), HaveField("Count", BeElementOf(int32(1), int32(2))))))
	}, SpecTimeout(timeout))

	It("are removed by uninstall, which removes no other objects", func(ctx SpecContext) {
		for key, version := range w.installed(ctx) {
			if old, was := before[key]; was {
				Expect(version).To(Equal(old), "install changed "+key)
			} else {
				Expect(key).To(Or(HaveSuffix("/warrantgate"), MatchRegexp("^ValidatingAdmissionPolicy.* /cloudsigmaclusters.(cluster|region).warrantgate.dev$")))
			}
		}
		printed, err := w.gate.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.installed(ctx)).To(Equal(before))
		for _, kind := range []string{"ValidatingWebhookConfiguration", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
			Expect(printed).To(MatchRegexp(`(?m)^kubernetes: ` + kind + ` "warrantgate" deleted$`))
		}
		Expect(w.mayDo(ctx, kubetest.WarrantgateUser)).To(ConsistOf(mayBefore))

		By("a second uninstall succeeds")
		printed, err = w.gate.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(printed).To(Equal("kubernetes: nothing to remove\n"))
	}, SpecTimeout(timeout))
})

// removePermission removes verbs on a resource from warrantgate, and waits until the API server applies that. The returned function restores them,
// and so does the end of the spec.
func (w *world) removePermission(ctx context.Context, removed rbacv1.PolicyRule) (restore func()) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"}}
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
	before := role.DeepCopy()
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, removed.Resources[0]) {
			role.Rules[i].Verbs = slices.DeleteFunc(role.Rules[i].Verbs, func(verb string) bool { return slices.Contains(removed.Verbs, verb) })
		}
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Verbs) == 0 })
	write := func(ctx context.Context, rules []rbacv1.PolicyRule, allowed bool) {
		GinkgoHelper()
		role.Rules = rules
		Expect(w.client.Update(ctx, role)).To(Succeed())
		for _, verb := range removed.Verbs {
			one := permission{namespace: metav1.NamespaceSystem, rule: rule(removed.APIGroups[0], removed.Resources[0], verb)}
			Eventually(w.mayAuthor).WithContext(ctx).WithArguments(author{username: kubetest.WarrantgateUser, groups: []string{"system:authenticated"}}, one).
				Should(Equal(allowed), verb)
		}
	}
	write(ctx, role.Rules, false)
	DeferCleanup(write, before.Rules, true)
	return func() {
		GinkgoHelper()
		write(ctx, before.Rules, true)
	}
}

// mayDo returns the permissions, of all relevant ones, of a user that is only in the group of all users.
func (w *world) mayDo(ctx context.Context, username string) []string {
	GinkgoHelper()
	var may []string
	for _, resource := range []schema.GroupResource{
		{Resource: "events"}, {Resource: "secrets"}, {Resource: "configmaps"}, {Resource: "namespaces"}, {Resource: "pods"},
		{Resource: "serviceaccounts"}, {Resource: "users"}, {Resource: "groups"},
		{Group: infrastructure.Group, Resource: "cloudsigmaclusters"}, {Group: infrastructure.Group, Resource: "cloudsigmamachines"},
		{Group: "k8s.kube-dc.com", Resource: "kdcclusters"}, {Group: "cluster.x-k8s.io", Resource: "machines"},
		{Group: "apps", Resource: "deployments"}, {Group: "coordination.k8s.io", Resource: "leases"},
		{Group: "coordination.k8s.io", Resource: "leases/warrantgate-audit"},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
		{Group: rbacv1.GroupName, Resource: "clusterroles"}, {Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
		{Group: rbacv1.GroupName, Resource: "roles"}, {Group: rbacv1.GroupName, Resource: "rolebindings"},
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	} {
		plural, name, _ := strings.Cut(resource.Resource, "/")
		for _, verb := range []string{
			"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate",
		} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: username, Groups: []string{"system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: resource.Group, Resource: plural, Name: name, Version: "*", Namespace: metav1.NamespaceSystem,
				},
			}}
			Expect(w.client.Create(ctx, review)).To(Succeed())
			// A permission for all names is not checked for one name.
			if all := verb + " " + plural; review.Status.Allowed && (name == "" || !slices.Contains(may, all)) {
				may = append(may, verb+" "+resource.Resource)
			}
		}
	}
	return may
}

// installed are the resource versions of all objects that an installation can contain. Objects of stories are not included.
func (w *world) installed(ctx context.Context) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, kind := range []schema.GroupVersionKind{
		{Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRole"}, {Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: rbacv1.GroupName, Version: "v1", Kind: "Role"}, {Group: rbacv1.GroupName, Version: "v1", Kind: "RoleBinding"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
		{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		Expect(w.client.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			object := &list.Items[i]
			if strings.HasPrefix(object.GetNamespace(), "story-") {
				continue
			}
			found[fmt.Sprintf("%s %s/%s", kind.Kind, object.GetNamespace(), object.GetName())] = object.GetResourceVersion()
		}
	}
	return found
}
