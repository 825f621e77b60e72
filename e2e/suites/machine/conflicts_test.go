//go:build e2e

package machine_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IDs are compared after parsing, so their spelling does not matter. The unit tests TestLookAlikesHaveTheVerdictOfTheID, TestMalformedIDs and
// TestParseProviderID have all spellings.
var _ = Describe("A server in another spelling", sharing, func() {
	DescribeTable("gets the verdict on the server with that UUID", func(ctx SpecContext, field, other string, write func(id string) string) {
		s := begin(ctx)
		machine := s.createMachine(ctx, "machine")
		expectDenial(s.set(ctx, machine, field, write(s.othersServer("others").UUID)), "InstanceNotOwned", field)
		own := s.server("own").UUID
		Expect(s.set(ctx, machine, field, write(own))).To(Succeed())
		Expect(s.holds(ctx, machine, field)).To(Equal(write(own)))

		By("equal to the ID in the other field")
		Expect(s.set(ctx, machine, other, valueOf(other, own))).To(Succeed())

		By("denied on a second machine")
		rival := s.createMachine(ctx, "rival")
		s.expectHeld(ctx, rival, instanceIDPath, own, `CloudSigmaMachine "machine" names this instance already`)
	},
		Entry("in "+instanceIDPath, instanceIDPath, providerIDPath, func(id string) string { return " " + strings.ToUpper(id) + "/ " }, SpecTimeout(timeout)),
		Entry("in "+providerIDPath, providerIDPath, instanceIDPath, func(id string) string { return " CLOUDSIGMA:///" + strings.ToUpper(id) + "/ " },
			SpecTimeout(timeout)),
	)
})

// A server belongs to one machine, and a machine to a cluster with a user.
var _ = Describe("A server that another machine names", sharing, func() {
	It("is denied with the name of that machine if it is in the same namespace, until it clears the ID", func(ctx SpecContext) {
		s := begin(ctx)
		id := s.server("own").UUID
		Expect(s.client.Create(ctx, newMachine(s.namespace, "holder", clusterName, providerID(id)))).To(Succeed())
		rival := s.createMachine(ctx, "rival")
		s.expectHeld(ctx, rival, instanceIDPath, id, `CloudSigmaMachine "holder" names this instance already`)

		Expect(remove(ctx, s.client, newMachine(s.namespace, "holder", clusterName), providerIDPath)).To(Succeed())
		Expect(s.set(ctx, rival, instanceIDPath, id)).To(Succeed())

		third := s.createMachine(ctx, "third")
		s.expectHeld(ctx, third, providerIDPath, valueOf(providerIDPath, id), `CloudSigmaMachine "rival" names this instance already`)
		Expect(s.client.Delete(ctx, rival)).To(Succeed())
		Expect(s.set(ctx, third, providerIDPath, valueOf(providerIDPath, id))).To(Succeed())
	}, SpecTimeout(timeout))
})

