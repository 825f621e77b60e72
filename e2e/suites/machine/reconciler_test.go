//go:build e2e

package machine_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// A provider that does not know warrantgate reaches a stable state behind the gate.
var _ = Describe("the provider's reconcile loop", Ordered, func() {
	var (
		w        *world
		incident cloudsigmatest.Incident
		// found are the machines of the incident before warrantgate is installed, by their problem.
		found map[string]*unstructured.Unstructured
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{before: func(w *world) {
			var err error
			incident, err = w.cloud.Incident()
			Expect(err).NotTo(HaveOccurred())
			found = w.leaveIncident(ctx, incident)
		}})
	}, NodeTimeout(setupTimeout))

	It("repairs the machine of the incident, without a second server", func(ctx SpecContext) {
		foreign := serversOf(w.cloud, incident.Other)
		machines := make([]*unstructured.Unstructured, 0, len(found))
		for _, machine := range found {
			machines = append(machines, machine)
		}
		p := w.newProvider(ctx, incident.User.Email)
		p.start(ctx, machines...)
		w.expectSettled(ctx, p, incident.User, machines...)

		Expect(w.instanceID(ctx, found["stale"])).To(Equal(incident.Created.UUID))
		Expect(w.instanceID(ctx, found["fine"])).To(Equal(incident.Sibling.UUID))
		// Each machine without a server got one, and no machine got a second one.
		Expect(w.cloud.Count(cloudsigmatest.CreateServer)).To(Equal(len(machines) - 4))
		Expect(serversOf(w.cloud, incident.User)).To(HaveLen(len(machines)))
		Expect(w.cloud.Count(cloudsigmatest.DeleteServer)).To(BeZero())
		Expect(serversOf(w.cloud, incident.Other)).To(Equal(foreign))
	}, SpecTimeout(timeout))

	// As in the incident: an operator corrects the user while the provider still acts as the previous one.
	It("retries without harm while it acts as another user than the cluster names, and succeeds once it acts as that user", func(ctx SpecContext) {
		s := story{world: w, namespace: w.namespace(ctx), user: w.user("successor@example.com")}
		earlier := w.user("predecessor@example.com")
		Expect(w.client.Create(ctx, newCluster(s.namespace, clusterName, s.user.Email))).To(Succeed())
		machines := []*unstructured.Unstructured{s.createMachine(ctx, "worker-a"), s.createMachine(ctx, "worker-b"), s.createMachine(ctx, "worker-c")}
		versions := w.versions(ctx, machineKind)

		began := time.Now()
		p := w.newProvider(ctx, earlier.Email)
		p.start(ctx, machines...)
		for _, machine := range machines {
			Eventually(func() int { return len(p.failed(machine)) }).Should(BeNumerically(">=", 20))
		}
		p.halt()
		took := time.Since(began)
		for _, machine := range machines {
			for _, err := range p.failed(machine) {
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
				Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%v", err)
			}
		}
		Expect(w.versions(ctx, machineKind)).To(Equal(versions), "a machine changed")
		Expect(serversOf(w.cloud, earlier)).To(HaveLen(len(machines)), "it made one server for each machine, and found that server in each retry")
		Expect(serversOf(w.cloud, s.user)).To(BeEmpty())
		// The gate asks the cloud once more about a first claim here, and caches the denial for a minute.
		Expect(w.cloud.Count(cloudsigmatest.GetServer, s.user.Email)).To(BeNumerically("<=", len(machines)*2*(1+int(took/time.Minute))))

		left := serversOf(w.cloud, earlier)
		p = w.newProvider(ctx, s.user.Email)
		p.start(ctx, machines...)
		w.expectSettled(ctx, p, s.user, machines...)
		Expect(serversOf(w.cloud, s.user)).To(HaveLen(len(machines)))
		Expect(serversOf(w.cloud, earlier)).To(Equal(left))
	}, SpecTimeout(timeout))

	It("creates one server for each machine, also while its owner is not known", func(ctx SpecContext) {
		s := w.begin(ctx)
		machines := []*unstructured.Unstructured{s.createMachine(ctx, "worker-a"), s.createMachine(ctx, "worker-b")}
		p := w.newProvider(ctx, s.user.Email) // it has its token, warrantgate has none
		down := w.cloud.Fail(cloudsigmatest.Status(500), 0, cloudsigmatest.ClientCredentials, cloudsigmatest.UMATicket, cloudsigmatest.Impersonate)
		DeferCleanup(down.Release)
		p.start(ctx, machines...)
		for _, machine := range machines {
			Eventually(func() int { return len(p.failed(machine)) }).Should(BeNumerically(">=", 10))
			for _, err := range p.failed(machine) {
				Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
				Expect(apierrors.HasStatusCause(err, "OwnershipUnknown")).To(BeTrue(), "%v", err)
			}
		}
		Expect(serversOf(w.cloud, s.user)).To(HaveLen(len(machines)))

		down.Release()
		w.expectSettled(ctx, p, s.user, machines...)
		Expect(serversOf(w.cloud, s.user)).To(HaveLen(len(machines)))
	}, SpecTimeout(timeout))
})

