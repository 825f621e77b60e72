//go:build e2e

package machine_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/capcstest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// enforced is a configuration in which the gate on machines has its defaults, which worlds otherwise do not have.
const enforced = "machine: {mode: Enforce}\n"

// providerUser is the provider's service account, with the permissions of the real one.
var providerUser *rest.Config

// startProvider runs the provider of CloudSigma for the story's machines until it is stopped, or the spec ends. It impersonates users as the
// service account of the cloud.
func (s story) startProvider(ctx context.Context, modify ...func(*capcstest.Options)) *capcstest.Provider {
	GinkgoHelper()
	var err error
	if providerUser == nil {
		Expect(capcstest.Install(ctx, s.client)).To(Succeed())
		providerUser, err = s.api.ServiceAccount(ctx, capcstest.Namespace, capcstest.ServiceAccount)
		Expect(err).NotTo(HaveOccurred())
	}
	p, err := capcstest.Start(ctx, providerUser, s.namespace, s.providerOptions(modify...))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Stop)
	return p
}

func (s story) providerOptions(modify ...func(*capcstest.Options)) capcstest.Options {
	options := capcstest.Options{Cloud: s.cloud, Account: s.cloud.AddClient(serviceAccount), Shorten: 200}
	for _, change := range modify {
		change(&options)
	}
	return options
}

// createOwned creates a machine of the story's cluster that names no server, and the Machine of Cluster API that owns it.
func (s story) createOwned(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	machine := newMachine(s.namespace, name, clusterName, ownedBy(s.createOwner(ctx, name)))
	Expect(s.client.Create(ctx, machine)).To(Succeed())
	return machine
}

// createSeveral creates that many machines.
func (s story) createSeveral(ctx context.Context, prefix string, n int) []*unstructured.Unstructured {
	GinkgoHelper()
	machines := make([]*unstructured.Unstructured, 0, n)
	for i := range n {
		machines = append(machines, s.createOwned(ctx, fmt.Sprintf("%s-%d", prefix, i)))
	}
	return machines
}

// fields are the two fields of a machine that name its server.
type fields struct{ InstanceID, ProviderID string }

// identified returns the fields of the story's machines, by the names of the machines.
func (s story) identified(ctx context.Context) (map[string]fields, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(machineKind)
	err := s.client.List(ctx, list, client.InNamespace(s.namespace))
	named := map[string]fields{}
	for i := range list.Items {
		var f fields
		f.InstanceID, _, _ = unstructured.NestedString(list.Items[i].Object, "status", "instanceID")
		f.ProviderID, _, _ = unstructured.NestedString(list.Items[i].Object, "spec", "providerID")
		named[list.Items[i].GetName()] = f
	}
	return named, err
}

// expectSettled waits until each machine names, in both fields, a server of the story's user that no other machine names. Then it expects that
// no machine changes while the provider reconciles each of them again and again.
func (s story) expectSettled(ctx context.Context, p *capcstest.Provider, machines ...*unstructured.Unstructured) {
	GinkgoHelper()
	owned := func(g Gomega) {
		named, err := s.identified(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		own := map[string]bool{}
		for _, server := range serversOf(s.cloud, s.user) {
			own[server.UUID] = true
		}
		for _, machine := range machines {
			f := named[machine.GetName()]
			g.Expect(own).To(HaveKey(f.InstanceID), machine.GetName())
			g.Expect(f.ProviderID).To(Equal("cloudsigma://"+f.InstanceID), machine.GetName())
			delete(own, f.InstanceID)
		}
	}
	Eventually(owned).Should(Succeed())
	before := s.versions(ctx, machineKind)
	s.awaitAttempts(p, 2, machines...)
	Expect(s.versions(ctx, machineKind)).To(Equal(before))
	owned(Default)
}

// awaitAttempts waits until the provider has reconciled each machine n more times.
func (s story) awaitAttempts(p *capcstest.Provider, n int, machines ...*unstructured.Unstructured) {
	GinkgoHelper()
	earlier := map[string]int{}
	for _, machine := range machines {
		earlier[machine.GetName()] = p.Attempts(client.ObjectKeyFromObject(machine))
	}
	for _, machine := range machines {
		Eventually(p.Attempts).WithArguments(client.ObjectKeyFromObject(machine)).
			Should(BeNumerically(">=", earlier[machine.GetName()]+n), machine.GetName())
	}
}

// ending is the result of a story.
type ending struct {
	// Servers is the number of the user's servers.
	Servers int
	// Writes are the provider's writes of each machine in their order, without those that repeat the one before. Servers are numbered.
	Writes map[string][]string
}

// end stops the provider, and returns the result of the story.
func (s story) end(p *capcstest.Provider, machines ...*unstructured.Unstructured) ending {
	GinkgoHelper()
	Expect(p.Stop()).To(Succeed())
	e := ending{Servers: len(serversOf(s.cloud, s.user)), Writes: map[string][]string{}}
	for _, machine := range machines {
		numbers := map[string]int{"": 0}
		number := func(id string) int {
			if _, ok := numbers[id]; !ok {
				numbers[id] = len(numbers)
			}
			return numbers[id]
		}
		var writes []string
		for _, write := range p.Writes(client.ObjectKeyFromObject(machine)) {
			resource, result := "object", ""
			if write.Status {
				resource = "status"
			}
			if write.Err != nil {
				result = " failed"
			}
			instance := number(write.InstanceID)
			provider := number(uuidOf(write.ProviderID))
			text := fmt.Sprintf("%s instanceID=%d providerID=%d%s", resource, instance, provider, result)
			if len(writes) == 0 || writes[len(writes)-1] != text {
				writes = append(writes, text)
			}
		}
		e.Writes[machine.GetName()] = writes
	}
	return e
}

// uuidOf is the UUID in a provider ID.
func uuidOf(providerID string) string {
	const prefix = len("cloudsigma://")
	return providerID[min(prefix, len(providerID)):]
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
