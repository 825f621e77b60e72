//go:build e2e

package machine_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/capcstest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// replacements are what happens to the server of one machine, and what the provider does then.
var replacements = map[string]func(ctx context.Context, s story) ending{
	"a new machine": func(ctx context.Context, s story) ending {
		p := s.startProvider(ctx)
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		return s.end(p, machine)
	},
	"its server answers 404": func(ctx context.Context, s story) ending {
		p := s.startProvider(ctx)
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		s.cloud.RemoveServer(s.instanceID(ctx, machine))
		s.expectSettled(ctx, p, machine)
		return s.end(p, machine)
	},
	"both fields name another user's server, and its own server exists": func(ctx context.Context, s story) ending {
		p := s.startProvider(ctx)
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		own := s.server("worker")
		s.giveAwayOf(ctx, machine)
		s.expectSettled(ctx, p, machine)
		Expect(s.instanceID(ctx, machine)).To(Equal(own.UUID))
		return s.end(p, machine)
	},
	"both fields name another user's server, and it has no own server": func(ctx context.Context, s story) ending {
		p := s.startProvider(ctx)
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		s.giveAwayOf(ctx, machine)
		s.expectSettled(ctx, p, machine)
		return s.end(p, machine)
	},
	"its server is rebuilt, and providerID is written first": func(ctx context.Context, s story) ending {
		p := s.startProvider(ctx)
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		Expect(p.Stop()).To(Succeed())
		rebuilt := s.server("worker")
		Expect(s.client.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		s.cloud.RemoveServer(s.instanceID(ctx, machine))
		providerID(rebuilt.UUID)(machine)
		Expect(s.client.Update(ctx, machine)).To(Succeed())
		p = s.startProvider(ctx)
		s.expectSettled(ctx, p, machine)
		Expect(s.instanceID(ctx, machine)).To(Equal(rebuilt.UUID))
		return s.end(p, machine)
	},
}

// The provider names a server in two writes, status.instanceID first, and never clears spec.providerID.
var _ = Describe("the provider's order of writes", Ordered, ContinueOnFailure, func() {
	var (
		w *world
		// without are the results without warrantgate.
		without map[string]ending
		// left are machines with wrong IDs from before the installation, and withoutLeft is what became of the same machines without it.
		left        story
		found       []*unstructured.Unstructured
		withoutLeft ending
	)
	BeforeAll(func(ctx SpecContext) {
		without = map[string]ending{}
		w = newWorld(ctx, setup{configuration: enforced, before: func(w *world) {
			for name, replacement := range replacements {
				By("without warrantgate: " + name)
				without[name] = replacement(ctx, w.begin(ctx))
			}
			alone := w.begin(ctx)
			withoutLeft = alone.repairLeft(ctx, alone.leaveMachines(ctx))
			left = w.begin(ctx)
			found = left.leaveMachines(ctx)
		}})
		left.world = w
	}, NodeTimeout(setupTimeout))

	for name, replacement := range replacements {
		It("is as without warrantgate: "+name, func(ctx SpecContext) {
			s := w.begin(ctx)
			got := replacement(ctx, s)
			Expect(got).To(Equal(without[name]))
			Expect(got.Writes["worker"]).NotTo(ContainElement(HaveSuffix("failed")))
		}, SpecTimeout(timeout))
	}

	It("repairs machines that had wrong IDs before warrantgate was installed, as without it", func(ctx SpecContext) {
		foreign := serversOf(w.cloud, w.cloud.AddUser(othersEmail))
		Expect(left.repairLeft(ctx, found)).To(Equal(withoutLeft))
		Expect(w.cloud.Count(cloudsigmatest.DeleteServer)).To(BeZero())
		Expect(serversOf(w.cloud, w.cloud.AddUser(othersEmail))).To(Equal(foreign))
	}, SpecTimeout(timeout))

	It("removes the finalizer of a machine whose server is another user's, and keeps that server", func(ctx SpecContext) {
		s := w.begin(ctx)
		p := s.startProvider(ctx)
		machines := s.createSeveral(ctx, "worker", 2)
		s.expectSettled(ctx, p, machines...)
		Expect(p.Stop()).To(Succeed())
		s.giveAwayOf(ctx, machines[0])
		kept := s.instanceID(ctx, machines[0])
		for _, machine := range machines {
			Expect(s.client.Delete(ctx, machine)).To(Succeed())
		}
		s.startProvider(ctx)
		Eventually(s.identified).WithContext(ctx).Should(BeEmpty())
		Expect(serversOf(w.cloud, s.user)).To(BeEmpty())
		Expect(w.cloud.Servers()).To(ContainElement(HaveField("UUID", kept)))
	}, SpecTimeout(timeout))

	// The provider ignores the cluster's user if it has no impersonation, which was a deployment of it.
	It("is denied without harm while it acts with another account than the cluster's user, and succeeds once it acts as that user", func(ctx SpecContext) {
		s := w.begin(ctx)
		earlier := w.cloud.AddUser("shared-account@example.com")
		w.cloud.AllowPassword(earlier.Email, "password-of-the-shared-account")
		p := s.startProvider(ctx, func(o *capcstest.Options) {
			o.Account, o.Username, o.Password = cloudsigmatest.Client{}, earlier.Email, "password-of-the-shared-account"
		})
		machine := s.createOwned(ctx, "worker")
		key := client.ObjectKeyFromObject(machine)
		const repeats = 5
		Eventually(func() int { return len(p.Denied(key)) }).Should(BeNumerically(">=", repeats))
		Expect(p.Stop()).To(Succeed())
		for _, err := range p.Denied(key) {
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%v", err)
		}
		Expect(s.identified(ctx)).To(HaveKeyWithValue("worker", fields{}))
		made := serversOf(w.cloud, earlier)
		Expect(made).To(HaveLen(1), "it found the server that it had created in each retry")
		Expect(serversOf(w.cloud, s.user)).To(BeEmpty())

		p = s.startProvider(ctx)
		s.expectSettled(ctx, p, machine)
		Expect(s.end(p, machine).Servers).To(Equal(1))
		Expect(serversOf(w.cloud, earlier)).To(Equal(made))
	}, SpecTimeout(timeout))
})

// leaveMachines creates machines in the state after the incident, and after others of its kind, as a user whose writes no gate evaluates.
func (s story) leaveMachines(ctx context.Context) []*unstructured.Unstructured {
	GinkgoHelper()
	own := func(name string) string { return s.server(name).UUID }
	others := func(name string) string { return s.othersServer(name).UUID }
	both := func(id string) fields { return fields{InstanceID: id, ProviderID: "cloudsigma://" + id} }
	left := []*unstructured.Unstructured{
		s.leave(ctx, "fine", both(own("fine"))),
		// Of the incident: the provider never wrote the server that it had created.
		s.leave(ctx, "stale", fields{InstanceID: others("stale")}),
		s.leave(ctx, "stale-twice", both(others("stale-twice"))),
		s.leave(ctx, "stale-alone", both(others("stale-alone"))),
		s.leave(ctx, "stale-provider", fields{InstanceID: own("stale-provider"), ProviderID: "cloudsigma://" + others("stale-provider")}),
		s.leave(ctx, "renamed", both(others("renamed"))),
		s.leave(ctx, "gone", both("00000000-9a47-4b6e-8f21-7c9d0e1f2a3b")),
		s.leave(ctx, "new", fields{}),
	}
	own("stale")
	own("stale-twice")
	// The own server of this one does not even have its name.
	s.cloud.AddServer(region, s.user, "other-name", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, string(left[5].GetUID())))
	return left
}