// leaveIncident creates machines in the state after the incident, and after others of its kind.
func (w *world) leaveIncident(ctx context.Context, incident cloudsigmatest.Incident) map[string]*unstructured.Unstructured {
	GinkgoHelper()
	namespace := w.namespace(ctx)
	Expect(w.client.Create(ctx, newCluster(namespace, clusterName, incident.User.Email))).To(Succeed())
	left := map[string]*unstructured.Unstructured{
		"stale": w.leaveMachine(ctx, namespace, incident.Created.Name, incident.Stale.UUID),
		"fine":  w.leaveMachine(ctx, namespace, incident.Sibling.Name, incident.Sibling.UUID),
		// Its own server does not even have its name.
		"renamed": w.leaveMachine(ctx, namespace, "renamed", ""),
		// Both fields name the server of the earlier identity.
		"stale twice": w.leaveMachine(ctx, namespace, "stale-twice", w.cloud.AddServer(region, incident.Other, "stale-twice").UUID),
		"stale alone": w.leaveMachine(ctx, namespace, "stale-alone", w.cloud.AddServer(region, incident.Other, "stale-alone").UUID),
		"gone":        w.leaveMachine(ctx, namespace, "gone", "00000000-9502-4311-919e-cd49f3416753"),
		"new":         w.leaveMachine(ctx, namespace, "new", ""),
		"newer":       w.leaveMachine(ctx, namespace, "newer", ""),
	}
	for _, own := range []struct{ machine, name string }{{"renamed", "other-name"}, {"stale twice", "stale-twice"}} {
		w.cloud.AddServer(region, incident.User, own.name, cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, string(left[own.machine].GetUID())))
	}
	twice := left["stale twice"]
	providerID(w.instanceID(ctx, twice))(twice)
	Expect(w.client.Update(ctx, twice)).To(Succeed())
	return left
}

// leaveMachine creates a machine with an instance ID as a user for whom no gate is called.
func (w *world) leaveMachine(ctx context.Context, namespace, name, uuid string) *unstructured.Unstructured {
	GinkgoHelper()
	machine := newMachine(namespace, name, clusterName)
	Expect(w.client.Create(ctx, machine)).To(Succeed())
	if uuid != "" {
		with("status.instanceID", uuid)(machine)
		Expect(w.client.Status().Update(ctx, machine)).To(Succeed())
	}
	return machine
}

// expectSettled waits until each machine names, in both fields, a server of the user that was created for it, and expects no write of a
// machine while the provider reconciles each of them again and again.
func (w *world) expectSettled(ctx context.Context, p *provider, user cloudsigmatest.User, machines ...*unstructured.Unstructured) {
	GinkgoHelper()
	owned := func(g Gomega) {
		for _, machine := range machines {
			current := newObject(machineKind, machine.GetNamespace(), machine.GetName())
			g.Expect(w.client.Get(ctx, client.ObjectKeyFromObject(machine), current)).To(Succeed())
			id, _, _ := unstructured.NestedString(current.Object, "status", "instanceID")
			g.Expect(serversOf(w.cloud, user)).To(ContainElement(HaveField("UUID", id)), machine.GetName())
			named, _, _ := unstructured.NestedString(current.Object, "spec", "providerID")
			g.Expect(named).To(Equal("cloudsigma://"+id), machine.GetName())
			state, _, _ := unstructured.NestedString(current.Object, "status", "instanceState")
			g.Expect(state).NotTo(BeEmpty(), machine.GetName())
		}
	}
	const again = 5
	Eventually(owned).Should(Succeed())
	before := w.machineWrites(ctx)
	for _, machine := range machines {
		earlier := p.timesObserved(machine)
		Eventually(func() int { return p.timesObserved(machine) }).Should(BeNumerically(">=", earlier+again), machine.GetName())
	}
	Expect(w.machineWrites(ctx)).To(Equal(before))
	owned(Default)
}

// machineWrites is the number of requests to write a machine that the API server got, with any result.
func (w *world) machineWrites(ctx context.Context) float64 {
	GinkgoHelper()
	config := w.api.Config()
	httpClient, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY"} {
		n, err := process.Metric(ctx, httpClient, strings.TrimSuffix(config.Host, "/"), "apiserver_request_total", map[string]string{
			"resource": "cloudsigmamachines", "verb": verb,
		})
		Expect(err).NotTo(HaveOccurred())
		sum += n
	}
	return sum
}

// serversOf are all servers of a user.
func serversOf(cloud *cloudsigmatest.Cloud, user cloudsigmatest.User) []cloudsigmatest.Server {
	var own []cloudsigmatest.Server
	for _, server := range cloud.Servers() {
		if server.Owner.UUID == user.UUID {
			own = append(own, server)
		}
	}
	return own
}
