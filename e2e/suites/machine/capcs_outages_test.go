//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/capcstest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// The operations of the identity provider, and of the cloud's own APIs.
var (
	identityProvider = []cloudsigmatest.Operation{
		cloudsigmatest.ClientCredentials, cloudsigmatest.UMATicket, cloudsigmatest.TokenExchange, cloudsigmatest.Keys, cloudsigmatest.Discovery,
	}
	cloudItself = []cloudsigmatest.Operation{
		cloudsigmatest.Impersonate, cloudsigmatest.GetProfile, cloudsigmatest.GetServer, cloudsigmatest.ListServers,
		cloudsigmatest.CreateServer, cloudsigmatest.DeleteServer,
	}
)

// outages are what is away while the provider needs it. The user has more than a page of servers, so that each lost write of a new server's ID
// makes the provider create another server.
var outages = map[string]func(ctx context.Context, s story) ending{
	"warrantgate is away when a server answers 404": func(ctx context.Context, s story) ending {
		p := s.startProvider(ctx)
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		back := s.stopGate(ctx)
		s.cloud.RemoveServer(s.instanceID(ctx, machine))
		s.expectSettled(ctx, p, machine)
		back()
		s.expectSettled(ctx, p, machine)
		return s.end(p, machine)
	},
	"the cloud is away from the creation of a server on": func(ctx context.Context, s story) ending {
		return s.cloudAway(ctx, cloudsigmatest.Cut(), 2)
	},
	"the cloud does not respond from the creation of a server on": func(ctx context.Context, s story) ending {
		return s.cloudAway(ctx, cloudsigmatest.Hang(), 0)
	},
	"the first write of a server's ID is lost in a conflict": func(ctx context.Context, s story) ending {
		p := s.startProvider(ctx, func(o *capcstest.Options) {
			o.Created = func(machine client.ObjectKey, _ string) { s.annotateOnce(ctx, machine) }
		})
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		return s.end(p, machine)
	},
}

// The provider creates another server whenever it loses the ID of a new one, so that a gate that is away must not cost the user a server.
var _ = Describe("the provider during outages, for a user with more than one page of servers", Ordered, ContinueOnFailure, func() {
	const others = 25
	var (
		w       *world
		without map[string]ending
	)
	begin := func(ctx context.Context, w *world) story {
		s := w.begin(ctx)
		for i := range others {
			s.server(fmt.Sprintf("other-%d", i))
		}
		return s
	}
	BeforeAll(func(ctx SpecContext) {
		without = map[string]ending{}
		w = newWorld(ctx, setup{configuration: enforced, before: func(w *world) {
			for name, outage := range outages {
				By("without warrantgate: " + name)
				without[name] = outage(ctx, begin(ctx, w))
			}
		}})
	}, NodeTimeout(setupTimeout))

	for name, outage := range outages {
		It("writes and creates as much as without warrantgate: "+name, func(ctx SpecContext) {
			Expect(outage(ctx, begin(ctx, w))).To(Equal(without[name]))
		}, SpecTimeout(timeout))
	}

	It("waits with another ID for a machine until warrantgate is back, without another server", func(ctx SpecContext) {
		s := w.begin(ctx)
		p := s.startProvider(ctx)
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		before := s.instanceID(ctx, machine)
		back := s.stopGate(ctx)
		own := s.server("worker")
		s.giveAwayOf(ctx, machine)
		Eventually(func() int { return len(p.Denied(client.ObjectKeyFromObject(machine))) }).Should(BeNumerically(">=", 3))
		Expect(s.instanceID(ctx, machine)).To(Equal(before))
		back()
		s.expectSettled(ctx, p, machine)
		Expect(s.instanceID(ctx, machine)).To(Equal(own.UUID))
		Expect(s.end(p, machine).Servers).To(Equal(1))
	}, SpecTimeout(timeout))

	It("creates one server for each of many machines while warrantgate, the cloud and the identity provider are away in turn", func(ctx SpecContext) {
		s := w.begin(ctx)
		w.cloud.SetTokenLife(time.Hour)
		DeferCleanup(w.cloud.SetTokenLife, 5*time.Minute)
		// For each element, the cloud is away for some requests after it has created a server.
		lose := make(chan struct{}, 3)
		p := s.startProvider(ctx, func(o *capcstest.Options) {
			o.Shorten = 20
			o.Created = func(client.ObjectKey, string) {
				select {
				case <-lose:
					w.cloud.Fail(cloudsigmatest.Cut(), 10, cloudItself...)
				default:
				}
			}
		})
		machines := s.createSeveral(ctx, "first", 1)
		s.expectSettled(ctx, p, machines...) // the provider has its tokens
		each := volume.Of(5, 16)
		var wrong []*unstructured.Unstructured

		By("warrantgate is away")
		back := s.stopGate(ctx)
		wrong = append(wrong, s.claimOthers(ctx, "wrong-without-warrantgate"))
		machines = append(machines, s.createSeveral(ctx, "without-warrantgate", each)...)
		s.expectSettled(ctx, p, machines...)
		back()

		By("the cloud is away")
		down := w.cloud.Fail(cloudsigmatest.Cut(), 0, cloudItself...)
		DeferCleanup(down.Release)
		wrong = append(wrong, s.claimOthers(ctx, "wrong-without-cloud"))
		more := s.createSeveral(ctx, "without-cloud", each+1)
		machines = append(machines, more...)
		s.awaitAttempts(p, 3, more...)
		for range cap(lose) {
			lose <- struct{}{}
		}
		down.Release()
		s.expectSettled(ctx, p, machines...)

		By("the identity provider is away, and warrantgate has no token")
		back = s.stopGate(ctx)
		down = w.cloud.Fail(cloudsigmatest.Cut(), 0, identityProvider...)
		DeferCleanup(down.Release)
		back()
		wrong = append(wrong, s.claimOthers(ctx, "wrong-without-identity-provider"))
		machines = append(machines, s.createSeveral(ctx, "without-identity-provider", each)...)
		s.expectSettled(ctx, p, machines...)
		down.Release()
		s.expectSettled(ctx, p, machines...)

		e := s.end(p, machines...)
		Expect(e.Servers).To(Equal(len(machines)))
		for name, writes := range e.Writes {
			Expect(writes).NotTo(ContainElement(HaveSuffix("failed")), name)
		}

		By("each claim without an answer was checked later")
		for _, machine := range wrong {
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(machine).WithTimeout(2*time.Minute).Should(ContainElement(And(
				HaveField("Reason", "InstanceNotOwned"), HaveField("Message", HavePrefix("Audit: instance "+s.instanceID(ctx, machine))))), machine.GetName())
		}
	}, SpecTimeout(2*timeout))
})