// leave creates a machine with these fields.
func (s story) leave(ctx context.Context, name string, f fields) *unstructured.Unstructured {
	GinkgoHelper()
	machine := s.createOwned(ctx, name)
	if f.ProviderID != "" {
		with("spec.providerID", f.ProviderID)(machine)
		Expect(s.client.Update(ctx, machine)).To(Succeed())
	}
	if f.InstanceID != "" {
		with("status.instanceID", f.InstanceID)(machine)
		Expect(s.client.Status().Update(ctx, machine)).To(Succeed())
	}
	return machine
}

// repairLeft runs the provider until it has repaired machines. It creates a server for each of the three that have none.
func (s story) repairLeft(ctx context.Context, machines []*unstructured.Unstructured) ending {
	GinkgoHelper()
	before := len(serversOf(s.cloud, s.user))
	p := s.startProvider(ctx)
	s.expectSettled(ctx, p, machines...)
	e := s.end(p, machines...)
	Expect(e.Servers).To(Equal(before + 3))
	return e
}

// giveAwayOf makes the server of a machine that of another user.
func (s story) giveAwayOf(ctx context.Context, machine *unstructured.Unstructured) {
	GinkgoHelper()
	s.giveAway(cloudsigmatest.Server{UUID: s.instanceID(ctx, machine), Name: machine.GetName()})
}