var _ = Describe("A machine whose provider acts as an unknown user", sharing, func() {
	DescribeTable("may not name a server until the user is known",
		func(ctx SpecContext, reason, text string, without, mended func(context.Context, story, *unstructured.Unstructured)) {
			s := begin(ctx)
			id, text := s.server("own").UUID, strings.ReplaceAll(text, "{namespace}", s.namespace)
			machine := newMachine(s.namespace, "machine", "lame")
			without(ctx, s, machine)
			Expect(s.client.Create(ctx, machine)).To(Succeed())
			for _, field := range []string{instanceIDPath, providerIDPath} {
				err := s.set(ctx, machine, field, valueOf(field, id))
				expectDenial(err, reason, field)
				Expect(err).To(MatchError(ContainSubstring(text)))
				Expect(s.holds(ctx, machine, field)).To(BeEmpty())
			}
			Expect(s.lookups()).To(BeZero())
			Eventually(s.verdictEvents).WithArguments(ctx).Should(HaveEach(And(
				HaveField("Reason", reason), HaveField("InvolvedObject.UID", machine.GetUID()))))

			By("which takes effect at once")
			mended(ctx, s, machine)
			for _, field := range []string{instanceIDPath, providerIDPath} {
				Expect(s.set(ctx, machine, field, valueOf(field, id))).To(Succeed())
			}
		},
		Entry("its label is missing", "MachineWithoutCluster", "it has no label cluster.x-k8s.io/cluster-name",
			func(_ context.Context, _ story, machine *unstructured.Unstructured) { machine.SetLabels(nil) },
			func(ctx context.Context, s story, machine *unstructured.Unstructured) {
				s.moveMachine(ctx, machine, inCluster(clusterName))
			}, SpecTimeout(timeout)),
		Entry("its cluster is missing", "ClusterMissing", `there is no CloudSigmaCluster "lame" in namespace "{namespace}"`,
			func(context.Context, story, *unstructured.Unstructured) {},
			func(ctx context.Context, s story, _ *unstructured.Unstructured) {
				Expect(s.client.Create(ctx, newCluster(s.namespace, "lame", s.user.Email))).To(Succeed())
			}, SpecTimeout(timeout)),
		Entry("its cluster names no user", "UserMissing", `CloudSigmaCluster "lame": it names no user: neither spec.userEmail nor spec.userRef is set`,
			func(ctx context.Context, s story, _ *unstructured.Unstructured) {
				Expect(s.client.Create(ctx, newObject(clusterKind, s.namespace, "lame", with("spec.region", region)))).To(Succeed())
			},
			func(ctx context.Context, s story, _ *unstructured.Unstructured) {
				s.setCluster(ctx, "lame", "spec.userEmail", s.user.Email)
			},
			SpecTimeout(timeout)),
		Entry("its cluster's Secret is missing", "UserSecretMissing",
			`CloudSigmaCluster "lame": spec.userRef: there is no Secret "user" in namespace "{namespace}"`,
			func(ctx context.Context, s story, _ *unstructured.Unstructured) {
				secret := s.putUser(ctx, s.namespace, s.user.Email)
				Expect(s.client.Create(ctx, s.referringCluster("lame", ""))).To(Succeed())
				Expect(s.client.Delete(ctx, secret)).To(Succeed())
			}, nameUser, SpecTimeout(timeout)),
		Entry("its cluster's Secret is missing, in another namespace", "UserSecretMissing",
			`CloudSigmaCluster "lame": spec.userRef: there is no Secret "user" in namespace "users-of-{namespace}"`,
			func(ctx context.Context, s story, _ *unstructured.Unstructured) {
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "users-of-" + s.namespace}}
				Expect(s.client.Create(ctx, namespace)).To(Succeed())
				secret := s.putUser(ctx, namespace.Name, s.user.Email)
				Expect(s.client.Create(ctx, s.referringCluster("lame", namespace.Name))).To(Succeed())
				Expect(s.client.Delete(ctx, secret)).To(Succeed())
			},
			func(ctx context.Context, s story, _ *unstructured.Unstructured) {
				s.putUser(ctx, "users-of-"+s.namespace, s.user.Email)
			},
			SpecTimeout(timeout)),
		Entry("its cluster's Secret names no user", "UserMissing", `CloudSigmaCluster "lame": spec.userRef: Secret "user" in namespace "{namespace}"`,
			func(ctx context.Context, s story, _ *unstructured.Unstructured) {
				s.putUser(ctx, s.namespace, s.user.Email)
				Expect(s.client.Create(ctx, s.referringCluster("lame", ""))).To(Succeed())
				s.putUser(ctx, s.namespace, "")
			}, nameUser, SpecTimeout(timeout)),
	)
})

// nameUser makes the Secret "user" name the story's user.
func nameUser(ctx context.Context, s story, _ *unstructured.Unstructured) {
	s.putUser(ctx, s.namespace, s.user.Email)
}

// set writes one field of a machine.
func (s story) set(ctx context.Context, machine *unstructured.Unstructured, field, value string) error {
	return write(ctx, s.client, newMachine(machine.GetNamespace(), machine.GetName(), ""), field, value)
}

func (s story) setCluster(ctx context.Context, name, field, value string) {
	GinkgoHelper()
	cluster := newObject(clusterKind, s.namespace, name)
	Expect(write(ctx, s.client, cluster, field, value)).To(Succeed())
}

// expectHeld claims the server of another machine. warrantgate watches machines, so it knows the other machine a moment later.
func (s story) expectHeld(ctx context.Context, machine *unstructured.Unstructured, field, value, text string) {
	GinkgoHelper()
	bare := newMachine(machine.GetNamespace(), machine.GetName(), "")
	Eventually(func() error { return write(ctx, s.client, bare, field, value, client.DryRunAll) }).Should(MatchError(ContainSubstring(text)))
	err := s.set(ctx, machine, field, value)
	expectDenial(err, "InstanceIDConflict", field)
	Expect(err).To(MatchError(And(ContainSubstring(text), ContainSubstring("an instance can belong to one machine only"))))
	Expect(s.holds(ctx, machine, field)).To(BeEmpty())
}