// claimOthers creates a machine that the provider does not know, with a first claim of another user's server, which is admitted.
func (s story) claimOthers(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	machine := s.createMachine(ctx, name)
	Expect(s.setInstanceID(ctx, machine, s.othersServer(name).UUID)).To(Succeed())
	return machine
}

// stopGate stops warrantgate, if it is installed, and returns the function that starts it again.
func (w *world) stopGate(ctx context.Context) (back func()) {
	GinkgoHelper()
	if w.gate == nil {
		return func() {}
	}
	Expect(w.gate.Stop()).To(Succeed())
	stopped := true
	start := func(ctx context.Context) {
		GinkgoHelper()
		if stopped {
			stopped = false
			Expect(w.gate.Start(ctx)).To(Succeed())
			w.awaitGate(ctx)
		}
	}
	DeferCleanup(start) // for the next spec, if this one fails
	return func() {
		GinkgoHelper()
		start(ctx)
	}
}

// cloudAway creates a machine. The cloud has a fault from when it has created the machine's server, until the machine names it in both fields and
// the provider has reconciled it that many more times.
func (s story) cloudAway(ctx context.Context, fault cloudsigmatest.Fault, attempts int) ending {
	GinkgoHelper()
	var down *cloudsigmatest.Failure
	var once sync.Once
	away := make(chan struct{})
	p := s.startProvider(ctx, func(o *capcstest.Options) {
		o.Created = func(client.ObjectKey, string) {
			once.Do(func() {
				down = s.cloud.Fail(fault, 0)
				close(away)
			})
		}
	})
	machine := s.createOwned(ctx, "worker")
	Eventually(away).Should(BeClosed())
	defer down.Release()
	Eventually(func() (fields, error) {
		named, err := s.identified(ctx)
		return named["worker"], err
	}).Should(HaveField("ProviderID", Not(BeEmpty())))
	s.awaitAttempts(p, attempts, machine)
	down.Release()
	s.expectSettled(ctx, p, machine)
	return s.end(p, machine)
}

// annotateOnce changes a machine that has no annotation, as other controllers do.
func (s story) annotateOnce(ctx context.Context, machine client.ObjectKey) {
	current := newObject(machineKind, machine.Namespace, machine.Name)
	if err := s.client.Get(ctx, machine, current); err != nil || current.GetAnnotations() != nil {
		return
	}
	changed := current.DeepCopy()
	changed.SetAnnotations(map[string]string{"example.com/seen": "true"})
	_ = s.client.Patch(ctx, changed, client.MergeFrom(current)) // without it, the spec fails because no write is lost
}
