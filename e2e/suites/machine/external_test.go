//go:build e2e

package machine_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

// Two kinds of a provider whose cloud is not asked.
var (
	serverKind = schema.GroupVersionKind{Group: "rented.example.com", Version: "v1", Kind: "RentedServer"}
	hostKind   = schema.GroupVersionKind{Group: "rented.example.com", Version: "v1", Kind: "RentedHost"}
)

// hostIDPath is the field with the ID of a RentedHost. That of a RentedServer is the default, spec.providerID.
const hostIDPath = "status.hardware.id"

// rented returns the CRD of one of these kinds.
func rented(kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	crd := kubetest.OpenCRD(kind, "v1alpha1")
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	return crd
}

// One ID, one namespace. This warrantgate has no access to any cloud.
var _ = Describe("an ID of a provider whose cloud is not asked", Ordered, func() {
	const earlier = "rented://hall-1/0001"
	var (
		w *world
		// theirs is another tenant's namespace. former and latter named one ID in two namespaces before warrantgate was installed.
		mine, theirs   string
		former, latter *unstructured.Unstructured
	)
	server := func(namespace, name, id string) *unstructured.Unstructured {
		object := newObject(serverKind, namespace, name)
		if id != "" {
			with(providerIDPath, id)(object)
		}
		return object
	}
	set := func(ctx context.Context, object *unstructured.Unstructured, path, value string, options ...client.PatchOption) error {
		return write(ctx, w.client, newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName()), path, value, options...)
	}
	expectHeld := func(err error, field string) {
		GinkgoHelper()
		expectDenial(err, "InstanceIDConflict", field)
		Expect(err).To(MatchError(ContainSubstring("it is held by an object of another namespace, and an instance can belong to one namespace only; ask your administrator")))
		Expect(err).NotTo(MatchError(ContainSubstring(theirs)))
		Expect(err).NotTo(MatchError(ContainSubstring("their-")))
	}
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{
			configuration: rarelyAudited + `
machine:
  kinds:
  - {group: rented.example.com, version: v1, kind: RentedServer, resource: rentedservers, provider: external-rented, idPattern: "rented://[a-z0-9-]+/([0-9]+)"}
  - {group: rented.example.com, version: v1, kind: RentedHost, resource: rentedhosts, providerIDPath: ` + hostIDPath + `, provider: external-rented}
`,
			credentials: func(*world) (args, env []string) { return nil, nil },
			before: func(w *world) {
				Expect(w.api.ApplyCRDs(ctx, rented(serverKind), rented(hostKind))).To(Succeed())
				mine, theirs = w.namespace(ctx), w.namespace(ctx)
				former, latter = server(mine, "former", earlier), server(theirs, "latter", strings.ToUpper(earlier))
				Expect(w.client.Create(ctx, former)).To(Succeed())
				Expect(w.client.Create(ctx, latter)).To(Succeed())
			},
		})
		awaitAuditing(ctx, w.gate)
	}, NodeTimeout(setupTimeout))

	It("was reported if two namespaces had it before, to each without the other, and to the operator with both", func(ctx SpecContext) {
		for object, other := range map[*unstructured.Unstructured]*unstructured.Unstructured{former: latter, latter: former} {
			Eventually(w.eventsOn).WithContext(ctx).WithArguments(object).Should(ContainElement(auditedAs("InstanceIDConflict", "2 machines name instance 0001, which can be that of one only")))
			events, err := w.eventsOn(ctx, object)
			Expect(err).NotTo(HaveOccurred())
			Expect(events).NotTo(ContainElement(HaveField("Message", ContainSubstring(other.GetNamespace()))))
			Expect(suite.Log(w.gate)).To(ContainSubstring(`"others":["RentedServer \"` + other.GetName() + `\" of namespace \"` + other.GetNamespace() + `\""]`))
		}
		Eventually(w.findings).WithContext(ctx).WithArguments("InstanceIDConflict").Should(BeEquivalentTo(2))
		printed := suite.Warrantgate(ctx, "audit", "--kubeconfig="+w.api.AdminKubeconfig(), "--config="+w.gate.ConfigFile(), "-o=json")
		Expect(printed.Status).To(Equal(1), printed.Stderr)
		Expect(printed.Stdout).To(And(ContainSubstring(mine), ContainSubstring(theirs), ContainSubstring("InstanceIDConflict")))
	}, SpecTimeout(timeout))

	It("is denied to a second namespace, in each kind and spelling, until the first one lets go", func(ctx SpecContext) {
		holder := server(theirs, "their-server", "rented://hall-1/0100")
		Expect(w.client.Create(ctx, holder)).To(Succeed())
		again := func() error {
			return w.client.Create(ctx, server(mine, "canary", "rented://hall-1/0100"), client.DryRunAll)
		}
		Eventually(again).Should(HaveOccurred()) // it is watched, so seen a moment later

		By("created with it, in several spellings")
		for _, id := range []string{"rented://hall-1/0100", " RENTED://hall-2/0100\n"} {
			expectHeld(w.client.Create(ctx, server(mine, "second", id)), providerIDPath)
		}
		By("written into an object of the same kind, and of the other one")
		second := server(mine, "second", "")
		Expect(w.client.Create(ctx, second)).To(Succeed())
		expectHeld(set(ctx, second, providerIDPath, "rented://hall-1/0100"), providerIDPath)
		host := newObject(hostKind, mine, "host")
		Expect(w.client.Create(ctx, host)).To(Succeed())
		expectHeld(set(ctx, host, hostIDPath, "0100"), hostIDPath)
		Eventually(w.eventsOn).WithContext(ctx).WithArguments(host).Should(ContainElement(And(
			HaveField("Reason", "InstanceIDConflict"), HaveField("Message", HavePrefix("Denied: ")), HaveField("Message", Not(ContainSubstring(theirs))))))
		Expect(suite.Log(w.gate)).To(ContainSubstring(`RentedServer \"their-server\" of namespace \"` + theirs + `\"`))
		Expect(w.gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{
			"gate": "machine-ownership", "decision": "denied", "reason": "InstanceIDConflict",
		})).To(BeNumerically(">=", 4))

		By("allowed to another object of the first namespace")
		Expect(w.client.Create(ctx, server(theirs, "their-second", "rented://hall-1/0100"))).To(Succeed())
		By("allowed once none of these names it")
		Expect(w.client.Delete(ctx, server(theirs, "their-second", ""))).To(Succeed())
		Expect(remove(ctx, w.client, holder, providerIDPath)).To(Succeed())
		Expect(set(ctx, second, providerIDPath, "rented://hall-1/0100")).To(Succeed())
	}, SpecTimeout(timeout))

	It("is denied if it cannot be compared", func(ctx SpecContext) {
		expectDenial(w.client.Create(ctx, server(mine, "odd", "rented://hall-1/100/x")), "ProviderIDInvalid", providerIDPath)
		expectDenial(w.client.Create(ctx, server(mine, "odd", "rented://hall-1/"+strings.Repeat("1", 1<<10))), "ProviderIDInvalid", providerIDPath)
		for _, value := range []any{[]any{"rented://hall-1/0200"}, int64(200), map[string]any{"id": "0200"}} {
			odd := server(mine, "odd", "")
			with(providerIDPath, value)(odd)
			err := w.client.Create(ctx, odd)
			Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring("spec.providerID is")))
		}
	}, SpecTimeout(timeout))

	It("does not stop writes that do not change it, also of one of two that have it", func(ctx SpecContext) {
		object := server(mine, "former", "")
		Expect(set(ctx, object, "status.heartbeat", "now")).To(Succeed())
		Expect(w.client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/keep"]}}`)))).To(Succeed())
		Expect(w.client.Delete(ctx, object)).To(Succeed())
		Expect(set(ctx, object, "status.heartbeat", "later")).To(Succeed())

		By("and is held until the object is gone")
		fresh := server(w.namespace(ctx), "fresh", "")
		Expect(w.client.Create(ctx, fresh)).To(Succeed())
		Expect(w.client.Delete(ctx, latter)).To(Succeed())
		expectDenial(set(ctx, fresh, providerIDPath, earlier), "InstanceIDConflict", providerIDPath)
		Expect(w.client.Patch(ctx, server(mine, "former", ""), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Eventually(func() error { return set(ctx, fresh, providerIDPath, earlier) }).Should(Succeed())
	}, SpecTimeout(timeout))

	It("is explained", func(ctx SpecContext) {
		Expect(w.client.Create(ctx, server(mine, "explained", "rented://hall-1/0300"))).To(Succeed())
		printed := suite.Warrantgate(ctx, "explain", "machine", mine+"/explained", "--kubeconfig="+w.api.AdminKubeconfig(), "--config="+w.gate.ConfigFile())
		Expect(printed.Status).To(Equal(0), printed.Stderr)
		Expect(printed.Stdout).To(And(ContainSubstring("Account:  not checked: of the provider external-rented only IDs are compared"), ContainSubstring("Nothing is wrong with it.")))
	}, SpecTimeout(timeout))

	It("cannot be written while warrantgate is down, unlike everything else", func(ctx SpecContext) {
		object := server(mine, "waiting", "")
		Expect(w.client.Create(ctx, object)).To(Succeed())
		Expect(w.gate.Stop()).To(Succeed())
		Expect(set(ctx, object, providerIDPath, "rented://hall-1/0400")).To(MatchError(ContainSubstring("rentedservers.machine.warrantgate.dev")))
		Expect(set(ctx, object, "status.heartbeat", "now")).To(Succeed())
		Expect(w.client.Delete(ctx, object)).To(Succeed())
		Expect(w.client.Delete(ctx, server(mine, "explained", ""))).To(Succeed())
		Expect(w.gate.Start(ctx)).To(Succeed())
		again := server(mine, "waiting", "rented://hall-1/0400")
		Expect(w.client.Create(ctx, again)).To(Succeed())
	}, SpecTimeout(timeout))
})
