//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
)

// pairs is the number of pairs of machines that claim one server.
var pairs = volume.Of(6, 40)

// Guarantee 3: two machines that name one server at the same time are reported. The attacker edits two namespaces, and may name the user in both.
var _ = Describe("guarantee 3: two machines that claim one server at the same time", func() {
	// claim makes a machine name a server.
	type claim func(ctx context.Context, c client.Client, machine *unstructured.Unstructured, id string) error
	byCreation := func(ctx context.Context, c client.Client, machine *unstructured.Unstructured, id string) error {
		return c.Create(ctx, newMachine(machine.GetNamespace(), machine.GetName(), "pool", map[string]any{"providerID": "cloudsigma://" + id}))
	}
	for _, tc := range []struct {
		name  string
		apart bool // whether the machines are in two namespaces
		made  bool // whether the machines exist before
		ways  [2]claim
	}{
		{name: "of two namespaces, by their status", apart: true, made: true, ways: [2]claim{writeInstanceID, writeInstanceID}},
		{name: "of one namespace, by creation", ways: [2]claim{byCreation, byCreation}},
	} {
		It("are not both denied, and reported if both are admitted: "+tc.name, func(ctx SpecContext) {
			w := kube(ctx)
			first := w.editor(ctx, w.namespace(ctx))
			second := first
			if tc.apart {
				second = w.editor(ctx, w.namespace(ctx))
			}
			user := w.user("user-" + first.namespace + "@example.com")
			for _, editor := range []tenant{first, second} {
				w.permit(ctx, editor.name, user.Email)
				Expect(client.IgnoreAlreadyExists(editor.client.Create(ctx, newCluster(editor.namespace, "pool", user.Email)))).To(Succeed())
			}
			var both []*unstructured.Unstructured
			neither := 0
			for i := range pairs {
				server := w.server(user, fmt.Sprintf("worker-%d", i))
				machines := []*unstructured.Unstructured{
					newMachine(first.namespace, fmt.Sprintf("a-%d", i), "pool", nil), newMachine(second.namespace, fmt.Sprintf("b-%d", i), "pool", nil),
				}
				editors, errs := []tenant{first, second}, make([]error, 2)
				if tc.made {
					for n, machine := range machines {
						Expect(editors[n].client.Create(ctx, machine)).To(Succeed())
					}
				}
				var group sync.WaitGroup
				for n := range machines {
					group.Go(func() { errs[n] = tc.ways[n](ctx, editors[n].client, machines[n].DeepCopy(), server.UUID) })
				}
				group.Wait()
				switch {
				case errs[0] == nil && errs[1] == nil:
					both = append(both, machines...)
				case errs[0] != nil && errs[1] != nil:
					neither++
				}
				for _, err := range errs {
					if err != nil {
						Expect(apierrors.HasStatusCause(err, "InstanceIDConflict") && apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
					}
				}
			}
			AddReportEntry("pairs", fmt.Sprintf("%d pairs: both admitted %d, neither %d", pairs, len(both)/2, neither), ReportEntryVisibilityAlways)
			for _, machine := range both {
				w.expectReported(ctx, machine.GetNamespace(), machine.GetName(), "InstanceIDConflict")
			}
			Expect(neither).To(BeZero(), "pairs with no write admitted, of %d", pairs)
		}, SpecTimeout(startTimeout))
	}
})
