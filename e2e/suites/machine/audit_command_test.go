//go:build e2e

package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// An operator can run an audit at any time by the command, with the permissions of serve or of an administrator.
var _ = Describe("warrantgate audit", Ordered, func() {
	var (
		w       *world
		s       story
		command auditCommand
		worker  *unstructured.Unstructured
		server  cloudsigmatest.Server
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: "audit: {mode: Off}\n"})
		s = w.begin(ctx)
		user, err := w.api.User(kubetest.WarrantgateUser)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err := w.api.KubeconfigFile("auditor", user)
		Expect(err).NotTo(HaveOccurred())
		command = auditCommand{world: w, args: []string{
			"--kubeconfig=" + kubeconfig, "--config=" + w.gate.ConfigFile(), "--rate=100",
			"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName,
		}}
		worker = s.createMachine(ctx, "worker")
		server = w.cloud.AddServer(region, s.user, "worker")
		Expect(w.setInstanceID(ctx, worker, server.UUID)).To(Succeed())
	}, NodeTimeout(setupTimeout))

	It("finds no problem, and exits with 0", func(ctx SpecContext) {
		got := command.run(ctx)
		Expect(got).To(Equal(audited{
			out:   "NAMESPACE   OBJECT   REASON   INSTANCE   MESSAGE\n",
			notes: got.notes,
		}))
		Expect(got.notes).To(MatchRegexp(`^machines: 1, accounts: 1, requests to the cloud: \d, findings: 0\n$`))
		Expect(command.run(ctx, "-o=json").out).To(BeEmpty())
	}, SpecTimeout(timeout))

	When("there are problems", Ordered, func() {
		var (
			want     []finding
			versions map[string]string
			servers  []cloudsigmatest.Server
		)
		BeforeAll(func(ctx SpecContext) {
			own := fmt.Sprintf("user %q in region %q", s.user.Email, region)
			// The machine was correct once. Its server now belongs to another user, and another server was created for the machine.
			elsewhere := w.cloud.AddServer(region, w.cloud.AddUser("earlier@example.com"), "worker", cloudsigmatest.WithUUID(server.UUID))
			spare := w.cloud.AddServer(region, s.user, "worker", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, string(worker.GetUID())))
			orphan := w.cloud.AddServer(region, s.user, "worker-0", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, "6f9619ff-8b86-4011-b42d-00c04fc964ff"))
			want = []finding{
				{"CloudSigmaCluster", s.namespace, clusterName, "InstanceOrphaned", orphan.UUID, s.user.Email, region, fmt.Sprintf(
					"instance %s (%q) of %s was created for a machine that does not exist here; delete it if nothing else uses it", orphan.UUID, "worker-0", own)},
				{"CloudSigmaMachine", s.namespace, "worker", "InstanceNotOwned", elsewhere.UUID, s.user.Email, region, fmt.Sprintf(
					"instance %s exists, but is not one of %s, which cluster %q acts as; the user's own instance for this machine is %s; "+
						"clear the field, so that the provider adopts an instance of the user or creates one", elsewhere.UUID, own, clusterName, spare.UUID)},
			}
			versions, servers = w.versions(ctx, machineKind, clusterKind), w.cloud.Servers()
		})

		It("prints them as JSON, one object a line, and exits with 1", func(ctx SpecContext) {
			got := command.run(ctx, "-o", "json")
			Expect(got.status).To(Equal(1))
			Expect(got.findings()).To(Equal(want))
		}, SpecTimeout(timeout))

		It("reports only what is wrong in the namespace of --namespace", func(ctx SpecContext) {
			got := command.run(ctx, "-o", "json", "--namespace="+s.namespace)
			Expect(got.status).To(Equal(1))
			Expect(got.findings()).To(Equal(want))
			elsewhere := command.run(ctx, "--namespace="+w.namespace(ctx))
			Expect(elsewhere.status).To(BeZero())
			Expect(elsewhere.notes).To(HaveSuffix("accounts: 0, requests to the cloud: 0, findings: 0\n"))
		}, SpecTimeout(timeout))

		It("exits with 2 if an account could not be audited, and prints the findings of the others", func(ctx SpecContext) {
			stranger := w.cloud.AddUser("stranger@example.com")
			theirs := newCluster(w.namespace(ctx), clusterName, stranger.Email)
			Expect(w.client.Create(ctx, theirs)).To(Succeed())
			got := command.run(ctx, "-o", "json")
			Expect(w.client.Delete(ctx, theirs)).To(Succeed())
			Expect(got.status).To(Equal(2))
			Expect(got.findings()).To(ContainElements(want))
			Expect(got.findings()).To(ContainElement(And(
				HaveField("Kind", "CloudSigmaCluster"), HaveField("Namespace", theirs.GetNamespace()), HaveField("Reason", "OwnershipUnknown"),
				HaveField("Message", ContainSubstring("the identity provider does not permit warrantgate to impersonate this user")))))
			Expect(got.notes).To(HavePrefix(`warrantgate: instances of user "stranger@example.com" in region "next": UserNotImpersonable: `))
		}, SpecTimeout(timeout))

		It("changes nothing", func(ctx SpecContext) {
			Expect(w.versions(ctx, machineKind, clusterKind)).To(Equal(versions))
			Expect(w.cloud.Servers()).To(Equal(servers))
			for _, object := range []*unstructured.Unstructured{worker, newObject(clusterKind, s.namespace, clusterName)} {
				Expect(w.client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				Expect(w.eventsOn(ctx, object)).To(BeEmpty(), "the command prints its findings, and writes no Events")
			}
		}, SpecTimeout(timeout))
	})
})

// auditCommand is the command with arguments.
type auditCommand struct {
	*world
	args []string
}

// audited is the output of the command, and its exit status.
type audited struct {
	out, notes string
	status     int
}

// run runs the command, which must never print a secret.
func (c auditCommand) run(ctx context.Context, more ...string) audited {
	GinkgoHelper()
	printed := suite.Warrantgate(ctx, slices.Concat([]string{"audit"}, c.args, more)...)
	for _, secret := range c.cloud.Secrets() {
		Expect(strings.Contains(printed.Stdout+printed.Stderr, secret)).To(BeFalse(), "it printed a secret")
	}
	return audited{out: printed.Stdout, notes: printed.Stderr, status: printed.Status}
}

// finding is one line of the output in JSON. It has no other fields.
type finding struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Instance  string `json:"instance"`
	User      string `json:"user"`
	Region    string `json:"region"`
	Message   string `json:"message"`
}

func (a audited) findings() []finding {
	GinkgoHelper()
	decoder := json.NewDecoder(strings.NewReader(a.out))
	decoder.DisallowUnknownFields()
	var all []finding
	for decoder.More() {
		var f finding
		Expect(decoder.Decode(&f)).To(Succeed())
		all = append(all, f)
	}
	Expect(strings.Count(a.out, "\n")).To(Equal(len(all)), "one object a line")
	return all
}
