//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
)

// A verdict depends on the change that a request makes, not on its verb.
var _ = Describe("The same claim", sharing, func() {
	for _, verb := range verbs {
		for _, field := range []string{providerIDPath, instanceIDPath} {
			if verb.creates && field == instanceIDPath {
				continue // the API server drops the status of a created object
			}
			It(fmt.Sprintf("to %s by %s gets the same verdict", field, verb.name), func(ctx SpecContext) {
				sameVerdict(ctx, begin(ctx), machineKind, verb, field)
			}, SpecTimeout(timeout))
		}
	}

	It("is admitted where the API server drops the field: status by the main resource, spec by /status", func(ctx SpecContext) {
		s := begin(ctx)
		id := s.othersServer("others").UUID
		created := newMachine(s.namespace, "created", clusterName, with(instanceIDPath, id))
		Expect(s.client.Create(ctx, created)).To(Succeed())
		Expect(s.holds(ctx, created, instanceIDPath)).To(BeEmpty())

		machine := s.createMachine(ctx, "machine")
		both := machine.DeepCopy()
		with(instanceIDPath, id)(both)
		with("spec.flavor", "metal")(both)
		Expect(s.client.Patch(ctx, both, client.MergeFrom(machine))).To(Succeed())
		Expect(s.holds(ctx, machine, instanceIDPath)).To(BeEmpty())

		Expect(s.client.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		both = machine.DeepCopy()
		providerID(id)(both)
		with("status.instanceState", "running")(both)
		Expect(s.client.Status().Patch(ctx, both, client.MergeFrom(machine))).To(Succeed())
		Expect(s.holds(ctx, machine, providerIDPath)).To(BeEmpty())
		Expect(s.holds(ctx, machine, "status.instanceState")).To(Equal("running"))
	}, SpecTimeout(timeout))
})

// verb is a way to send a change of one field.
type verb struct {
	name    string
	creates bool
	send    func(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field, value string) error
}

var (
	post = verb{name: "POST", creates: true, send: func(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field, value string) error {
		with(field, value)(machine)
		return c.Create(ctx, machine)
	}}
	put = verb{name: "PUT", send: func(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field, value string) error {
		with(field, value)(machine)
		if isStatus(field) {
			return c.Status().Update(ctx, machine)
		}
		return c.Update(ctx, machine)
	}}
)

var verbs = []verb{
	post, put,
	{name: "server-side apply that creates", creates: true, send: serverSideApply},
	{name: "JSON patch", send: func(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field, value string) error {
		above, name, _ := strings.Cut(field, ".")
		return sendPatch(ctx, c, machine, field, types.JSONPatchType, `[{"op":"add","path":%q,"value":{%q:%q}}]`, "/"+above, name, value)
	}},
	{name: "merge patch", send: func(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field, value string) error {
		above, name, _ := strings.Cut(field, ".")
		return sendPatch(ctx, c, machine, field, types.MergePatchType, `{%q:{%q:%q}}`, above, name, value)
	}},
	{name: "server-side apply", send: serverSideApply},
}

func isStatus(field string) bool { return strings.HasPrefix(field, "status.") }

func sendPatch(
	ctx context.Context, c client.Client, machine *unstructured.Unstructured, field string, patchType types.PatchType, format string, args ...any,
) error {
	content := client.RawPatch(patchType, fmt.Appendf(nil, format, args...))
	if isStatus(field) {
		return c.Status().Patch(ctx, machine, content)
	}
	return c.Patch(ctx, machine, content)
}

func serverSideApply(ctx context.Context, c client.Client, machine *unstructured.Unstructured, field, value string) error {
	applied := newObject(machine.GroupVersionKind(), machine.GetNamespace(), machine.GetName(), with(field, value))
	applied.SetLabels(machine.GetLabels())
	content := client.ApplyConfigurationFromUnstructured(applied)
	if isStatus(field) {
		return c.Status().Apply(ctx, content, client.FieldOwner("provider"), client.ForceOwnership)
	}
	return c.Apply(ctx, content, client.FieldOwner("provider"), client.ForceOwnership)
}

// sameVerdict sends a claim that is denied and one that is admitted, each by a machine of its own. The unit test TestVerdicts has claims of all kinds.
func sameVerdict(ctx context.Context, s story, kind schema.GroupVersionKind, by verb, field string) {
	GinkgoHelper()
	for i, claim := range []struct{ id, reason string }{{s.othersServer("others").UUID, "InstanceNotOwned"}, {s.server("own").UUID, ""}} {
		machine := newMachine(s.namespace, fmt.Sprintf("machine-%d", i), clusterName)
		machine.SetGroupVersionKind(kind)
		if !by.creates {
			Expect(s.client.Create(ctx, machine)).To(Succeed())
		}
		value := valueOf(field, claim.id)
		earlier := s.admissions(ctx, nil)
		err := by.send(ctx, s.client, machine.DeepCopy(), field, value)
		Expect(s.admissions(ctx, nil)).To(Equal(earlier + 1))
		if claim.reason == "" {
			Expect(err).NotTo(HaveOccurred())
			Expect(s.holds(ctx, machine, field)).To(Equal(value))
			continue
		}
		expectDenial(err, claim.reason, field)
		if !by.creates {
			Expect(s.holds(ctx, machine, field)).To(BeEmpty())
		}
	}
}

// Other providers have their IDs in other fields: here both in spec, where one request may change both, and without /status.
var _ = Describe("A machine of a kind that was added to the configuration", Ordered, ContinueOnFailure, func() {
	const instancePath = "spec.instanceID"
	var (
		w *world
		s story
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{
			configuration: `
audit: {mode: Off}
machine:
  kinds:
  - {group: metal.example.com, version: v1, kind: MetalMachine, resource: metalmachines, instanceIDPath: spec.instanceID, provider: cloudsigma}
`,
			before: func(w *world) {
				Expect(w.api.ApplyCRDs(ctx, kubetest.OpenCRD(metalMachineKind, "v1alpha1"))).To(Succeed())
			},
		})
		s = w.begin(ctx)
	}, NodeTimeout(setupTimeout))

	metal := func(version, name string) *unstructured.Unstructured {
		machine := newMachine(s.namespace, name, clusterName)
		machine.SetGroupVersionKind(metalMachineKind.GroupKind().WithVersion(version))
		return machine
	}

	DescribeTable("may not name another's server", func(ctx SpecContext, field, version string, by verb) {
		machine := metal(version, "m-"+uuid.NewString())
		if !by.creates {
			Expect(s.client.Create(ctx, machine)).To(Succeed())
		}
		value := valueOf(field, s.othersServer("others").UUID)
		expectDenial(by.send(ctx, s.client, machine.DeepCopy(), field, value), "InstanceNotOwned", field)
		value = valueOf(field, s.server("own").UUID)
		Expect(by.send(ctx, s.client, machine.DeepCopy(), field, value)).To(Succeed())
		Expect(s.holds(ctx, machine, field)).To(Equal(value))
	},
		Entry("in the provider ID", providerIDPath, "v1", put, SpecTimeout(timeout)),
		Entry("in the instance ID", instancePath, "v1", post, SpecTimeout(timeout)),
	)

	It("may not name the server of a machine of another kind", func(ctx SpecContext) {
		id := s.server("own").UUID
		Expect(s.client.Create(ctx, newMachine(s.namespace, "sigma", clusterName, providerID(id)))).To(Succeed())
		claim := func(options ...client.CreateOption) error {
			machine := metal("v1", "rival")
			with(instancePath, id)(machine)
			return s.client.Create(ctx, machine, options...)
		}
		Eventually(func() error { return claim(client.DryRunAll) }).Should(HaveOccurred()) // it is watched, so seen a moment later
		err := claim()
		expectDenial(err, "InstanceIDConflict", instancePath)
		Expect(err).To(MatchError(ContainSubstring(`CloudSigmaMachine "sigma" names this instance already`)))
	}, SpecTimeout(timeout))
})

// metalMachineKind is a kind without the subresource status. It is served as v1alpha1, too.
var metalMachineKind = schema.GroupVersionKind{Group: "metal.example.com", Version: "v1", Kind: "MetalMachine"}
